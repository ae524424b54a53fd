"""A transformers model in this process: a tiny one with random weights, made here, so that nothing is downloaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from proxy.errors import ConfigurationError
from proxy.policy.base import Action, Conversation
from proxy.policy.local_model import LocalModel
from proxy.router.local_model import LocalChat
from proxy.settings import ModelSettings

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
TEMPLATE = "{% for m in messages %}{{ m['role'] }} {{ m['content'] }} {% endfor %}assistant "
MESSAGES = [{"role": "user", "content": "alpha beta gamma"}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(1)
    where = tmp_path_factory.mktemp("model")
    words = ["<unk>", "<eos>", "user", "assistant", "alpha", "beta", "gamma", "delta", "system"]
    own = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="<unk>"))
    own.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer: Any = PreTrainedTokenizerFast(tokenizer_object=own, unk_token="<unk>", eos_token="<eos>")
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(where)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    # No end of its own, so that only a limit or a cancellation ends an answer.
    config = LlamaConfig(vocab_size=len(words), max_position_embeddings=4_096, eos_token_id=None, **sizes)
    LlamaForCausalLM(config).save_pretrained(where)
    return where


def test_an_answer_has_at_most_so_many_tokens_and_is_the_same_each_time(folder: Path) -> None:
    chat = LocalChat(str(folder))
    first = chat.answer(MESSAGES, 5, lambda: False)
    assert (first.tokens_in, first.tokens_out) == (5, 5)
    assert chat.answer(MESSAGES, 5, lambda: False) == first


def test_an_answer_ends_once_it_is_cancelled(folder: Path) -> None:
    asked = iter([False, False, True])
    assert LocalChat(str(folder)).answer(MESSAGES, 1_000, lambda: next(asked)).tokens_out == 3


def test_what_is_no_model_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="nothing-here"):
        LocalChat(str(tmp_path / "nothing-here"))


def test_a_model_without_a_chat_template_is_refused(folder: Path, tmp_path: Path) -> None:
    for path in folder.iterdir():
        if path.name != "chat_template.jinja":
            (tmp_path / path.name).write_bytes(path.read_bytes())
    with pytest.raises(ConfigurationError, match="no chat template"):
        LocalChat(str(tmp_path))


@pytest.mark.anyio
async def test_as_an_agents_model_it_answers_in_text_and_is_left_when_cancelled(folder: Path) -> None:
    actions = (Action(name="finish_task", description="End.", parameters={}),)
    conversation = Conversation(system="alpha", task="beta")
    model = LocalModel(ModelSettings(model=str(folder)), 4)
    answer = await model.answer(conversation, actions)
    assert answer.tokens_out == 4
    assert answer.asked == ()
    assert model.identity == f"{folder} in this process"
    endless = LocalModel(ModelSettings(model=str(folder)), 4_000)
    with anyio.fail_after(60):
        with anyio.move_on_after(0.2) as scope:
            await endless.answer(conversation, actions)
    assert scope.cancelled_caught
