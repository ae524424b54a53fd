"""Where the gateway goes on a server's word, and where not, with real sockets at the places it must not reach."""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from proxy.errors import ServerDown
from proxy.servers.config import OAuthConfig, ServerConfig
from proxy.servers.outbound import MAX_ANSWER_BYTES, Refused, forbidden, guarded_client
from tests.fixtures.authorization import Recording, serving
from tests.fixtures.running import LOOPBACK, free_port
from tests.proxy.servers.conftest import LIMIT_S, config

pytestmark = pytest.mark.anyio

PUBLIC = config({"url": "https://mcp.example.com/mcp"})


async def get(server: ServerConfig, url: str, **options: Any) -> httpx2.Response:
    with anyio.fail_after(LIMIT_S):
        async with guarded_client(server) as client:
            return await client.get(url, **options)


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "127.8.9.1", "[::1]", "localhost", "0.0.0.0", "[::]", "169.254.169.254", "[fe80::1]"),
        *("10.1.2.3", "172.16.0.1", "192.168.1.1", "[fd00::1]", "100.64.0.1", "224.0.0.1", "[ff02::1]"),
        *("[::ffff:127.0.0.1]", "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]", "[2002:7f00:1::]", "[fec0::1]"),
        *("2130706433", "0x7f.1", "0177.0.0.1", "127.1", "255.255.255.255", "[::127.0.0.1]"),
    ],
)
async def test_an_address_that_is_not_public_is_refused_in_every_spelling(host: str) -> None:
    with pytest.raises((Refused, httpx2.InvalidURL), match=r"address|Invalid"):
        await get(PUBLIC, f"https://{host}/.well-known/oauth-authorization-server")


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_public_addresses_are_allowed(address: str) -> None:
    assert forbidden(ipaddress.ip_address(address)) is None


@pytest.mark.parametrize("host", ["93.184.215.14", "login.example.com", "10.0.0.1"])
async def test_plain_http_is_refused_even_where_the_address_would_do(host: str) -> None:
    named = replace(PUBLIC, oauth=OAuthConfig(allowed_origins=frozenset({"http://10.0.0.1:80"})))
    with pytest.raises(Refused, match="not https"):
        await get(named, f"http://{host}/token")


async def test_nothing_is_sent_to_a_loopback_port_that_nobody_named_and_all_to_one_that_was() -> None:
    place, port = Recording(200, body={"here": True}), free_port()
    url = f"http://{LOOPBACK}:{port}/metadata"
    async with serving(place, port):
        with pytest.raises(Refused, match=r"oauth\.allowed_origins"):
            await get(PUBLIC, url)
        assert place.seen == []
        named = replace(PUBLIC, oauth=OAuthConfig(allowed_origins=frozenset({f"http://{LOOPBACK}:{port}"})))
        assert (await get(named, url)).json() == {"here": True}
        # The same host at another port is another origin.
        other = replace(PUBLIC, oauth=OAuthConfig(allowed_origins=frozenset({f"http://{LOOPBACK}:{port + 1}"})))
        with pytest.raises(Refused):
            await get(other, url)
        assert (await get(config({"url": f"http://{LOOPBACK}:{port}/mcp"}), url)).json() == {"here": True}
        assert len(place.seen) == 2


def certificate(folder: Path, host: str) -> tuple[Path, Path]:
    """A certificate for that host that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = folder / "certificate.pem", folder / "key.pem"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    pkcs8 = serialization.PrivateFormat.PKCS8
    files[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, pkcs8, serialization.NoEncryption()))
    return files


@pytest.mark.parametrize("certified", ["login.example", "other.example"])
async def test_a_name_is_looked_up_once_and_its_certificate_checked_at_the_address_that_was_checked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, certified: str
) -> None:
    """The owner of a name answers with a public address first and with a loopback one from then on."""
    place, port = Recording(200, body={}), free_port()
    cert, key = certificate(tmp_path, certified)
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    addresses, connected_to = iter(["8.8.8.8", LOOPBACK, LOOPBACK]), list[str]()
    connect = anyio.connect_tcp

    async def look_up(host: str, port: int, **_: object) -> list[tuple[Any, ...]]:
        return [(2, 1, 6, "", (next(addresses), port))]

    async def connect_here(*, remote_host: str, remote_port: int, local_host: str | None) -> Any:
        connected_to.append(remote_host)
        return await connect(LOOPBACK, remote_port)

    monkeypatch.setattr(anyio, "getaddrinfo", look_up)
    monkeypatch.setattr(anyio, "connect_tcp", connect_here)
    async with serving(place, port, ssl_certfile=cert, ssl_keyfile=key):
        if certified == "login.example":
            assert (await get(PUBLIC, f"https://login.example:{port}/")).status_code == 200
        else:
            with pytest.raises(httpx2.ConnectError, match=r"(?i)hostname mismatch"):
                await get(PUBLIC, f"https://login.example:{port}/")
        assert connected_to == ["8.8.8.8"]
        with pytest.raises(Refused, match="loopback"):
            await get(PUBLIC, f"https://login.example:{port}/")
        assert connected_to == ["8.8.8.8"]
    hosts = [headers["host"] for *_, headers in place.seen]
    assert hosts == ([f"login.example:{port}"] if certified == "login.example" else [])


async def test_a_name_with_one_forbidden_address_among_public_ones_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(host: str, port: int, **_: object) -> list[tuple[Any, ...]]:
        return [(2, 1, 6, "", (address, port)) for address in ("8.8.8.8", "10.0.0.1")]

    monkeypatch.setattr(anyio, "getaddrinfo", answer)
    with pytest.raises(Refused, match="private"):
        await get(PUBLIC, "https://mixed.example/")


async def test_a_redirect_is_not_followed_and_no_cookie_is_kept() -> None:
    port, target_port = free_port(), free_port()
    target = Recording(200)
    first = Recording(302, {"location": f"http://{LOOPBACK}:{target_port}/", "set-cookie": "a=b; Path=/"})
    server = config({"url": f"http://{LOOPBACK}:{port}/mcp"})
    async with serving(first, port), serving(target, target_port), guarded_client(server) as client:
        for _ in range(2):
            assert (await client.get(f"http://{LOOPBACK}:{port}/metadata")).status_code == 302
    assert target.seen == []
    assert [headers.get("cookie") for *_, headers in first.seen] == [None, None]


async def test_an_answer_without_end_is_given_up() -> None:
    port = free_port()
    server = config({"url": f"http://{LOOPBACK}:{port}/mcp"})
    async with serving(Recording(200, body="x" * MAX_ANSWER_BYTES), port):
        with pytest.raises(ServerDown, match="too long"):
            await get(server, f"http://{LOOPBACK}:{port}/metadata")
