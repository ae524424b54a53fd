"""A transformers model in this process as the model of an agent, with its actions as text.

Above: making.py. Below: proxy/router/local_model.py. It computes on a thread, since no model runs on the event loop.
"""

from __future__ import annotations

from functools import partial
from itertools import count
from threading import Event

import anyio
import anyio.to_thread

from proxy.policy.base import Action, Answer, Conversation
from proxy.policy.text_calls import SAID_CHARS, asked_of, found, messages, without_reasoning
from proxy.router.adapters import Adapter
from proxy.router.local_model import LocalChat
from proxy.settings import ModelSettings


class LocalModel:
    """Implements `Model`; the model is loaded here, which may take a minute.

    Raises:
        ConfigurationError: As `LocalChat` does.
    """

    def __init__(self, settings: ModelSettings, output_tokens: int, adapter: Adapter | None = None) -> None:
        self._settings = settings
        self._adapter = adapter
        self._output_tokens = output_tokens
        self._chat = LocalChat(settings.model, adapter)
        self._ids = count(1)

    @property
    def identity(self) -> str:
        own = self._settings.identity
        return own if self._adapter is None else f"{own} with the adapter {self._adapter.hash[:12]}"

    async def close(self) -> None:
        """Nothing is held open."""

    async def answer(self, conversation: Conversation, actions: tuple[Action, ...]) -> Answer:
        """See `Model`."""
        cancelled = Event()
        work = partial(self._chat.answer, messages(conversation, actions), self._output_tokens, cancelled.is_set)
        try:
            # The thread cannot be interrupted: it is told to stop, and left to end with its next token.
            made = await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
        finally:
            cancelled.set()
        said = without_reasoning(made.text)
        meant = found(said, {each.name for each in actions})
        if meant is None:
            return Answer(said=said[:SAID_CHARS], tokens_in=made.tokens_in, tokens_out=made.tokens_out)
        asked = (asked_of(meant, f"call{next(self._ids):05d}"),)
        return Answer(said=meant.said, asked=asked, tokens_in=made.tokens_in, tokens_out=made.tokens_out)
