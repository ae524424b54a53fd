"""Takes what is secret or personal out of what is logged, before anything is written.

Above: writer.py, for every step. Below: redaction_patterns.py, secrets that show by their form; redaction_assigned.py,
those that show by a name before them; redaction_names.py, which names those are.

A placeholder such as `[email:3f9a2c1b]` is a keyed hash of the value and the episode: the same value has the same one
all through an episode, wherever and however encoded it stands, so that one can still tell that an argument came from a
result; and another one in every other episode. What was recognised once by its name is taken out of later text without
a name, too. What was written before it was recognised stays. In doubt credentials are taken out and identifiers left.
"""

from __future__ import annotations

import hmac
import json
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import quote, quote_plus, unquote

from proxy.store.redaction_assigned import by_name, cookies_of
from proxy.store.redaction_names import (
    PLACEHOLDER,
    Naming,
    is_secret,
    naming,
    naming_of_control,
    worth_remembering,
)
from proxy.store.redaction_patterns import (
    SHORTEST,
    OwnPatterns,
    begins_word,
    by_form,
    decoded,
    is_card,
    long_words,
)
from proxy.store.redaction_pieces import Found, Taken
from proxy.store.redaction_private_keys import key_lines

EPISODES = 1_000
"""Episodes whose secrets are remembered, the last used ones."""
SECRETS = 64
"""Remembered of an episode, the last found ones."""
ROUNDS = 4
"""What is taken out can uncover more: text is gone over until nothing changes, at most so often."""
_LABELS = ("name", "key", "field", "header", "variable", "parameter", "Name", "Key")
_CONTROLS = ("element", "selector", "locator", "label", "placeholder")
"""Under these, tools that drive a page say in which of its fields something is typed."""
_LABELLED = frozenset({"value", "val", "data", "content"})
_SCHEMES = frozenset({"bearer", "basic", "token", "apikey", "digest"})


@dataclass(slots=True)
class _Known:
    """Secrets of one episode."""

    placeholders: OrderedDict[str, str] = field(default_factory=OrderedDict[str, str])
    """By value."""
    written: dict[str, str] = field(default_factory=dict[str, str])
    """Value by each way in which it may be written."""


