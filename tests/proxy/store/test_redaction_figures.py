"""How often what is no secret is taken for one: in generated identifiers, and in texts by many authors."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from proxy.store.redaction import Redactor
from proxy.store.redaction_names import PLACEHOLDER

DATA = Path(__file__).parents[4] / "shared" / "data"
WORDS = (
    *("get", "set", "user", "item", "page", "list", "order", "build", "node", "index", "value", "read", "parse"),
    *("http", "json", "cache", "state", "event", "token", "key"),
)
IDENTIFIERS = 20_000
START = datetime(2020, 1, 1, tzinfo=UTC)


def identifiers(rng: Random) -> Iterator[str]:
    """As they stand in arguments and results, each alone or after a name that says nothing."""
    kinds = [
        lambda: str(uuid.UUID(int=rng.getrandbits(128), version=4)),
        lambda: f"{rng.getrandbits(160):040x}",
        lambda: f"sha256:{rng.getrandbits(256):064x}",
        lambda: f"{rng.getrandbits(128):032x}",
        lambda: f"{rng.getrandbits(28):07x}",
        lambda: f"r_{rng.getrandbits(40):010x}",
        lambda: f"s_{rng.getrandbits(64):016x}",
        lambda: f"e_{rng.getrandbits(96):024x}",
        lambda: f"{rng.choice(['cus', 'ticket', 'order', 'run'])}_{rng.getrandbits(96):024x}",
        lambda: (START + timedelta(seconds=rng.randrange(10**8))).isoformat(),
        lambda: str(rng.randrange(10 ** rng.randrange(1, 13))),
        lambda: f"{rng.randrange(10)}.{rng.randrange(30)}.0-rc.{rng.randrange(9)}",
        lambda: f"{rng.choice('ABCDEF')}{rng.choice('PQRS')}X-{rng.randrange(99999)}",
        lambda: "/".join(["", "srv", *rng.choices(WORDS, k=4), f"file_{rng.randrange(999)}.py:{rng.randrange(999)}"]),
        lambda: "_".join(rng.choices(WORDS, k=4)),
        lambda: "".join(word.title() for word in rng.choices(WORDS, k=4)) + str(rng.randrange(99)),
        lambda: f"https://example.com/{rng.choice(WORDS)}/{rng.choice(WORDS)}?page={rng.randrange(99)}",
        lambda: ".".join(str(rng.randrange(256)) for _ in range(4)),
        lambda: f"arn:aws:s3:::{'-'.join(rng.choices(WORDS, k=3))}/{rng.getrandbits(32):08x}",
        lambda: f"{rng.choice(WORDS)}@{rng.randrange(9)}.{rng.randrange(20)}.{rng.randrange(9)}",
    ]
    for number in range(IDENTIFIERS):
        yield kinds[number % len(kinds)]()


def test_identifiers_are_left_alone() -> None:
    rng = Random(20)
    redactor = Redactor(b"k" * 32)
    values = [
        {"id": each, "name": f"see {each}.", "args": [f"--ref={each}"], "text": json.dumps({"value": each, "n": 1})}
        for each in identifiers(rng)
    ]
    wrong = [value for value in values if redactor.value("e_1", value) != value]
    assert wrong == []


@pytest.mark.parametrize(
    ("file", "most"),
    [
        ("catalog_mcpbench.jsonl", 0),
        ("tasks_mcpbench.jsonl", 0),
        ("catalog_large.jsonl", 4),
        ("tasks_metatool_multi.jsonl", 0),
    ],
)
def test_few_words_of_real_texts_are_taken_for_secrets(file: str, most: int) -> None:
    """E-mail addresses in examples are rightly recognised and not counted; two of the four are passwords."""
    path = DATA / file
    if not path.exists():
        pytest.skip(f"the shared data set {file} is not here")
    found = 0
    for number, line in enumerate(path.read_text("utf-8").splitlines()):
        redacted = Redactor(b"k" * 32).value(f"e_{number}", json.loads(line))
        kinds = [match[0] for match in PLACEHOLDER.finditer(json.dumps(redacted))]
        found += sum(not kind.startswith("[email:") for kind in kinds)
    assert found <= most
