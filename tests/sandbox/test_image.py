"""The image of the sandbox: what it is made of, when it is made again, and what is said where it cannot be."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import stat
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from proxy.cli import build
from proxy.errors import SandboxError
from proxy.sandbox import image as images
from proxy.sandbox.base_image import write_base
from proxy.sandbox.docker_client import open_engine
from proxy.sandbox.frames import VERSION
from proxy.sandbox.image import (
    BASE,
    CONTENT_LABEL,
    HOST,
    IMAGE,
    VERSION_LABEL,
    build_image,
    content_hash,
    ensure_image,
    image_status,
    remove_images,
    sources,
)

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="a base image is made of a Linux interpreter")


@pytest.fixture(scope="module")
def archive() -> bytes:
    written = io.BytesIO()
    write_base(written)
    return written.getvalue()


@pytest.fixture
def base(archive: bytes) -> Iterator[tarfile.TarFile]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        yield tar


@on_linux
def test_a_base_image_holds_what_python_needs_and_nobodys_files(base: tarfile.TarFile) -> None:
    names = set(base.getnames())
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    assert {f"usr/local/bin/{python}", "usr/local/bin/python3", f"usr/local/lib/{python}/json/__init__.py"} <= names
    assert {"usr/bin/sh", "usr/bin/sleep", "etc/passwd", "tmp"} <= names
    assert base.getmember("tmp").mode == 0o1777
    passwd = base.extractfile("etc/passwd")
    assert passwd is not None
    assert b"sandbox:x:10001:10001:" in passwd.read()
    assert [name for name in names if re.search(r"site-packages|dist-packages|/test/|ensurepip/_bundled", name)] == []
    assert {name.split("/")[0] for name in names} <= {
        *("bin", "dev", "etc", "home", "lib", "lib64", "opt", "proc", "root", "run", "sys", "tmp", "usr", "var"),
    }
    owners = {(member.uid, member.gid, member.uname, member.gname) for member in base}
    assert owners == {(0, 0, "", "")}
    assert [member.name for member in base if member.mode & (stat.S_ISUID | stat.S_ISGID)] == []


@on_linux
def test_a_base_image_is_the_same_bytes_every_time(archive: bytes, base: tarfile.TarFile) -> None:
    again = io.BytesIO()
    assert write_base(again) == hashlib.sha256(archive).hexdigest()
    assert again.getvalue() == archive
    assert len(base.getnames()) == len(set(base.getnames()))


def test_the_content_hash_tells_every_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in sources().glob("*.py"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "Dockerfile").write_bytes((sources() / "Dockerfile").read_bytes())
    original = content_hash()
    monkeypatch.setattr(images, "sources", lambda: tmp_path)
    assert content_hash() == original
    (tmp_path / "notes.txt").write_text("no part of it")
    assert content_hash() == original
    (tmp_path / "supervisor.py").write_bytes((tmp_path / "supervisor.py").read_bytes() + b"\n")
    assert content_hash() != original


def test_an_installation_gets_every_file_of_the_image() -> None:
    root = sources().parents[1]
    patterns = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["data-files"]
    installed = {path for pattern in patterns["share/toolatlas/sandbox"] for path in root.glob(pattern)}
    assert installed == {path for path in sources().iterdir() if path.is_file()}


def test_a_gateway_without_an_engine_does_not_load_its_library() -> None:
    code = "import sys, proxy.commands.sandbox, proxy.sandbox.docker; print('docker' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.strip() == "False"


@pytest.mark.parametrize("host", ["unix:///nowhere/docker.sock", "tcp://127.0.0.1:9"])
def test_without_an_engine_it_is_said_what_to_do(host: str) -> None:
    with pytest.raises(SandboxError, match=rf"there is no Docker engine at {host}\. Install and start Docker"):
        open_engine({"DOCKER_HOST": host})


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="sockets with rights are of Unix")
def test_a_socket_that_may_not_be_used_is_told_from_one_that_is_not_there(tmp_path: Path) -> None:
    """In a process of its own, which gives up the rights of root first: those do not ask."""
    address = tmp_path / "docker.sock"
    code = f"""
import os, socket
from proxy.errors import SandboxError
from proxy.sandbox.docker_client import open_engine
import docker, requests, urllib3  # while the files can be read
listening = socket.socket(socket.AF_UNIX)
listening.bind({str(address)!r})
listening.listen()
os.chmod({str(address)!r}, 0)
if os.geteuid() == 0:
    os.chmod({str(tmp_path)!r}, 0o700)
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    open_engine({{"DOCKER_HOST": "unix://{address}"}})
except SandboxError as error:
    print(error)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout
    assert said.startswith(f"this user may not use the Docker engine at unix://{address}: add it to the group `docker`")


def test_a_base_that_cannot_run_here_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Elsewhere:
        def version(self) -> dict[str, str]:
            return {"Arch": "s390x", "Os": "linux"}

    with pytest.raises(SandboxError, match="it has linux on s390x, this is "):
        build_image(Elsewhere(), base=HOST)


@pytest.fixture
def client(engine: Any) -> Any:
    return engine.client