class Redactor:
    """Of one process; not for several threads at once. Nothing here raises, whatever the input."""

    def __init__(self, key: bytes, patterns: tuple[str, ...] = ()) -> None:
        """`key`: that of the installation (redaction_key.py). `patterns`: RE2 expressions of the gateway's owner.

        Raises:
            ConfigurationError: A pattern cannot be used.
        """
        self._hashes = hmac.digest(key, b"toolatlas hashes", "sha256")
        self._placeholders = hmac.digest(key, b"toolatlas placeholders", "sha256")
        self._own = OwnPatterns(patterns) if patterns else None
        self._episodes: OrderedDict[str, _Known] = OrderedDict()

    def digest(self, content: bytes) -> str:
        """Keyed hash, 64 hexadecimal digits, the same in all episodes: equal contents can be told, none guessed."""
        return hmac.digest(self._hashes, content, "sha256").hex()

    def text(self, episode_id: str, text: str) -> str:
        """`text` without what is secret; redacting it again changes nothing."""
        return self._text(episode_id, self._of(episode_id), text)

    def value(self, episode_id: str, value: Any) -> Any:
        """The JSON value `value` with all strings and keys within it redacted, and what stands under names of secrets.
        Its form stays; a number that is secret becomes a string."""
        known = self._of(episode_id)
        for _ in range(ROUNDS):
            before = tuple(known.written)
            value = self._walked(episode_id, known, value)
            if tuple(known.written) == before:
                break
        return value

    def _walked(self, episode_id: str, known: _Known, value: Any) -> Any:
        """One pass over a value, with a stack of its own since JSON may be nested deeper than Python's."""
        top: list[Any] = [None]
        waiting: list[tuple[Any, Any, Any, Naming]] = [(top, 0, value, Naming.NOTHING)]
        while waiting:
            into, place, item, said = waiting.pop()
            if isinstance(item, dict):
                members: dict[Any, Any] = {}
                into[place] = members
                waiting.extend(self._members(episode_id, known, cast(dict[Any, Any], item), members, said))
            elif isinstance(item, list | tuple):
                items = cast("list[Any] | tuple[Any, ...]", item)
                copy: list[Any] = [None] * len(items)
                into[place] = copy
                lines = key_lines(items)
                waiting.extend(
                    (copy, at, each, Naming.SECRET if at in lines else _said_in_list(items, at, said))
                    for at, each in enumerate(items)
                )
            else:
                into[place] = self._leaf(episode_id, known, item, said)
        return top[0]

    def _members(
        self, episode_id: str, known: _Known, item: dict[Any, Any], into: dict[Any, Any], said: Naming
    ) -> Iterator[tuple[Any, Any, Any, Naming]]:
        labelled = max(
            (naming(label) for name in _LABELS if isinstance(label := item.get(name), str)), default=Naming.NOTHING
        )
        typed = max(
            (naming_of_control(label) for name in _CONTROLS if isinstance(label := item.get(name), str)),
            default=Naming.NOTHING,
        )
        if "type" in item and "description" in item:
            said = Naming.NOTHING  # A schema: it tells of secrets and holds none.
        for key, inner in item.items():
            shown = key
            within = Naming.NOTHING
            if isinstance(key, str):
                shown = self._text(episode_id, known, key)
                while shown != key and shown in into:
                    shown += "'"  # Two keys never become one.
                within = naming(shown if shown is key else PLACEHOLDER.sub("", shown))
                if within is Naming.NOTHING and key.lower() in _LABELLED:
                    within = max(labelled, typed, said)
                elif within is Naming.NOTHING and key == "text":
                    within = typed
                elif within is Naming.NOTHING and said is Naming.MANY and key.lower() not in _LABELS:
                    within = said
            into[shown] = None  # Keeps the order.
            yield into, shown, inner, within

    def _leaf(self, episode_id: str, known: _Known, item: Any, said: Naming) -> Any:
        if isinstance(item, str):
            if said is not Naming.NOTHING:
                return self._named(episode_id, known, item, said)
            return self._text(episode_id, known, item)
        if isinstance(item, int) and not isinstance(item, bool):
            return self._number(episode_id, known, item, said)
        return item

    def _named(self, episode_id: str, known: _Known, text: str, said: Naming) -> str:
        """A string under a name that names secrets."""
        scheme, space, rest = text.partition(" ")
        if space and scheme.lower() in _SCHEMES:
            head, secret = scheme + space, rest
        else:
            head, secret = "", text
        if not is_secret(secret, said):
            return self._text(episode_id, known, text)
        if scheme.lower() == "basic" and (pair := decoded(secret)) is not None and ":" in pair:
            self._remember(episode_id, known, pair.partition(":")[2])
            return head + self._placeholder(episode_id, known, "secret", pair)
        for each in (secret, *cookies_of(secret)):
            self._remember(episode_id, known, each)
        return head + self._placeholder(episode_id, known, *_canonical("secret", secret))

    def _number(self, episode_id: str, known: _Known, number: int, said: Naming) -> Any:
        if said in (Naming.SECRET, Naming.DIGITS) and 100 <= abs(number) < 10**40:
            if is_secret(str(number), said):
                return self._placeholder(episode_id, known, "secret", str(number))
        elif 10**13 <= number < 10**19 and is_card(str(number)):
            return self._placeholder(episode_id, known, "card", str(number))
        return number

    def _text(self, episode_id: str, known: _Known, text: str) -> str:
        if len(text) < SHORTEST and text.isidentifier() and not known.written and self._own is None:
            return text
        for _ in range(ROUNDS):
            redacted = self._once(episode_id, known, text)
            if redacted == text:
                break
            text = redacted
        return text

    def _once(self, episode_id: str, known: _Known, text: str) -> str:
        taken = Taken(text)
        for found in self._found(known, text):
            taken.add(found)
        if not taken.found:
            return text
        parts: list[str] = []
        at = 0
        for found in taken.found:
            kind, value = _canonical(found.kind, found.value)
            parts += (text[at : found.start], self._placeholder(episode_id, known, kind, value))
            at = found.end
            for secret in found.secrets:
                self._remember(episode_id, known, secret)
        return "".join((*parts, text[at:]))

    def _found(self, known: _Known, text: str) -> Iterator[Found]:
        """All that is to be replaced, the surest first."""
        yield from by_name(text)
        if known.written:
            yield from _again(known, text)
        if self._own is not None:
            yield from self._own.find(text)
        yield from by_form(text)

    def _placeholder(self, episode_id: str, known: _Known, kind: str, value: str) -> str:
        already = known.placeholders.get(value)
        if already is not None:
            return already
        content = "\0".join((episode_id, kind, value)).encode("utf-8", "surrogatepass")
        return f"[{kind}:{hmac.digest(self._placeholders, content, 'sha256').hex()[:8]}]"

    def _remember(self, episode_id: str, known: _Known, secret: str) -> None:
        if (plain := _unescaped(secret)) != secret:
            self._remember(episode_id, known, plain)
        if secret in known.placeholders or not worth_remembering(secret):
            return
        known.placeholders[secret] = self._placeholder(episode_id, known, *_canonical("secret", secret))
        if len(known.placeholders) > SECRETS:
            known.placeholders.popitem(last=False)
        ways = {written: value for value in known.placeholders for written in _ways(value)}
        # What contains another one has to be found before it.
        known.written = dict(sorted(ways.items(), key=lambda way: -len(way[0])))

    def _of(self, episode_id: str) -> _Known:
        known = self._episodes.get(episode_id)
        if known is None:
            known = self._episodes[episode_id] = _Known()
            if len(self._episodes) > EPISODES:
                self._episodes.popitem(last=False)
        else:
            self._episodes.move_to_end(episode_id)
        return known


