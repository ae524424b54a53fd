"""What is taken out of the log, what is left in it, and that neither odd nor hostile text changes that."""

from __future__ import annotations

import base64
import json
import re
import string
from random import Random
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from proxy.errors import ConfigurationError
from proxy.store.redaction import Redactor
from proxy.store.redaction_names import PLACEHOLDER

KEY = b"k" * 32
SECRET = "tr0ub4dor&3x"
OWN = (r"CUST-\d+",)

PIECES = st.sampled_from(
    [
        *(
            "password",
            "api_key",
            "token",
            "secret",
            "Authorization",
            "Cookie",
            "key",
            "--token",
            "pin",
            "value",
            "name",
        ),
        *(
            "=",
            ": ",
            ":",
            "'",
            '"',
            '\\"',
            "\\",
            "\n",
            " ",
            "[",
            "]",
            "{",
            "}",
            "(",
            ")",
            ",",
            ";",
            "&",
            "`",
            "-u ",
            " is ",
        ),
        *(
            "hunter2",
            "abc123def456",
            "ghp_" + "a1B2" * 9,
            "AKIAABCD1234EFGH5678",
            "bob@example.com",
            "4111 1111 1111 1111",
        ),
        *(
            "Bearer ",
            "Basic ",
            "dXNlcjpodW50ZXIy",
            "https://u:p4ss@h/x?token=q1w2e3&a=b",
            "auth=(",
            "sid=abcdef12; a=b",
        ),
        *(
            "[email:3f9a2c1b]",
            "[secret:00000000]",
            "-----BEGIN PRIVATE KEY-----\nMIIabc\n",
            "-----END PRIVATE KEY-----",
        ),
        *(
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdefgh",
            "é",
            "İ",
            "\ud800",
            "\0",
            "CUST-12",
            "<password>",
            "</password>",
        ),
        *("$X", "%40", "%20", "\\n"),
    ]
)
TEXTS = st.lists(PIECES | st.text(max_size=4), max_size=14).map("".join)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture
def redactor() -> Redactor:
    return Redactor(KEY, OWN)


@pytest.mark.parametrize(
    "written",
    [
        "password={}",
        "PASSWORD={}",
        "export DB_PASSWORD='{}'",
        "mycli --password {} --user bob",
        "--password={}",
        '{{"password": "{}"}}',
        '{{\\"password\\": \\"{}\\"}}',
        '{{\\\\\\"password\\\\\\": \\\\\\"{}\\\\\\"}}',
        "db_password: {}\nuser: bob",
        "the password is {}.",
        "log in with the password '{}'",
        "Authorization: Bearer {}",
        "Authorization: token {}",
        "curl -H 'X-Api-Key: {}' https://example.com",
        "curl -u bob:{} https://example.com",
        "postgresql://bob:{}@db.example.com/x",
        "Server=db;User Id=sa;Pwd={};",
        'os.environ["API_KEY"] = "{}"',
        'client = Client(token="{}", timeout=3)',
        'password: str = "{}"',
        'if password == "{}":',
        'requests.get(url, auth=("bob", "{}"))',
        'headers.set("X-Auth-Token", "{}")',
        '{{"name": "API_KEY", "value": "{}"}}',
        "<password>{}</password>",
    ],
)
def test_a_secret_is_recognised_by_the_name_before_it_however_that_is_written(redactor: Redactor, written: str) -> None:
    redacted = redactor.text("e_1", written.format("qX7zR4v1kL9p"))
    assert "qX7zR4v1kL9p" not in redacted
    assert redacted == written.format(PLACEHOLDER.search(redacted)[0])  # type: ignore[index]


