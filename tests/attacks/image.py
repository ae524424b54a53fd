"""The image whose containers are attacked: the one that the gateway uses, built where it is not there."""

from __future__ import annotations

import os
from contextlib import closing

from proxy.sandbox.docker_client import open_engine
from proxy.sandbox.image import ensure_image


def sandbox_image() -> str:
    """Its id.

    Raises:
        SandboxError: It cannot be built, or there is no engine.
    """
    with closing(open_engine(os.environ)) as client:
        return ensure_image(client)
