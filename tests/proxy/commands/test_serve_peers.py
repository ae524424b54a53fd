"""Several gateways that would never find each other's tasks are not begun."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from proxy.commands import serve
from proxy.errors import ConfigurationError


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--peer", "b=http://one", "--peer", "b=http://two"], "two gateways 'b'"),
        (["--peer", "0=http://other"], "no gateway but '0'"),
        (["--replica", "a", "--peer", "a=http://other"], "no gateway but 'a'"),
        (["--replica", "a", "--peer", "b"], "NAME=URL"),
        # One list for all of them is good; what ends this one is that there is no configuration.
        (["--replica", "a", "--peer", "a=http://own", "--peer", "b=http://other"], "mcp.json"),
    ],
)
def test_peers_are_others_with_a_name_each(tmp_path: Path, arguments: list[str], said: str) -> None:
    app = typer.Typer()
    serve.register(app)
    environment = {f"TOOLATLAS_{name}_DIR": str(tmp_path / name) for name in ("STATE", "CACHE")}
    given = [*arguments, "--config", str(tmp_path / "mcp.json"), "--port", "0"]
    result = CliRunner().invoke(app, given, env=environment)
    assert isinstance(result.exception, ConfigurationError)
    assert said in str(result.exception)
