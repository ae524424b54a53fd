"""A base image made of this machine's own Python, for engines that reach no registry.

Above: image.py. Holds the interpreter, its standard library, the libraries both need, time zones and a few commands;
nothing that was installed into the interpreter, and no file of the user's.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

PREFIX = Path("/usr/local")
"""Where the interpreter lies in the image, as in the published images of Python."""
FOLDERS = (
    *("usr", "usr/bin", "usr/lib", "usr/lib64", "usr/local", "usr/local/bin"),
    *("etc", "proc", "sys", "dev", "run", "var", "home", "root", "opt"),
)
LINKS = {"bin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64"}
COMMANDS = ("sh", "cat", "ls", "mkdir", "cp", "mv", "rm", "ln", "chmod", "sleep", "env", "id", "echo")
UNUSED = re.compile(r"/(test|tests|idlelib|turtledemo|_bundled|config-[^/]*|site-packages|dist-packages)(/|$)|\.a$")
ZONES = Path("/usr/share/zoneinfo")
USERS = "root:x:0:0::/root:/bin/sh\nsandbox:x:10001:10001::/tmp:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n"
GROUPS = "root:x:0:\nsandbox:x:10001:\nnogroup:x:65534:\n"
CHANGES = ["ENV PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8"]
"""What the image needs beside its files, as instructions of a Dockerfile."""


def write_base(to: BinaryIO) -> str:
    """Write the image's files as a tar archive, the same bytes every time. Returns their SHA-256 in hex.

    Raises:
        OSError: A file cannot be read, or `ldd` is missing.
    """
    hashing = _Hashing(to)
    with tarfile.open(fileobj=hashing, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        _Base(tar).write()
    return hashing.sha256.hexdigest()


class _Hashing(io.RawIOBase):
    def __init__(self, to: BinaryIO) -> None:
        self._to = to
        self.sha256 = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: bytes, /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.sha256.update(data)
        return self._to.write(data)


class _Base:
    """Puts files into the archive, and remembers which of them need libraries."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self._written: set[Path] = set()
        self._binaries: list[Path] = []

    def write(self) -> None:
        for name in FOLDERS:
            self._folder(name, 0o755)
        for name in ("tmp", "var/tmp"):
            self._folder(name, 0o1777)
        for name, target in LINKS.items():
            self._link(Path("/", name), target)
        self._interpreter()
        for command in COMMANDS:
            if found := next(
                (path for path in (Path("/usr/bin", command), Path("/bin", command)) if path.exists()), None
            ):
                self._file(found, Path("/usr/bin", command))
        for zone in _files(ZONES, skip=("posix", "right")):
            self._file(zone, zone)
        for library in _libraries(self._binaries):
            # Below /lib it would take the place of the link.
            self._file(library, Path(f"/usr{library}") if library.parts[1] in LINKS else library)
        self._text("etc/passwd", USERS)
        self._text("etc/group", GROUPS)

    def _interpreter(self) -> None:
        executable = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
        name = f"python{sys.version_info.major}.{sys.version_info.minor}"
        self._file(executable, PREFIX / "bin" / name)
        for link in ("python", "python3"):
            self._link(PREFIX / "bin" / link, name)
        for folder in dict.fromkeys((sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))):
            # In a virtual environment the second is inside it, and the first holds everything.
            source = Path(folder)
            if source.is_relative_to(sys.base_prefix) and source.is_dir():
                for file in _files(source):
                    self._file(file, PREFIX / file.relative_to(sys.base_prefix))

    def _file(self, source: Path, place: Path) -> None:
        """Times are kept, because compiled modules name those of their source."""
        if place in self._written:
            return
        self._written.add(place)
        with source.open("rb") as file:
            stat = os.fstat(file.fileno())
            info = tarfile.TarInfo(str(place).lstrip("/"))
            info.size, info.mtime, info.mode = (
                stat.st_size,
                int(stat.st_mtime),
                0o755 if stat.st_mode & 0o111 else 0o644,
            )
            self._tar.addfile(info, file)
        if ".so" in source.name or stat.st_mode & 0o111:
            self._binaries.append(source)

    def _folder(self, name: str, mode: int) -> None:
        info = tarfile.TarInfo(name)
        info.type, info.mode = tarfile.DIRTYPE, mode
        self._tar.addfile(info)

    def _link(self, place: Path, target: str) -> None:
        info = tarfile.TarInfo(str(place).lstrip("/"))
        info.type, info.linkname = tarfile.SYMTYPE, target
        self._tar.addfile(info)

    def _text(self, name: str, text: str) -> None:
        info = tarfile.TarInfo(name)
        info.size, info.mode = len(text), 0o644
        self._tar.addfile(info, io.BytesIO(text.encode()))


def _files(folder: Path, skip: tuple[str, ...] = ()) -> Iterator[Path]:
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in skip and not UNUSED.search(f"{here}/{name}"))
        for name in sorted(names):
            path = Path(here, name)
            if not UNUSED.search(str(path)) and path.is_file():
                yield path


def _libraries(binaries: list[Path]) -> list[Path]:
    """All shared libraries that are loaded with these files."""
    found = subprocess.run(["ldd", *map(str, binaries)], capture_output=True, text=True, check=False).stdout
    return [Path(path) for path in sorted(set(re.findall(r"(/\S+\.so\S*)(?= \()", found)))]
