from __future__ import annotations

import json

import pytest

from proxy.clients.base import Entry
from proxy.clients.masking import masked, summary

SECRET = "s3cret-Value"


@pytest.mark.parametrize(
    "entry",
    [
        {"env": {"K": SECRET}},
        {"env": {"K": "${K:-" + SECRET + "}"}},
        {"headers": {"Authorization": f"Bearer {SECRET}"}},
        {"http_headers": {"X": SECRET}},
        {"oauth": {"clients": [{"secret": SECRET}]}},
        {"unknown": SECRET},
        {"url": f"https://ann:{SECRET}@x.example/mcp"},
        {"url": f"https://x.example/mcp?a=1&key={SECRET}"},
        {"args": ["--api-key", SECRET]},
        {"args": [f"--api-key={SECRET}"]},
        {"args": ["-e", f"GITHUB={SECRET}"]},
        {"args": [f"API_KEY={SECRET}"]},
        {"args": ["--header", f"Authorization: Bearer {SECRET}"]},
        {"args": [f"postgres://ann:{SECRET}@db/x"]},
        {"args": [f"sk-{SECRET}"]},
        {"command": f"npx x --token {SECRET}"},
        {"command": ["npx", "--token", SECRET]},
    ],
)
def test_a_secret_is_hidden_wherever_it_may_be_written(entry: Entry) -> None:
    assert SECRET not in json.dumps(masked(entry))
    assert SECRET not in summary(entry)


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/home/ann/notes"]},
        {"command": "/opt/My Programs/x", "cwd": "/w", "startup_timeout_sec": 30, "enabled": False},
        {"url": "https://x.example/mcp", "headers": {"Authorization": "Bearer ${env:TOK}", "X": "${X}"}},
        {"url": "https://x.example/mcp", "bearer_token_env_var": "TOK", "env_http_headers": {"X": "TOK"}},
        {"command": "toolatlas", "args": ["stdio", "--token-env", "TOK"]},
        {"command": "docker", "args": ["run", "-e", "GITHUB_TOKEN", "ghcr.io/github/github-mcp-server"]},
        {"tools": {"allow": ["read_*"]}, "description": "Notes"},
    ],
)
def test_what_is_no_secret_is_shown(entry: Entry) -> None:
    assert masked(entry) == entry


def test_the_summary_names_the_variables_and_headers() -> None:
    entry = {"command": "npx", "args": ["x"], "env": {"A": SECRET, "B": SECRET}, "enabled": False}
    assert summary(entry) == "npx x (env: A, B) (disabled)"
    assert summary({"url": "https://x.example/", "headers": {"H": SECRET}}) == "https://x.example/ (headers: H)"
