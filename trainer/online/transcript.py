"""One rollout in tokens: those that the model wrote stay as it sampled them, those that it read are made once.

Above: sampling.py. Below: trainer/data/tokens.py. No text of the model is made into tokens again: that can give others
than it had sampled, and then what is learned is not what was done (huggingface/trl issue 5224). What stands between two
of its answers, its end and the next opening included, is taken from a short conversation of the same template.
"""

from __future__ import annotations

from collections.abc import Sequence

from proxy.policy.base import Action, Conversation
from proxy.policy.text_calls import messages
from trainer.data.tokens import Reader

_ASK = {"role": "user", "content": "a"}
_ANSWER = {"role": "assistant", "content": "b"}


class Transcript:
    """Of one task."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.prompt: tuple[int, ...] = ()
        """What the model read before its first answer; of a rollout that never began it is empty."""
        self.completion: list[int] = []
        """All that followed, ends of answers included; the last token is always the model's own."""
        self.mask: list[int] = []
        """Of each token of `completion`: 1 where the model wrote it, 0 where it was read."""
        self.logprobs: list[float] = []
        """Of each token of `completion` when it was sampled, 0 where it was read; empty where nobody told."""
        self._told = 0

    def following(self, conversation: Conversation, actions: tuple[Action, ...]) -> list[int]:
        """Tokens that were read since the last answer: at first the whole prompt. Nothing is noted yet."""
        if not self.prompt:
            return list(self._reader.tokens(self._reader.prompt(messages(conversation, actions))))
        new = conversation.exchanges[self._told :]
        read: list[int] = []
        for exchange in new:
            # Text has one action a turn; a turn without any was answered, too.
            read += between(self._reader, exchange.observed[0])
        return read

    def read(self, tokens: Sequence[int], turns: int) -> None:
        """What `following` gave, once it is told to the model; `turns`: of the conversation so far."""
        self._told = turns
        if not self.prompt:
            self.prompt = tuple(tokens)
            return
        self._add(tokens, 0, None)

    def wrote(self, tokens: Sequence[int], logprobs: Sequence[float] | None) -> None:
        """An answer, as it was sampled, with its end where it has one."""
        self._add(tokens, 1, logprobs)

    @property
    def tokens(self) -> list[int]:
        return [*self.prompt, *self.completion]

    def _add(self, tokens: Sequence[int], own: int, logprobs: Sequence[float] | None) -> None:
        if logprobs is not None and len(self.logprobs) < len(self.completion):
            self.logprobs += [0.0] * (len(self.completion) - len(self.logprobs))
        self.completion += tokens
        self.mask += [own] * len(tokens)
        if logprobs is not None:
            self.logprobs += logprobs


def between(reader: Reader, observed: str) -> tuple[int, ...]:
    """Tokens after the end of an answer, up to where the next one begins: what the template puts there, around what was
    observed."""
    before, after = reader.prompt([_ASK]), reader.prompt([_ASK, _ANSWER, {"role": "user", "content": observed}])
    tokens = reader.tokens(after.removeprefix(f"{before}{_ANSWER['content']}"))
    # The reader has seen to it that templates begin it with the token that ends an answer, which the model wrote.
    assert tokens[:1] == (reader.end,)
    return tokens[1:]
