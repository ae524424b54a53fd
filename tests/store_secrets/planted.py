"""Secrets in the formats of their vendors, all made up here, and sentences and code that hold them."""

from __future__ import annotations

import base64
import json
import string
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

ALNUM = string.ascii_letters + string.digits
UPPER = string.ascii_uppercase + string.digits
HEX = "0123456789abcdef"
URL_SAFE = ALNUM + "-_"


@dataclass(frozen=True, slots=True)
class Planted:
    """One secret of one kind."""

    kind: str
    secret: str
    """None of it may be found."""
    text: str
    """What holds it."""


def _jwt(some: Callable[[str, int], str]) -> str:
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
        for part in ({"alg": "HS256"}, {"sub": "x1"})
    ]
    return ".".join([*parts, some(URL_SAFE, 43)])


def _card(rng: Random) -> str:
    digits = "4" + "".join(rng.choices(string.digits, k=14))
    total = sum(sum(divmod(int(digit) * (2 - place % 2), 10)) for place, digit in enumerate(digits))
    return digits + str(-total % 10)


def planted(rng: Random) -> list[Planted]:
    """One of each kind."""

    def some(alphabet: str, number: int) -> str:
        return "".join(rng.choices(alphabet, k=number))

    formats = {
        "aws": "AKIA" + some(UPPER, 16),
        "github": "ghp_" + some(ALNUM, 36),
        "github fine-grained": "github_pat_" + some(ALNUM + "_", 82),
        "gitlab": "glpat-" + some(URL_SAFE, 20),
        "slack": "xoxb-" + some(string.digits, 11) + "-" + some(string.digits, 12) + "-" + some(ALNUM, 24),
        "stripe": "sk_live_" + some(ALNUM, 24),
        "openai": "sk-proj-" + some(URL_SAFE, 80),
        "anthropic": "sk-ant-api03-" + some(URL_SAFE, 93),
        "google": "AIza" + some(URL_SAFE, 35),
        "google oauth": "ya29." + some(URL_SAFE, 80),
        "hugging face": "hf_" + some(string.ascii_letters, 34),
        "npm": "npm_" + some(ALNUM, 36),
        "pypi": "pypi-AgEIcHlwaS5vcmc" + some(URL_SAFE, 150),
        "sendgrid": "SG." + some(URL_SAFE, 22) + "." + some(URL_SAFE, 43),
        "telegram": some("123456789", 10) + ":AA" + some(URL_SAFE, 33),
        "digitalocean": "dop_v1_" + some(HEX, 64),
        "databricks": "dapi" + some(HEX, 32),
        "vault": "hvs." + some(URL_SAFE, 24),
        "linear": "lin_api_" + some(ALNUM, 40),
        "docker": "dckr_pat_" + some(URL_SAFE, 27),
        "shopify": "shpat_" + some(HEX, 32),
        "signed token": _jwt(some),
        "ours": "ta_" + some(URL_SAFE, 43),
        "task id": "t0_" + some(HEX, 24),
        "card": _card(rng),
        "e-mail": f"{some(string.ascii_lowercase, 9)}@{some(string.ascii_lowercase, 7)}.example",
    }
    body = "\n".join(some(ALNUM + "+/", 64) for _ in range(6))
    word, pair = some(ALNUM, 14) + "7!", some(ALNUM, 12) + "8"
    found = [Planted(kind, secret, f"Use {secret} from now on") for kind, secret in formats.items()]
    named = {
        "environment": "export DB_PASSWORD={}",
        "option": "mysql --password {} --host db",
        "json": '{{"client_secret": "{}", "n": 1}}',
        "json in json": json.dumps(json.dumps({"api_key": "{}"}))
        .replace("{", "{{")
        .replace("}", "}}")
        .replace("{{{{}}}}", "{}"),
        "header": "curl -H 'X-Api-Key: {}' https://api.example",
        "bearer": "Authorization: Bearer {}",
        "query": "https://api.example/v1?limit=3&access_token={}&page=2",
        "url": "postgresql://app:{}@db.example:5432/app",
        "code": 'client = Client("https://api.example", token="{}")',
        "subscript": "os.environ['SECRET_KEY'] = '{}'",
        "settings": "user: app\npassword: {}\nhost: db",
        "connection string": "Server=db;User Id=app;Password={};Encrypt=yes",
        "prose": "The password is {} for everybody",
        "xml": "<config><password>{}</password></config>",
        "cookie": "Cookie: session={}; theme=dark",
    }
    for kind, sentence in named.items():
        secret = some(ALNUM, 15) + "9"
        found.append(Planted(kind, secret, sentence.replace("{{", "{").replace("}}", "}").replace("{}", secret)))
    encoded = base64.b64encode(f"app:{pair}".encode()).decode()
    pem = f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----"
    return [
        *found,
        Planted("private key", body.split("\n")[3], pem),
        Planted("basic", encoded, f"Authorization: Basic {encoded}"),
        Planted("once named", word, f"password = '{word}'\nprint('{word}')  # {word}"),
    ]
