"""Variables in configuration values."""

from __future__ import annotations

import pytest

from proxy.errors import ConfigurationError
from proxy.servers.variables import MissingVariable, UnsupportedVariable, expand

ENVIRON = {"USER": "ada", "EMPTY": "", "NESTED": "${USER}", "ProgramFiles(x86)": "C:\\Programs"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no variables", "no variables"),
        ("${USER}", "ada"),
        ("${env:USER}", "ada"),
        ("/home/${USER}/${USER}.txt", "/home/ada/ada.txt"),
        ("${USER:-nobody}", "ada"),
        ("${MISSING:-nobody}", "nobody"),
        ("${env:MISSING:-nobody}", "nobody"),
        ("${MISSING:-http://localhost:80/a:-b}", "http://localhost:80/a:-b"),
        ("${MISSING:-}", ""),
        ("${MISSING:-two\nlines}", "two\nlines"),
        ("${EMPTY}", ""),
        ("${EMPTY:-nobody}", "nobody"),
        ("${ProgramFiles(x86)}\\x", "C:\\Programs\\x"),
    ],
)
def test_a_variable_is_put_in(text: str, expected: str) -> None:
    assert expand(text, ENVIRON) == expected


@pytest.mark.parametrize("text", ["$USER", "price: $5", "$(USER)", "${USER", "%USER%", "$$"])
def test_only_the_braced_form_is_a_variable(text: str) -> None:
    assert expand(text, ENVIRON) == text


def test_what_is_put_in_is_not_read_again() -> None:
    assert expand("${NESTED}", ENVIRON) == "${USER}"


@pytest.mark.parametrize("text", ["${GITHUB_TOKEN}", "a${env:GITHUB_TOKEN}b"])
def test_a_missing_variable_is_named_with_what_to_do(text: str) -> None:
    with pytest.raises(MissingVariable) as caught:
        expand(text, ENVIRON)
    assert caught.value.name == "GITHUB_TOKEN"
    assert not isinstance(caught.value, UnsupportedVariable)
    assert isinstance(caught.value, ConfigurationError)
    assert "GITHUB_TOKEN is not set" in str(caught.value)
    assert "${GITHUB_TOKEN:-default}" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("${input:github-token}", "input:github-token"),
        ("${workspaceFolder}/server", "workspaceFolder"),
        ("${userHome}", "userHome"),
        ("${command:pick}", "command:pick"),
        ("${USER%suffix}", "USER%suffix"),
        ("${}", ""),
    ],
)
def test_forms_of_other_programs_are_called_unsupported(text: str, name: str) -> None:
    with pytest.raises(UnsupportedVariable, match="is not supported here") as caught:
        expand(text, ENVIRON)
    assert caught.value.name == name
    assert f"${{{name}}}" in str(caught.value)


def test_an_editor_name_that_the_environment_has_is_used() -> None:
    assert expand("${workspaceFolder}", {"workspaceFolder": "/work"}) == "/work"


@pytest.mark.parametrize("text", ["${MISSING:-${OTHER:-s3cret}}", "${input:x:-s3cret}"])
def test_the_default_of_an_unsupported_form_is_not_shown(text: str) -> None:
    with pytest.raises(UnsupportedVariable) as caught:
        expand(text, ENVIRON)
    assert "s3cret" not in str(caught.value)
