"""Secrets as agents meet them in forms of their own: typed into a page, told in prose, in keys that were torn apart."""

from __future__ import annotations

import base64
import json
import string
from random import Random
from typing import Any
from urllib.parse import quote

import pytest

from proxy.store.cutting import shortened
from proxy.store.redaction import Redactor
from proxy.store.redaction_names import PLACEHOLDER

SECRET = "Tr0ub4dor3x"
_RNG = Random(3)


def noise(length: int) -> str:
    return "".join(_RNG.choice(string.ascii_letters + string.digits) for _ in range(length))


LINES = [noise(64) for _ in range(25)]
BEGIN, END = "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----"
KEY = [BEGIN, *LINES, END]


@pytest.fixture
def redactor() -> Redactor:
    return Redactor(b"k" * 32)


@pytest.mark.parametrize(
    "typed",
    [
        {"element": "Password textbox", "ref": "e3", "text": SECRET},
        {"element": "the Password field", "ref": "e3", "text": SECRET},
        {"selector": "input[name=password]", "value": SECRET},
        {"selector": "#login-password", "text": SECRET},
        {"locator": "input[type='password']", "value": SECRET},
        {"label": "API key", "value": "kX9mQ2vR7tY4wB8n"},
        {"Key": "DB_PASSWORD", "Value": SECRET},
        {"fields": [{"name": "Password", "type": "textbox", "value": SECRET}]},
    ],
)
def test_what_is_typed_into_a_field_for_secrets_is_one(redactor: Redactor, typed: dict[str, Any]) -> None:
    told = json.dumps(redactor.value("e", typed))
    assert SECRET not in told
    assert "kX9mQ2vR7tY4wB8n" not in told


@pytest.mark.parametrize(
    "typed",
    [
        {"element": "Search box", "ref": "e3", "text": SECRET},
        {"element": "Forgot password link", "ref": "e3", "text": "forgot-password-2"},
        {"selector": "#password-hint", "text": "hint42"},
        {"selector": "#user", "value": "bob42"},
        {"label": "Token count", "value": "12345"},
        {"type": "text", "text": "password"},
    ],
)
def test_what_is_typed_elsewhere_stays(redactor: Redactor, typed: dict[str, Any]) -> None:
    assert redactor.value("e", typed) == typed


@pytest.mark.parametrize(
    "text",
    [
        f"Log in as bob with password {SECRET}, please.",
        f"Use the password {SECRET} to log in",
        f"machine example.com login bob password {SECRET}",
        f"Das Passwort {SECRET} ist neu.",
        f"db:\n  password: |\n    {SECRET}\n",
        f"db:\n  password: >-\n    {SECRET}\n",
        f"https://x.blob.core.windows.net/c?sv=2020&sig={SECRET}AbC9dE8fG%2Bh7iJ6%3D&se=1",
        f"https://b.s3.amazonaws.com/k?X-Amz-Expires=900&X-Amz-Signature={'0a1b2c3d' * 8}",
        "bob@bücher.de",
        "bob@notion.so",
    ],
)
def test_secrets_of_prose_and_addresses_are_recognised(redactor: Redactor, text: str) -> None:
    told = redactor.text("e", text)
    assert all(secret not in told for secret in (SECRET, "0a1b2c3d", "bob@"))


@pytest.mark.parametrize(
    "text",
    [
        "password reset-2 requested",
        "The password must have 8 characters",
        "password strength: 12 bits",
        "passwords v2.1 are hashed",
        "see password.py and password_test2.py",
        "Type the password $PASS1 or <PASS2> here",
        "password --length 20",
    ],
)
def test_prose_about_passwords_stays(redactor: Redactor, text: str) -> None:
    assert redactor.text("e", text) == text


@pytest.mark.parametrize(
    "shown",
    [
        "\n".join(f"> {line}" for line in KEY),
        "\n".join(f"+{line}" for line in KEY),
        "\n".join(f"{number:6}\t{line}" for number, line in enumerate(KEY, 1)),
        "\n".join(f"{number} | {line}" for number, line in enumerate(KEY, 1)),
        "key = (" + "\n".join(f"'{line}\\n'" for line in KEY) + ")",
        json.dumps(KEY),
        KEY,
        {"content": {"lines": ["a file", *KEY, "the end"]}},
        # The second page of a file, and what a tool gave of its end.
        "\n".join(KEY[5:]),
        "\\n".join(KEY[5:]),
        json.dumps("\n".join(KEY[5:])),
        base64.b64encode("\n".join(KEY).encode()).decode(),
    ],
)
def test_a_private_key_goes_however_its_lines_stand(redactor: Redactor, shown: Any) -> None:
    told = json.dumps(redactor.value("e", shown))
    assert not [line for line in LINES if line in told or base64.b64encode(line.encode()).decode()[4:40] in told]


def test_what_stands_around_the_lines_of_a_private_key_stays(redactor: Redactor) -> None:
    told = redactor.value("e", ["a file", *KEY, "the end"])
    assert (told[0], told[-1]) == ("a file", "the end")
    text = redactor.text("e", "\n".join(["It goes on with", *KEY[5:], "and that is all"]))
    assert text.startswith("It goes on with\n")
    assert text.endswith("\nand that is all")


@pytest.mark.parametrize("at", range(0, 24_000, 1_500))
def test_no_part_of_a_long_token_is_left_at_a_cut(redactor: Redactor, at: int) -> None:
    token = f"eyJhbGciOiJSUzI1NiJ9.{noise(12_000)}.{noise(342)}"
    text = "a " * (at // 2) + token + " b" * 30_000
    told = shortened(text, 16_000, lambda piece: redactor.text("e", piece))
    assert not [start for start in range(30, 12_000, 40) if token[start : start + 40] in told]


@pytest.mark.parametrize("secret", ["p@ss/w0rd1+", "Tr0ub/4d&r3x+é", "50%-off&1x"])
@pytest.mark.parametrize("turned", [False, True])
def test_a_secret_in_a_url_is_the_one_that_it_escapes(redactor: Redactor, secret: str, turned: bool) -> None:
    escaped = quote(secret, safe="")
    ways = [{"password": secret}, f"postgres://bob:{escaped}@db/x", f"https://x/?token={escaped}", f"it is {escaped}"]
    told = [PLACEHOLDER.findall(json.dumps(redactor.value("e", way))) for way in (ways[2::-1] if turned else ways)]
    assert {len(each) for each in told} == {1}
    assert len({each[0] for each in told}) == 1


def test_an_address_in_a_url_is_the_one_that_it_escapes(redactor: Redactor) -> None:
    assert redactor.text("e", "a+b@example.com") == redactor.text("e", "a%2Bb%40example.com")
