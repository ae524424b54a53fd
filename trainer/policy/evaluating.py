"""What a policy knows of held-out actions: how likely it finds those that came out well, which it would choose from
closed lists, and whether what it writes by itself is an action at all.

Above: the bench. Below: the model as the router's scorer asks it, and the agent loop's own reading of actions. Of long
rows as much is read as in training. Means over few actions are noise: every figure stands with its number.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, fsum, log
from typing import Any, cast

import jsonschema_rs

from proxy.policy.base import Action
from proxy.policy.text_calls import Found, found
from proxy.router.language_model import LanguageModel
from trainer.data.tokens import Reader
from trainer.policy.windows import Act, acts, tokens
from trainer.ranking.tensors import torch
from trainer.rows import PolicyRow

LISTED = 20
"""The most tools of a closed list: those that were read last."""
_TOOL = re.compile(r"[\w-]{1,100}\.[\w.-]{1,100}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What stands before a held-out action that came out well."""

    context: tuple[int, ...]
    actions: tuple[Action, ...]
    name: str
    """Of the action that was right."""
    tool: str | None
    """That `call_tool` was to call; None for other actions, and where the policy had not read of it."""
    tools: tuple[str, ...]
    """The closed list that it is in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """How well one of a closed list was found."""

    count: int
    listed: float
    """Of how many, on average; 1 / `listed` is about what chance gets right."""
    nll: float
    """Mean negative logarithm of the probability of the right one, in nats, within its list."""
    chance: float
    """The same where all of a list are alike."""
    accuracy: float
    commonest: float
    """The accuracy of whoever always says what is right most often in these very moments, reading nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What came of writing freely, the likeliest token each time."""

    count: int
    read: float
    """The share that the agent loop reads as an action."""
    valid: float
    """That has arguments which the action takes, too."""
    right: float
    """That is, besides, the action that was right, whatever its arguments."""


def moments(
    row: PolicyRow, reader: Reader, tokenizer: Any, shown: Sequence[Action], known: frozenset[str], *, before: int
) -> list[Moment]:
    """All of a row. `shown`: the actions that it offers. `known`: written names of the catalogue's tools."""
    whole = tokens(row)
    names = {action.name for action in shown}
    made: list[Moment] = []
    for act in acts(row):
        if not act.taught or act.advantage <= 0:
            continue
        name, arguments = _asked(whole, act, tokenizer)
        if name not in names:
            continue
        read = _TOOL.findall(tokenizer.decode(list(whole[: act.start])))
        listed = list(dict.fromkeys(tool for tool in reversed(read) if tool in known))[:LISTED]
        tool = arguments.get("tool") if name == "call_tool" else None
        usable = isinstance(tool, str) and tool in listed and len(listed) > 1
        made.append(
            Moment(
                context=whole[max(0, act.start - before) : act.start],
                actions=tuple(shown),
                name=name,
                tool=cast("str", tool) if usable else None,
                tools=tuple(sorted(listed)) if usable else (),
            )
        )
    return made


def next_actions(language: LanguageModel, reader: Reader, at: Sequence[Moment]) -> Decided:
    """Which action comes next, from all that are offered."""
    lists = [{each.name: _begun(each) for each in moment.actions} for moment in at]
    return _decided(language, reader, [(m.context, its, m.name) for m, its in zip(at, lists, strict=True)])


def next_tools(language: LanguageModel, reader: Reader, at: Sequence[Moment]) -> Decided:
    """Which tool is called, once it is `call_tool`, from those that the policy has read of."""
    asked = [
        (m.context, {tool: f'call_tool {{"tool": {json.dumps(tool)},' for tool in m.tools}, m.tool)
        for m in at
        if m.tool is not None
    ]
    return _decided(language, reader, asked)


def written(
    language: LanguageModel, reader: Reader, at: Sequence[Moment], *, most: int, batch: int = 8
) -> tuple[Written, list[str]]:
    """What the policy writes by itself, at most `most` tokens each, and the texts."""
    texts: list[str] = []
    for start in range(0, len(at), batch):
        texts += _generated(language, reader, [each.context for each in at[start : start + batch]], most)
    read = [found(text, {each.name for each in m.actions}) for text, m in zip(texts, at, strict=True)]
    valid = [its is not None and _fits(its, m.actions) for its, m in zip(read, at, strict=True)]
    right = [fits and its is not None and its.name == m.name for its, fits, m in zip(read, valid, at, strict=True)]
    count = max(1, len(at))
    figures = Written(
        count=len(at),
        read=sum(its is not None and its.problem is None for its in read) / count,
        valid=sum(valid) / count,
        right=sum(right) / count,
    )
    return figures, texts


def _decided(
    language: LanguageModel, reader: Reader, asked: Sequence[tuple[Sequence[int], Mapping[str, str], str]]
) -> Decided:
    lost: list[float] = []
    hits = 0
    for context, candidates, right in asked:
        names = list(candidates)
        scores = language.log_likelihoods(context, [reader.tokens(candidates[name]) for name in names])
        best = max(scores)
        whole = best + log(fsum(exp(score - best) for score in scores))
        lost.append(whole - scores[names.index(right)])
        hits += names[scores.index(best)] == right
    count = max(1, len(asked))
    return Decided(
        count=len(asked),
        listed=sum(len(its) for _, its, _ in asked) / count,
        nll=fsum(lost) / count,
        chance=fsum(log(len(its)) for _, its, _ in asked) / count,
        accuracy=hits / count,
        commonest=max(Counter(right for _, _, right in asked).values(), default=0) / count,
    )


def _generated(language: LanguageModel, reader: Reader, contexts: Sequence[Sequence[int]], most: int) -> list[str]:
    longest = max(map(len, contexts))
    device = language.model.device
    # Padded on the left, so that all go on from the same place; what stands there is not read.
    ids = torch.tensor([[*[reader.end] * (longest - len(each)), *each] for each in contexts], device=device)
    read = torch.tensor([[*[0] * (longest - len(each)), *[1] * len(each)] for each in contexts], device=device)
    with torch.inference_mode():
        made = language.model.generate(
            input_ids=ids,
            attention_mask=read,
            max_new_tokens=most,
            do_sample=False,
            temperature=None,
            top_p=None,
            top_k=None,
            eos_token_id=reader.end,
            pad_token_id=reader.end,
        )
    return [str(text) for text in language.tokenizer.batch_decode(made[:, longest:], skip_special_tokens=True)]


def _asked(whole: Sequence[int], act: Act, tokenizer: Any) -> tuple[str, Mapping[str, Any]]:
    text = str(tokenizer.decode(list(whole[act.start : act.end]), skip_special_tokens=True))
    name, _, rest = text.partition(" ")
    try:
        said: Any = json.loads(rest)
    except ValueError:
        return name, {}
    return name, cast("Mapping[str, Any]", said) if isinstance(said, dict) else {}


def _begun(action: Action) -> str:
    """So much of it that it can be no other; the same for all, whose arguments come after."""
    return f'{action.name} {{"' if action.parameters.get("properties") else f"{action.name} {{}}"


def _fits(its: Found, actions: Sequence[Action]) -> bool:
    schema = next(each.parameters for each in actions if each.name == its.name)
    return its.problem is None and jsonschema_rs.is_valid(dict(schema), dict(its.arguments))