def _said_in_list(items: list[Any] | tuple[Any, ...], at: int, said: Naming) -> Naming:
    """What is known of one item: as the list's name says, or the item before it, as in `["--password", "…"]` and
    `["X-Api-Key", "…"]`."""
    if said is not Naming.NOTHING:
        return min(said, Naming.MANY)
    before = items[at - 1] if at else None
    if not isinstance(before, str) or not 3 < len(before) <= 80:
        return said
    if before.startswith("-") and " " not in before:
        return naming(before.lstrip("-"))
    return min(naming(before), Naming.MANY) if len(items) == 2 else said


def _canonical(kind: str, value: str) -> tuple[str, str]:
    """Kind and value by form where the whole of it has one, so that a name before it makes no difference; out of the
    escapes of a URL."""
    value = _unescaped(value)
    if kind == "secret":
        for found in by_form(value):
            if found.start == 0 and found.end == len(value):
                return found.kind, found.value
    return kind, value


def _unescaped(value: str) -> str:
    plain = unquote(value) if "%" in value else value
    return value if "\ufffd" in plain else plain


def _again(known: _Known, text: str) -> Iterator[Found]:
    """Where secrets of the episode stand once more."""
    for written, value in known.written.items():
        at = text.find(written)
        while at >= 0:
            end = at + len(written)
            # A short one may be a part of another word.
            if len(written) >= 12 or (not text[end : end + 1].isalnum() and begins_word(text, at)):
                yield Found(at, end, "secret", value)
            at = text.find(written, end)
    for word in long_words(text):
        content = decoded(word[0])
        if content is not None and any(value in content for value in known.placeholders):
            yield Found(word.start(), word.end(), "secret", content)


def _ways(secret: str) -> set[str]:
    """How a secret may be written within text: as it is, in a URL, in JSON, in JSON within JSON."""
    escaped = json.dumps(secret)[1:-1]
    plain = json.dumps(secret, ensure_ascii=False)[1:-1]
    urls = secret.encode("utf-8", "surrogatepass")
    return {secret, quote(urls, safe=""), quote_plus(urls), escaped, plain, json.dumps(escaped)[1:-1]}