@pytest.mark.parametrize(
    "text",
    [
        "def connect(user: str, password: str = None, token: Optional[str] = None) -> Token:",
        'api_key = os.environ["API_KEY"]',
        "client = Client(api_key=api_key, password=settings.password)",
        "token = get_token(scope)",
        "the token is required, the password was invalid and the key is unknown",
        "next_page_token: CAUQAA, max_tokens=4096, token_type: bearer, total_tokens: 12",
        '{"password": {"type": "string", "description": "The password of the user"}}',
        '{"token": "<your token>", "api_key": "${API_KEY}", "secret": "********", "password": "string"}',
        "primary_key=id_2024_11_30, cache_key: user:42:profile, sort_key=created_at",
        "git@github.com:encode/starlette.git at 9fceb02d0ae598e95dc970b74767f19372d61af8",
        "https://example.com/a/b?page=2&sort=asc#key",
        "icon@2x.png and left-pad@1.3.0",
        "550e8400-e29b-41d4-a716-446655440000 r_k3j5h7g9 s_0123456789abcdef e_0123456789abcdef01234567",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "2026-11-30T12:00:00.123456Z 1764504000000 +1 (555) 010-9999 192.168.100.200",
        "/usr/lib/python3.11/site-packages/proxy/store/redaction_patterns.py:123",
        "order 4111111111111112, invoice 1234567890123456",
        "getUserAuthenticationTokenFromRequestHeaders() XMLHttpRequest2 IPv4AddressRange2024",
        "ticket_507f1f77bcf86cd799439011 is for the team",
    ],
)
def test_identifiers_code_and_prose_stay(redactor: Redactor, text: str) -> None:
    assert redactor.text("e_1", text) == text


def test_the_value_of_a_cookie_header_goes_whole_and_its_cookies_are_recognised_after(redactor: Redactor) -> None:
    assert re.fullmatch(r"Cookie: \[secret:\w{8}\]", redactor.text("e_1", "Cookie: sid=qX7zR4v1; theme=dark"))
    assert "qX7zR4v1" not in redactor.text("e_1", "session qX7zR4v1 is over")


def test_what_a_number_stands_for_decides(redactor: Redactor) -> None:
    redacted = redactor.value(
        "e_1", {"pin": 1234, "port": 8080, "card": 4111111111111111, "id": 4111111111111112, "n": 10**400}
    )
    assert PLACEHOLDER.fullmatch(redacted.pop("pin"))
    assert redacted.pop("card").startswith("[card:")
    assert redacted == {"port": 8080, "id": 4111111111111112, "n": 10**400}


def test_a_secret_seen_once_under_its_name_is_recognised_everywhere_after(redactor: Redactor) -> None:
    placeholder = redactor.value("e_1", {"password": SECRET})["password"]
    inner = json.dumps({"note": f"use {SECRET}"})
    basic = base64.b64encode(f"bob:{SECRET}".encode()).decode()
    redacted = redactor.value(
        "e_1",
        [SECRET, f"say {SECRET}!", inner, json.dumps(inner), f"/x?q={quote(SECRET, safe='')}", {SECRET: 1}, basic],
    )
    assert redacted[0] == placeholder
    assert [json.dumps(item).count(placeholder) for item in redacted] == [1, 1, 1, 1, 1, 1, 0]
    assert PLACEHOLDER.fullmatch(redacted[6])


def test_one_value_is_one_placeholder_in_an_episode_whatever_stands_around_it(redactor: Redactor) -> None:
    token = "ghp_" + "a1B2" * 9
    found = redactor.value(
        "e_1", {"api_key": token, "text": f"{token} and token={token}, Bearer {token}", "to": "a@b.example"}
    )
    placeholder = found["api_key"]
    assert placeholder.startswith("[key:")
    assert found["text"] == f"{placeholder} and token={placeholder}, Bearer {placeholder}"
    assert found["to"] == redactor.text("e_1", "a@b.example") == redactor.text("e_1", "a%40b.example")


def test_placeholders_differ_between_episodes_and_installations(redactor: Redactor) -> None:
    seen = {redactor.text(episode, "bob@example.com") for episode in ("e_1", "e_2")}
    assert len(seen | {Redactor(b"x" * 32).text("e_1", "bob@example.com")}) == 3


def test_digests_are_the_same_over_episodes_and_differ_between_installations(redactor: Redactor) -> None:
    assert redactor.digest(b"x") == Redactor(KEY).digest(b"x") != Redactor(b"x" * 32).digest(b"x")
    assert re.fullmatch("[0-9a-f]{64}", redactor.digest(b""))


def test_a_private_key_that_was_cut_off_goes_up_to_the_cut(redactor: Redactor) -> None:
    body = "\n".join(["MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcw"] * 3)
    whole = f"-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----"
    for text in (whole, whole[:80], json.dumps(whole)[1:-1]):
        assert re.fullmatch(r"cert: \[private_key:\w{8}\]\.?", redactor.text("e_1", f"cert: {text}").rstrip("\\n")), (
            text
        )


@settings(deadline=None)
@given(TEXTS)
def test_redacting_text_again_changes_nothing(text: str) -> None:
    redacted = Redactor(KEY, OWN).text("e_1", text)
    assert Redactor(KEY, OWN).text("e_1", redacted) == redacted


