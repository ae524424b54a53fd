"""scipy, which only measuring and calibrating a judge needs: imported when it is used.

Above: agreement.py, calibration.py.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from proxy.errors import ConfigurationError


def scipy_part(name: str) -> Any:
    """The module `scipy.NAME`.

    Raises:
        ConfigurationError: scipy is not installed.
    """
    try:
        return import_module(f"scipy.{name}")
    except ImportError as error:
        raise ConfigurationError(
            f"measuring and calibrating a judge needs scipy, which cannot be imported ({error}): "
            "pip install 'toolatlas[judge]'"
        ) from error
