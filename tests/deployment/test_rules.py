"""Rules over docker-compose.yml that need no engine: what no service may be given, and what each must have."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.deployment.compose import ROOT

FILE = ROOT / "docker-compose.yml"
SERVICES: dict[str, Any] = yaml.safe_load(FILE.read_text())["services"]
NETWORKS: dict[str, Any] = yaml.safe_load(FILE.read_text())["networks"]
DOCKERFILES = [ROOT / "deploy" / name / "Dockerfile" for name in ("gateway", "servers")]
WITHOUT_HEALTH = {
    "migrate": "ends by itself",
    "judge": "ends by itself",
    "learn": "ends by itself",
    "collector": "its image holds one program; Prometheus watches it",
    "jaeger": "its image holds one program; Prometheus watches it",
}
FORBIDDEN = ("privileged", "cap_add", "devices", "pid", "ipc", "userns_mode", "cgroup_parent", "extra_hosts", "sysctls")

every_service = pytest.mark.parametrize("name", SERVICES)
PINNED = re.compile(r"[a-z0-9./-]+:v?\d+\.\d+(\.\d+)?(-[a-z0-9.-]+)?(@sha256:[0-9a-f]{64})?")


def default(value: str) -> str:
    """What a value is when nothing is set: `${NAME:-this}`."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value)


def mounts(service: dict[str, Any]) -> list[tuple[str, str, bool]]:
    """Source, target and whether it is read only."""
    found = []
    for volume in service.get("volumes", []):
        if isinstance(volume, dict):
            found.append((default(volume["source"]), volume["target"], volume.get("read_only", False)))
        else:
            source, target, *options = default(volume).split(":")
            found.append((source, target, "ro" in options))
    return found


@every_service
def test_a_service_has_no_capability_no_new_privilege_and_no_file_system_to_write_to(name: str) -> None:
    service = SERVICES[name]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["read_only"] is True
    assert not set(FORBIDDEN) & set(service)
    assert service.get("network_mode") in (None, "none")


@every_service
def test_a_service_has_limits_and_logs_that_are_rotated(name: str) -> None:
    service = SERVICES[name]
    assert service["mem_limit"]
    assert service["pids_limit"] > 0
    assert {"max-size", "max-file"} <= set(service["logging"]["options"])
    assert service["restart"] == ("no" if name in ("migrate", "judge", "learn") else "unless-stopped")


@every_service
def test_a_service_is_checked_for_health_or_there_is_a_reason(name: str) -> None:
    check = SERVICES[name].get("healthcheck")
    if name in WITHOUT_HEALTH:
        assert check == {"disable": True}
    elif check is None:
        assert "HEALTHCHECK" in (ROOT / SERVICES[name]["build"]["dockerfile"]).read_text()
    else:
        assert check["test"]


@every_service
def test_an_image_is_built_here_or_pinned(name: str) -> None:
    service = SERVICES[name]
    assert "build" in service or PINNED.fullmatch(default(service["image"]))


@pytest.mark.parametrize("image", ["postgres", "postgres:latest", "postgres:17", "python:slim"])
def test_an_image_that_moves_is_not_taken_for_pinned(image: str) -> None:
    assert not PINNED.fullmatch(image)


@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.parent.name)
def test_a_dockerfile_has_a_pinned_base_that_can_be_replaced_and_ends_as_another_user(file: Any) -> None:
    text = file.read_text()
    base = re.search(r"^ARG BASE_IMAGE=(\S+)$", text, re.MULTILINE)
    assert base is not None
    assert PINNED.fullmatch(base[1])
    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE)[-1] == "${BASE_IMAGE}"
    users = re.findall(r"^USER (\d+):(\d+)$", text, re.MULTILINE)
    assert int(users[-1][0]) > 10_000
    assert f"BASE_IMAGE: ${{BASE_IMAGE:-{base[1]}}}" in FILE.read_text()


def test_both_dockerfiles_begin_with_the_same_stage_but_for_the_extras() -> None:
    first = [
        re.sub(r"^(#|ARG EXTRAS).*\n", "", file.read_text(), flags=re.MULTILINE).split("\nFROM")[1].strip()
        for file in DOCKERFILES
    ]
    assert "package" in first[0]
    assert first[0] == first[1]


def test_the_engines_socket_is_in_the_broker_alone_which_only_starts_when_it_is_wanted() -> None:
    holders = {
        name for name, service in SERVICES.items() for source, *_ in mounts(service) if source.endswith("docker.sock")
    }
    assert holders == {"broker"}
    assert SERVICES["broker"]["profiles"] == ["sandbox"]
    assert SERVICES["broker"]["network_mode"] == "none"


@every_service
def test_files_of_the_machine_are_read_only_but_for_the_engines_socket(name: str) -> None:
    of_the_machine = [mount for mount in mounts(SERVICES[name]) if mount[0].startswith((".", "/"))]
    assert all(read_only or source.endswith("docker.sock") for source, _, read_only in of_the_machine)


@every_service
def test_what_is_published_is_published_on_loopback(name: str) -> None:
    for port in SERVICES[name].get("ports", []):
        assert default(port).startswith("127.0.0.1:")


def test_servers_share_no_network_with_anything_and_the_database_has_no_way_out() -> None:
    of = {name: set(service.get("networks", [])) for name, service in SERVICES.items()}
    assert all(not of["servers"] & networks for name, networks in of.items() if name != "servers")
    reaching = {name for name, networks in of.items() if "database" in networks}
    assert reaching == {"gateway", "migrate", "postgres", "judge", "learn"}
    assert NETWORKS["database"] == {"internal": True}


def test_servers_get_no_secret() -> None:
    assert not SERVICES["servers"].get("environment")
    assert not SERVICES["servers"].get("env_file")
    assert {source for source, *_ in mounts(SERVICES["servers"])} == {"servers-home", "servers-socket"}


def test_sockets_and_configuration_are_read_only_where_they_are_only_used() -> None:
    read_only = {target for _, target, read_only in mounts(SERVICES["gateway"]) if read_only}
    assert read_only == {"/etc/toolatlas", "/var/lib/learned", "/run/toolatlas/servers", "/run/toolatlas/broker"}
