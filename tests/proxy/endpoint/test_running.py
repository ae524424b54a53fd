"""Finding and starting gateways, with a stand-in process that does what the registry wants of `toolatlas serve`."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import stat
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import anyio
import pytest

from proxy.endpoint.running import GatewayRecord, Registry
from proxy.errors import ConfigurationError, GatewayError

pytestmark = pytest.mark.anyio

STAND_IN = """
import argparse, os, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from proxy.endpoint.running import GatewayRecord, Registry

class Health(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"service": "toolatlas", "version": "9"}')

parser = argparse.ArgumentParser()
parser.add_argument("--config")
parser.add_argument("--port", type=int)
parser.add_argument("--exit-when-idle")
options = parser.parse_args()
assert options.exit_when_idle == "600" and sys.stdin.read() == ""
print("starts in", os.getcwd(), flush=True)
if "fails" in options.config:
    sys.exit("mcp.json: no such server")
server = HTTPServer(("127.0.0.1", options.port), Health)
Registry(Path(os.environ["TOOLATLAS_STATE_DIR"])).announce(GatewayRecord(
    pid=os.getpid(), url=f"http://127.0.0.1:{server.server_port}/mcp", config=options.config, version="9",
    started_at="2026-12-01T00:00:00+00:00"))
server.serve_forever()
"""


class _Answer(BaseHTTPRequestHandler):
    body = b'{"service": "toolatlas"}'

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.body if self.path == "/healthz" else b"{}")

    def log_message(self, format: str, *args: object) -> None:
        pass


class _Stranger(_Answer):
    body = b'{"service": "something else"}'


@contextlib.contextmanager
def _listening(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/mcp"
        finally:
            server.shutdown()
            thread.join(10)


def _registry(tmp_path: Path) -> Registry:
    return Registry(tmp_path / "state", serve=(sys.executable, "-c", STAND_IN))


def _config(tmp_path: Path, name: str = "mcp.json") -> Path:
    path = tmp_path / name
    path.write_text('{"mcpServers": {}}')
    return path


def _record(config: Path, url: str, pid: int | None = None) -> GatewayRecord:
    return GatewayRecord(
        pid=os.getpid() if pid is None else pid, url=url, config=str(config), version="1", started_at="2026-12-01"
    )


def _records(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "state" / "gateways").glob("*.json"))


def test_an_announced_gateway_is_found_until_it_withdraws(tmp_path: Path) -> None:
    config = _config(tmp_path)
    gateway, client = _registry(tmp_path), _registry(tmp_path)
    with _listening(_Answer) as url:
        assert client.find(config) is None
        gateway.announce(_record(config, url))
        assert client.find(config) == _record(config, url)
        assert client.find(_config(tmp_path, "other.json")) is None
        (path,) = _records(tmp_path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        gateway.withdraw()
        assert client.find(config) is None


def test_one_file_is_one_gateway_however_its_path_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = _config(tmp_path)
    link = tmp_path / "link.json"
    link.symlink_to(config)
    monkeypatch.chdir(tmp_path)
    registry = _registry(tmp_path)
    with _listening(_Answer) as url:
        registry.announce(_record(config, url))
        assert registry.find(link) is not None
        assert registry.find(Path("mcp.json")) is not None


def test_withdrawing_leaves_the_record_of_a_gateway_that_took_over(tmp_path: Path) -> None:
    config = _config(tmp_path)
    old, new = _registry(tmp_path), _registry(tmp_path)
    with _listening(_Answer) as url:
        old.announce(_record(config, "http://127.0.0.1:9/mcp"))
        new.announce(_record(config, url))
        old.withdraw()
        assert old.find(config) == _record(config, url)


@pytest.mark.parametrize("broken", ["dead process", "wrong service", "nobody listens", "no record"])
def test_a_stale_record_is_removed(tmp_path: Path, broken: str) -> None:
    config = _config(tmp_path)
    registry = _registry(tmp_path)
    with _listening(_Stranger if broken == "wrong service" else _Answer) as url, _listening(_Answer) as closed:
        pid = None
        if broken == "dead process":
            pid = os.posix_spawn(sys.executable, [sys.executable, "-c", ""], os.environ)
            os.waitpid(pid, 0)
        registry.announce(_record(config, url, pid))
        if broken == "no record":
            _records(tmp_path)[0].write_text("{")
        if broken != "nobody listens":
            assert registry.find(config) is None
            assert _records(tmp_path) == []
        registry.announce(_record(config, closed))
    assert registry.find(config) is None
    assert _records(tmp_path) == []


def test_a_gateway_that_listens_but_does_not_answer_yet_keeps_its_record(tmp_path: Path) -> None:
    config = _config(tmp_path)
    registry = _registry(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        registry.announce(_record(config, f"http://127.0.0.1:{silent.getsockname()[1]}/mcp"))
        assert registry.find(config) is None
        assert len(_records(tmp_path)) == 1


async def test_three_clients_that_start_at_once_make_one_gateway(tmp_path: Path) -> None:
    config = _config(tmp_path)
    log = tmp_path / "state" / "gateway.log"
    found: list[GatewayRecord] = []

    async def join() -> None:
        found.append(await _registry(tmp_path).find_or_start(config, log_path=log))

    with anyio.fail_after(60):
        try:
            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(join)
            assert len(found) == 3
            assert len(set(found)) == 1
            assert os.getsid(found[0].pid) == found[0].pid
            assert log.read_text().count("starts in") == 1
            assert f"starts in {tmp_path}" in log.read_text()
            assert stat.S_IMODE(log.stat().st_mode) == 0o600
        finally:
            for pid in {record.pid for record in found}:
                os.kill(pid, signal.SIGKILL)
        while _registry(tmp_path).find(config) is not None:
            await anyio.lowlevel.checkpoint()
    assert _records(tmp_path) == []


async def test_a_gateway_that_dies_while_starting_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    config = _config(tmp_path, "fails.json")
    log = tmp_path / "gateway.log"
    log.write_text("from an earlier start\n")
    with anyio.fail_after(60):
        with pytest.raises(GatewayError, match="exit status 1") as raised:
            await _registry(tmp_path).find_or_start(config, log_path=log)
    assert str(raised.value).endswith("mcp.json: no such server")
    assert "earlier" not in str(raised.value)


async def test_a_missing_configuration_file_starts_nothing(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"absent\.json"):
        await _registry(tmp_path).find_or_start(tmp_path / "absent.json", log_path=tmp_path / "log")
    assert not (tmp_path / "log").exists()