@settings(deadline=None)
@given(VALUES)
def test_a_value_keeps_its_form_and_redacting_it_again_changes_nothing(value: Any) -> None:
    redactor = Redactor(KEY, OWN)
    redacted = redactor.value("e_1", value)
    assert _form(redacted) == _form(value)
    assert redactor.value("e_1", redacted) == redacted


@settings(deadline=None)
@example("%00000000s", None)
@given(
    st.text(string.ascii_letters + string.digits + "!#%^*+~", min_size=10, max_size=40).filter(
        lambda text: any(map(str.isdigit, text))
    ),
    VALUES,
)
def test_no_value_under_the_name_of_a_secret_is_left_anywhere_in_a_value(secret: str, around: Any) -> None:
    redacted = Redactor(KEY).value(
        "e_1", {"before": f"({secret})", "client_secret": secret, "around": around, "after": [secret]}
    )
    assert secret not in json.dumps(redacted) or secret in json.dumps(around)


def test_nesting_deeper_than_pythons_stack_is_walked(redactor: Redactor) -> None:
    value: Any = {"password": SECRET}
    for _ in range(50_000):
        value = [value]
    redacted = redactor.value("e_1", value)
    while isinstance(redacted, list):
        redacted = redacted[0]
    assert PLACEHOLDER.fullmatch(redacted["password"])


@pytest.mark.parametrize(
    "piece",
    [
        *(
            "a",
            "key",
            "key=",
            'password="',
            'password=\\"',
            '"',
            "\\",
            '\\"',
            "1",
            "4111 ",
            "eyJhbGciOiJI.",
            "a.",
            "a@",
            "a@a.",
        ),
        *(
            "://",
            "://a:b@",
            "-----BEGIN PRIVATE KEY-----",
            "-----BEGIN PRIVATE KEY-----\nMII\\n",
            "Bearer ",
            "Basic ",
            " ",
        ),
        *(
            "password \t",
            "cookie: a=b; ",
            "-u a:",
            'auth=("a","',
            "--token ",
            "<password>",
            "[secret:",
            "[secret:12345678]",
        ),
        *(
            '"name": "API_KEY", ',
            "token: a ",
            "ghp_",
            "t1",
            "abcdef01",
            "token: a|",
            "abc1Q~",
            "_token",
            "password is ",
            "aA",
            "KEY=https://",
        ),
    ],
)
def test_hostile_text_takes_time_in_proportion_to_its_length(piece: str) -> None:
    """Nothing is timed: what is not linear runs into the limit of every test."""
    redactor = Redactor(KEY, (r"\w+@", r"(a|b)*c"))
    redactor.value("e_1", {"password": "abcabcabc1"})
    redactor.text("e_1", (piece * 100_000)[:100_000])


def test_the_owners_patterns_apply_first_and_leave_placeholders_alone(redactor: Redactor) -> None:
    assert re.fullmatch(r"\[custom:\w{8}\] and \[custom:\w{8}\]é", redactor.text("e_1", "CUST-17 and CUST-4é"))
    greedy = Redactor(KEY, (r"[\s\S]",))
    once = greedy.text("e_1", "ab bob@example.com")
    assert greedy.text("e_1", once) == once
    assert PLACEHOLDER.sub("", once) == ""


@pytest.mark.parametrize("pattern", ["(", r"(a)\1", "(?=a)", "a*", ""])
def test_a_pattern_that_cannot_be_used_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigurationError, match="The redaction pattern"):
        Redactor(KEY, (pattern,))


def test_of_many_episodes_the_last_used_are_remembered(redactor: Redactor) -> None:
    redactor.value("e_0", {"password": SECRET})
    for number in range(1, 1_001):
        redactor.text(f"e_{number}", "x")
    assert redactor.text("e_0", f"it was {SECRET} then") == f"it was {SECRET} then"


def test_of_many_secrets_the_last_ones_are_remembered(redactor: Redactor) -> None:
    rng = Random(5)
    secrets = ["".join(rng.choices(string.ascii_letters + string.digits, k=20)) for _ in range(200)]
    for secret in secrets:
        redactor.value("e_1", {"token": secret})
    left = [secret for secret in secrets if secret in redactor.text("e_1", f"see {secret}")]
    assert left == secrets[:136]


def _form(value: Any) -> Any:
    """What is nested in what."""
    if isinstance(value, list):
        return [_form(item) for item in value]
    return [_form(item) for item in value.values()] if isinstance(value, dict) else None
