"""`toolatlas sandbox`: makes, shows and removes the image in which run_python runs code.

Above: cli.py. Below: sandbox/image.py. What is being done goes to standard error, the outcome to standard output.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Any

import typer

from proxy.commands.local import emit
from proxy.sandbox.docker_client import open_engine
from proxy.sandbox.image import IMAGE, build_image, image_status, remove_images

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def register(app: typer.Typer) -> None:
    """Add the `sandbox` family."""
    family = typer.Typer(help="The Docker image of run_python.", no_args_is_help=True)
    family.command("build")(build)
    family.command("status")(status)
    family.command("remove")(remove)
    app.add_typer(family, name="sandbox")


def build(
    base: Annotated[
        str | None,
        typer.Option(
            "--base",
            metavar="IMAGE|host",
            help="Build on this image, which has Python 3.11 or newer as python3, or on one made of this machine's "
            "Python; otherwise on python:3.12-slim, and on the second where that cannot be fetched.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Build the image, anew if there is one."""
    with _engine() as client:
        build_image(client, base=base, note=lambda text: typer.echo(text, err=True))
        _show(client, as_json)


def status(as_json: AsJson = False) -> None:
    """Show the image that there is. Exit code 3 when it has to be built first."""
    with _engine() as client:
        if not _show(client, as_json):
            raise typer.Exit(3)


def remove(as_json: AsJson = False) -> None:
    """Remove the images of all versions, and the bases made of this machine's Python."""
    with _engine() as client:
        removed = remove_images(client)
    emit({"removed": removed}, as_json, lambda: typer.echo("\n".join(removed) or "There is no image."))


@contextmanager
def _engine() -> Generator[Any]:
    client = open_engine(os.environ)
    try:
        yield client
    finally:
        client.close()


def _show(client: Any, as_json: bool) -> bool:
    """Returns whether the image can be used."""
    found = image_status(client)

    def text() -> None:
        if found.id is None:
            typer.echo(f"{IMAGE}: not built. Run toolatlas sandbox build; a gateway also does it when it starts.")
            return
        state = "ready" if found.current else "made from other files than this installation's, will be built anew"
        typer.echo(f"{found.name}: {state}; {found.size_bytes // 1_000_000} MB, on {found.base}")

    emit(asdict(found), as_json, text)
    return found.current
