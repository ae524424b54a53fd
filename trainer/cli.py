"""The trainer's commands, which join by the entry point group `toolatlas.commands`.

Above: proxy/cli.py. Below: commands/. They are built with every start of `toolatlas`, whatever it is to do: what they
need is imported when they do it.
"""

from __future__ import annotations

import typer

from trainer.commands import adapters, export, learning, online, promoting, training


def register(app: typer.Typer) -> None:
    """Add the families."""
    family = typer.Typer(help="What was trained: states, gates, and the way back.", no_args_is_help=True)
    adapters.register(family)
    promoting.register(family)
    app.add_typer(family, name="adapters")
    train = typer.Typer(help="Train the router on what was judged.", no_args_is_help=True)
    training.register(train)
    online.register(train)
    export.register(train)
    app.add_typer(train, name="train")
    learning.register(app)
