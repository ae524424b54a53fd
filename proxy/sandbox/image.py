"""The image that the Docker backend starts: made from deploy/sandbox/, known again by what it was made of.

Above: docker.py and commands/sandbox.py. Below: base_image.py. Everything here blocks; call it in a thread. `client` is
a `docker.DockerClient`, whose library has no types.
"""

from __future__ import annotations

import hashlib
import io
import platform
import re
import sys
import tarfile
import tempfile
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, cast

from proxy import __version__
from proxy.errors import SandboxError
from proxy.sandbox.base_image import CHANGES, write_base
from proxy.sandbox.docker_client import engine_errors
from proxy.sandbox.frames import VERSION

REPOSITORY = "toolatlas-sandbox"
IMAGE = f"{REPOSITORY}:{__version__}"
BASE = f"{REPOSITORY}-base"
HOST = "host"
"""In place of a base image's name: one made of this machine's own interpreter."""

VERSION_LABEL = "toolatlas.sandbox.version"
CONTENT_LABEL = "toolatlas.sandbox.content"
BASE_LABEL = "toolatlas.sandbox.base"

BUILD_LOG = 1_000
"""Characters of a failed build's output that are shown."""
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
"""How engines and Python call the same."""


@dataclass(frozen=True, slots=True)
class ImageStatus:
    """What the engine has."""

    name: str
    id: str | None
    """None where there is none."""
    base: str | None
    size_bytes: int
    current: bool
    """Whether it was made from the files of this installation."""


def image_status(client: Any) -> ImageStatus:
    """Raises SandboxError when the engine fails."""
    from docker.errors import ImageNotFound

    with engine_errors("the engine does not tell its images"):
        try:
            image = client.images.get(IMAGE)
        except ImageNotFound:
            return ImageStatus(IMAGE, None, None, 0, False)
        labels: dict[str, str] = image.labels
        current = labels.get(VERSION_LABEL) == str(VERSION) and labels.get(CONTENT_LABEL) == content_hash()
        return ImageStatus(IMAGE, image.id, labels.get(BASE_LABEL), image.attrs["Size"], current)


def ensure_image(client: Any, *, base: str | None = None, note: Callable[[str], None] | None = None) -> str:
    """The id of the image, which is built first if there is none or if it was made from other files.

    `note` is told what is done, a sentence at a time; `base` as for `build_image`.

    Raises:
        SandboxError: It cannot be built.
    """
    status = image_status(client)
    return status.id if status.id is not None and status.current else build_image(client, base=base, note=note)


def build_image(client: Any, *, base: str | None = None, note: Callable[[str], None] | None = None) -> str:
    """Build it in any case; returns its id.

    `base` is the name of an image, or `host`. Without it, the one the Dockerfile names is taken from the engine or its
    registry; where neither has it, one is made of this machine's interpreter.

    Raises:
        SandboxError: It cannot be built; says why.
    """
    say = note or _say_nothing
    name = _find_base(client, base, say)
    say(f"Building {IMAGE} on {name}.")
    labels = {VERSION_LABEL: str(VERSION), CONTENT_LABEL: content_hash(), BASE_LABEL: name}
    refused = f"the image {IMAGE} cannot be built on {name}"
    from docker.errors import BuildError

    with engine_errors(refused):
        try:
            image, _ = client.images.build(
                fileobj=io.BytesIO(_context()),
                custom_context=True,
                tag=IMAGE,
                buildargs={"BASE_IMAGE": name},
                labels=labels,
                network_mode="none",
                rm=True,
                forcerm=True,
            )
        except BuildError as error:
            # What the step that failed has printed says more than its exit code.
            log = "".join(str(line.get("stream", "")) for line in cast("Iterable[dict[str, Any]]", error.build_log))
            raise SandboxError(f"{refused}: {error}\n{log[-BUILD_LOG:].strip()}") from error
        return str(image.id)


