"""What a model sampled is never made into tokens again; what it read is what its chat template says."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.policy.base import Action, Asked, Conversation, Exchange
from proxy.policy.text_calls import messages
from tests.trainer.data.conftest import TEMPLATE, a_tokenizer
from trainer.data.tokens import Reader
from trainer.online.transcript import Transcript, between

ACTIONS = (Action(name="call_tool", description="Run a tool.", parameters={"type": "object"}),)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return a_tokenizer(TEMPLATE)


def exchange(text: str, observed: str) -> Exchange:
    name, _, arguments = text.partition(" ")
    assert arguments == "{}"
    return Exchange(said="", asked=(Asked(id="1", name=name, arguments={}),), observed=(observed,))


def test_reading_and_writing_in_turns_gives_the_text_of_the_template(tokenizer: Any) -> None:
    reader = Reader(tokenizer)
    transcript = Transcript(reader)
    said, observed = "call_tool {}", ["It is 7 degrees.\n", "Nothing <|im_end|> found"]
    exchanges: tuple[Exchange, ...] = ()
    for place in range(3):
        conversation = Conversation(system="s", task="t", exchanges=exchanges)
        transcript.read(transcript.following(conversation, ACTIONS), len(exchanges))
        transcript.wrote([*reader.tokens(said), reader.end], None)
        if place < 2:
            exchanges = (*exchanges, exchange(said, observed[place]))
    whole = reader.prompt(messages(Conversation(system="s", task="t", exchanges=exchanges), ACTIONS))
    assert tokenizer.decode(transcript.tokens) == f"{whole}{said}<|im_end|>"
    own = [token for token, mask in zip(transcript.completion, transcript.mask, strict=True) if mask]
    assert tokenizer.decode(own) == f"{said}<|im_end|>" * 3


def test_sampled_tokens_stay_as_they_were_where_their_text_has_others(tokenizer: Any) -> None:
    reader = Reader(tokenizer)
    usual = reader.tokens("call_tool {}")
    letters = [token for letter in "call_tool {}" for token in reader.tokens(letter)]
    assert letters != list(usual)
    transcript = Transcript(reader)
    transcript.read(transcript.following(Conversation(system="s", task="t"), ACTIONS), 0)
    transcript.wrote([*letters, reader.end], [-0.5] * (len(letters) + 1))
    later = Conversation(system="s", task="t", exchanges=(exchange("call_tool {}", "seen"),))
    read = transcript.following(later, ACTIONS)
    transcript.read(read, 1)
    transcript.wrote([reader.end], [-0.1])
    assert transcript.completion[: len(letters)] == letters
    assert transcript.mask == [1] * (len(letters) + 1) + [0] * len(read) + [1]
    assert transcript.logprobs == [-0.5] * (len(letters) + 1) + [0.0] * len(read) + [-0.1]


def test_between_two_answers_stands_what_the_template_puts_there(tokenizer: Any) -> None:
    assert (
        tokenizer.decode(between(Reader(tokenizer), "seen"))
        == "\n<|im_start|>user\nseen<|im_end|>\n<|im_start|>assistant\n"
    )
