"""Installs what an image holds, in its first stages: each step of it is one RUN, so that engines keep them apart.

    install.py dependencies          what toolatlas needs with the extras that EXTRAS names, into /opt/toolatlas
    install.py package               toolatlas itself
    install.py tools PACKAGE…        programs that it is not to share its packages with, into /opt/tools

Run by deploy/gateway/Dockerfile and deploy/servers/Dockerfile. Where there are wheels in deploy/wheels/
(docs/deployment.md), nothing else is asked; otherwise packages come from PyPI or the index that PIP_INDEX_URL names,
and torch from the one that TORCH_INDEX_URL names, since PyPI's brings 2 GB for graphics cards. The base needs no pip if
there is one among the wheels.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

TOOLATLAS = Path("/opt/toolatlas")
TOOLS = Path("/opt/tools")
SOURCES = Path(__file__).resolve().parents[1]
WHEELS = SOURCES / "deploy" / "wheels"


def main(step: str, *names: str) -> None:
    if step == "dependencies":
        venv.create(TOOLATLAS, symlinks=True)
        project = tomllib.loads((SOURCES / "pyproject.toml").read_text())["project"]
        extras = list(packages_of(os.environ["EXTRAS"].split(), project["optional-dependencies"]))
        torch = [package for package in extras if re.match(r"torch\b", package)]
        if torch and (index := os.environ.get("TORCH_INDEX_URL")) and not any(WHEELS.glob("*.whl")):
            install(TOOLATLAS, "--index-url", index, *torch)
        install(TOOLATLAS, *project["dependencies"], *extras)
    elif step == "package":
        install(TOOLATLAS, "--no-deps", str(SOURCES))
    elif step == "tools":
        venv.create(TOOLS, symlinks=True)
        install(TOOLS, *names)
    else:
        sys.exit(f"install.py: the step is dependencies, package or tools, not {step!r}")


def packages_of(names: Iterable[str], extras: Mapping[str, list[str]]) -> Iterator[str]:
    """What these extras are made of; one may name others of ours."""
    for name in names:
        for package in extras[name]:
            if own := re.fullmatch(r"toolatlas\[(.+)\]", package):
                yield from packages_of(own[1].split(","), extras)
            else:
                yield package


def install(into: Path, *what: str) -> None:
    source = ["--no-index", "--find-links", str(WHEELS)] if any(WHEELS.glob("*.whl")) else []
    command = [*pip(), "--python", str(into / "bin" / "python"), "install", "--no-cache-dir", *source, *what]
    subprocess.run(command, check=True)


def pip() -> list[str]:
    """The base's own, else the one in wheels/, which runs from its file."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    found = sorted(WHEELS.glob("pip-*.whl"))
    if not found:
        sys.exit("install.py: the base image has no pip, and deploy/wheels/ has none either")
    return [sys.executable, str(found[-1] / "pip")]


if __name__ == "__main__":
    main(*sys.argv[1:])