def remove_images(client: Any) -> list[str]:
    """Remove the images of this and other versions, replaced ones, and the bases made of a host's interpreter. Returns
    their names.

    Raises:
        SandboxError: One is in use, or the engine fails.
    """
    removed: list[str] = []
    with engine_errors("the images cannot be removed"):
        for repository in (REPOSITORY, BASE):
            for image in client.images.list(repository):
                for tag in image.tags:
                    if tag.rpartition(":")[0] == repository:
                        client.images.remove(tag)
                        removed.append(tag)
        for image in client.images.list(filters={"dangling": True, "label": VERSION_LABEL}):
            with _unless_in_use():
                client.images.remove(image.id)
                removed.append(image.id)
    return removed


def sources() -> Path:
    """The folder with the Dockerfile: in a checkout, or where the installation has put it.

    Raises:
        SandboxError: This installation has none.
    """
    checkout = Path(__file__).parents[2] / "deploy" / "sandbox"
    if (checkout / "supervisor.py").is_file():
        return checkout
    for file in metadata.files("toolatlas") or ():
        if file.as_posix().endswith("share/toolatlas/sandbox/Dockerfile"):
            return Path(str(file.locate())).resolve().parent
    raise SandboxError("this installation of toolatlas has no files for the sandbox: install it again")


def content_hash() -> str:
    """Of all that goes into the image beside its base."""
    return hashlib.sha256(_context()).hexdigest()


@contextmanager
def _unless_in_use() -> Generator[None]:
    """A replaced image may still be what a running gateway starts."""
    from docker.errors import APIError

    try:
        yield
    except APIError as error:
        if error.status_code != 409:
            raise


def _context() -> bytes:
    """The build context, the same bytes for the same files."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for file in sorted(sources().iterdir()):
            if file.name == "Dockerfile" or file.suffix == ".py":
                data = file.read_bytes()
                info = tarfile.TarInfo(file.name)
                info.size, info.mode = len(data), 0o644
                tar.addfile(info, io.BytesIO(data))
    return archive.getvalue()


def _say_nothing(text: str) -> None:
    pass


def _default_base() -> str:
    found = re.search(r"^ARG BASE_IMAGE=(\S+)$", (sources() / "Dockerfile").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def _find_base(client: Any, wanted: str | None, say: Callable[[str], None]) -> str:
    if wanted == HOST:
        return _host_base(client, say)
    name = wanted or _default_base()
    if _has(client, name):
        return name
    say(f"Fetching {name}.")
    try:
        _pull(client, name)
    except SandboxError as error:
        if wanted is not None:
            raise
        say(f"It cannot be fetched ({error}).")
        return _host_base(client, say)
    return name


def _has(client: Any, name: str) -> bool:
    from docker.errors import ImageNotFound

    with engine_errors("the engine does not tell its images"):
        try:
            client.images.get(name)
        except ImageNotFound:
            return False
    return True


def _pull(client: Any, name: str) -> None:
    from docker.utils import parse_repository_tag

    repository, tag = parse_repository_tag(name)
    with engine_errors(f"{name} cannot be fetched"):
        for line in client.api.pull(repository, tag=tag or "latest", stream=True, decode=True):
            if "error" in line:
                raise SandboxError(f"{name} cannot be fetched: {line['error']}")


def _host_base(client: Any, say: Callable[[str], None]) -> str:
    """Raises SandboxError where this machine's interpreter cannot run in a container of this engine."""
    with engine_errors("the engine does not tell what it runs on"):
        engine = client.version()
    machine = MACHINES.get(engine["Arch"], engine["Arch"])
    if sys.platform != "linux" or engine["Os"] != "linux" or machine != platform.machine():
        raise SandboxError(
            f"a base image can only be made of this machine's Python where the engine runs the same kind of system: "
            f"it has {engine['Os']} on {machine}, this is {sys.platform} on {platform.machine()}. "
            "Name an image that the engine can reach: toolatlas sandbox build --base IMAGE"
        )
    say(f"Making a base image of this machine's Python {platform.python_version()}.")
    with tempfile.TemporaryFile() as archive:
        try:
            tag = write_base(archive)[:12]
        except OSError as error:
            raise SandboxError(f"a base image cannot be made of this machine's Python: {error}") from error
        name = f"{BASE}:{tag}"
        if not _has(client, name):
            archive.seek(0)
            with engine_errors("the base image cannot be loaded into the engine"):
                # This form of it waits as long as it takes.
                client.api.import_image_from_data(archive, repository=BASE, tag=tag, changes=CHANGES)
    return name