@pytest.mark.docker
def test_an_image_that_is_current_is_not_built_again(client: Any) -> None:
    said: list[str] = []
    first = ensure_image(client, note=said.append)
    said.clear()
    assert ensure_image(client, note=said.append) == first
    assert said == []
    status = image_status(client)
    assert (status.name, status.id, status.current) == (IMAGE, first, True)
    labels = client.images.get(first).labels
    assert (labels[VERSION_LABEL], labels[CONTENT_LABEL]) == (str(VERSION), content_hash())


@pytest.mark.docker
def test_an_image_of_other_files_is_built_again(client: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Under other names: the real one is in use."""
    ensure_image(client)
    base = image_status(client).base
    monkeypatch.setattr(images, "REPOSITORY", "toolatlas-test")
    monkeypatch.setattr(images, "IMAGE", "toolatlas-test:rebuilt")
    monkeypatch.setattr(images, "BASE", "toolatlas-test-base")
    monkeypatch.setattr(images, "VERSION_LABEL", "toolatlas.test.version")
    for file in sources().iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    said: list[str] = []
    assert not image_status(client).current
    first = ensure_image(client, base=base, note=said.append)
    try:
        assert said == [f"Building toolatlas-test:rebuilt on {base}."]
        monkeypatch.setattr(images, "sources", lambda: tmp_path)
        assert image_status(client).current
        (tmp_path / "hints.py").write_text((tmp_path / "hints.py").read_text() + "# changed\n")
        assert not image_status(client).current
        second = ensure_image(client, base=base)
        assert second != first
        assert image_status(client).current
        monkeypatch.setattr(images, "VERSION", VERSION + 1)
        assert not image_status(client).current
    finally:
        removed = remove_images(client)
    assert removed == ["toolatlas-test:rebuilt", first]
    assert image_status(client).id is None


@pytest.mark.docker
@on_linux
def test_without_a_registry_the_base_is_made_of_this_python(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of the usual base is one that no registry has, so that this is so everywhere."""
    monkeypatch.setattr(images, "_default_base", lambda: "localhost:9/nothing:here")
    monkeypatch.setattr(images, "IMAGE", "toolatlas-test:offline")
    said: list[str] = []
    try:
        built = build_image(client, note=said.append)
        assert image_status(client).id == built
    finally:
        client.images.remove("toolatlas-test:offline")
    assert said[0] == "Fetching localhost:9/nothing:here."
    assert said[1].startswith("It cannot be fetched (localhost:9/nothing:here cannot be fetched: ")
    assert said[2].startswith("Making a base image of this machine's Python 3.")
    assert said[3].startswith(f"Building toolatlas-test:offline on {BASE}:")


@pytest.mark.docker
def test_a_base_that_is_not_there_is_an_error_where_it_was_asked_for(client: Any) -> None:
    with pytest.raises(SandboxError, match="localhost:9/nothing:here cannot be fetched"):
        build_image(client, base="localhost:9/nothing:here")


@pytest.mark.docker
def test_the_command_shows_the_image(client: Any) -> None:
    found = ensure_image(client)
    shown = CliRunner().invoke(build(), ["sandbox", "status", "--json"])
    assert shown.exit_code == 0
    assert (json.loads(shown.stdout)["id"], json.loads(shown.stdout)["current"]) == (found, True)


@pytest.mark.docker
def test_the_command_says_that_there_is_none(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "IMAGE", "toolatlas-test:never")
    shown = CliRunner().invoke(build(), ["sandbox", "status"])
    assert shown.exit_code == 3
    assert "not built. Run toolatlas sandbox build" in shown.stdout


@pytest.mark.docker
def test_a_base_without_python_is_an_error_that_shows_why(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "IMAGE", "toolatlas-test:failed")
    with tarfile.open(fileobj=(archive := io.BytesIO()), mode="w") as tar:
        tar.addfile(tarfile.TarInfo("empty"))
    client.api.import_image_from_data(archive.getvalue(), repository="toolatlas-test-base", tag="empty")
    try:
        with pytest.raises(
            SandboxError,
            match=r"toolatlas-test:failed cannot be built on toolatlas-test-base:empty: (?s:.+)"
            r"COPY compile_all",
        ):
            build_image(client, base="toolatlas-test-base:empty")
    finally:
        empty = client.images.get("toolatlas-test-base:empty").id
        # The steps that worked stay in the engine as images without a name.
        for image in client.images.list(filters={"dangling": True}):
            if any(step["Id"] == empty for step in image.history()):
                client.images.remove(image.id)
        client.images.remove("toolatlas-test-base:empty")


@pytest.mark.docker
def test_an_image_has_all_of_python(client: Any) -> None:
    code = """
import os, ssl, sqlite3, ctypes, lzma, bz2, zoneinfo, asyncio, uuid, decimal, multiprocessing
print(zoneinfo.ZoneInfo('Europe/Paris'), os.path.exists(asyncio.__cached__), os.popen('id -u').read())
"""
    command, image = ["-I", "-c", code], ensure_image(client)
    printed = client.containers.run(image, command, entrypoint="python3", network_mode="none", remove=True)
    assert printed.split() == [b"Europe/Paris", b"True", b"10001"]
