"""What lies in deploy/: the .env that is made, the configuration, and that Compose understands its file."""

from __future__ import annotations

import base64
import json
import re
import stat
import subprocess
from pathlib import Path

import pytest

from proxy.servers.configfile import parse
from tests.deployment.compose import (
    PROFILES,
    ROOT,
    Compose,
    commands,
    copy_of_the_repository,
    environment,
    require_compose,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return copy_of_the_repository(tmp_path)


def make_env(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [folder / "deploy" / "make-env", *options], capture_output=True, text=True, timeout=20, env=environment()
    )


def values(folder: Path) -> dict[str, str]:
    return dict(re.findall(r"^(\w+)=(.*)$", (folder / ".env").read_text(), re.MULTILINE))


def test_secrets_are_made_for_the_owner_alone_and_each_time_others(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = copy_of_the_repository(tmp_path_factory.mktemp("other"))
    assert make_env(folder).returncode == make_env(other).returncode == 0
    assert stat.S_IMODE((folder / ".env").stat().st_mode) == 0o600
    first, second = values(folder), values(other)
    assert re.fullmatch(r"[0-9a-f]{64}", first["POSTGRES_PASSWORD"])
    assert len(base64.b64decode(first["TOOLATLAS_SECRET_KEY"], validate=True)) == 32
    for name in ("POSTGRES_PASSWORD", "TOOLATLAS_SECRET_KEY"):
        assert first[name] != second[name]
    assert first["COMPOSE_PROFILES"] == ""


def test_an_env_file_that_is_there_stays_as_it_is(folder: Path) -> None:
    (folder / ".env").write_text("POSTGRES_PASSWORD=mine\n")
    refused = make_env(folder)
    assert refused.returncode == 1
    assert "stays" in refused.stderr
    assert (folder / ".env").read_text() == "POSTGRES_PASSWORD=mine\n"


def test_the_sandbox_is_one_word(folder: Path) -> None:
    assert make_env(folder, "--sandbox").returncode == 0
    made = values(folder)
    assert made["COMPOSE_PROFILES"] == "sandbox"
    assert made["TOOLATLAS_SANDBOX"] == "docker"
    assert made["TOOLATLAS_BROKER"] == "/run/toolatlas/broker/broker.sock"


def test_an_unknown_option_makes_nothing(folder: Path) -> None:
    assert make_env(folder, "--everything").returncode == 2
    assert not (folder / ".env").exists()


def test_the_configuration_that_it_comes_with_is_understood_and_described() -> None:
    configuration = parse(json.loads((ROOT / "deploy" / "config" / "mcp.json").read_text()), {})
    assert configuration.warnings == ()
    assert configuration.servers
    assert all(server.usable and server.description for server in configuration.servers)


@pytest.mark.parametrize("profiles", ["", *PROFILES, ",".join(PROFILES)])
def test_compose_understands_the_file(folder: Path, profiles: str) -> None:
    require_compose()
    make_env(folder)
    with (folder / ".env").open("a") as file:
        file.write(f"COMPOSE_PROFILES={profiles}\n")
    for command in commands():
        compose = Compose(folder, "toolatlas-check", command)
        assert set(compose.run("config", "--services").split()) >= {"gateway", "migrate", "postgres", "servers"}


def test_without_secrets_compose_says_what_to_do(folder: Path) -> None:
    require_compose()
    for command in commands():
        files = ["-f", str(folder / "docker-compose.yml")]
        said = subprocess.run(
            [*command, *files, "config", "-q"],
            cwd=folder,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert said.returncode != 0
        assert "run deploy/make-env first" in said.stderr
