"""A database of SQLite, and a tokenizer that is made on the spot: byte-level BPE with merges, and a chat template."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from proxy.store.database import Database
from proxy.store.migrating import migrate
from tests.trainer.data.logs import TOOLS
from trainer.data.tokens import Reader

TEMPLATE = (
    "{% for each in messages %}<|im_start|>{{ each.role }}\n{{ each.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture
async def database(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Database]:
    url = f"sqlite:///{tmp_path / 'log.db'}"
    await migrate(url)
    database = Database(url)
    yield database
    await database.close()


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    return a_tokenizer(TEMPLATE)


@pytest.fixture(scope="session")
def reader(tokenizer: Any) -> Reader:
    return Reader(tokenizer)


def a_tokenizer(template: str | None) -> Any:
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    library: Any = transformers
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    special = ["<|im_start|>", "<|im_end|>"]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=700, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator([*TOOLS, 'call_tool {"tool": "', "describe_tools search_tools list_tools"] * 20, trainer)
    return library.PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|im_end|>", chat_template=template)
