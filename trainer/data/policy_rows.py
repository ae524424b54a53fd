"""Episodes as a policy would have read and written them: contexts and actions in tokens, made once.

Above: collecting.py. Below: proxy/policy, by whose own code an episode is told again: the same rules, the same folding
of old observations, the same text of actions. Pure functions.

What other agents thought is not in the log: there are no reasons, and what an agent said beside its calls is not there
either. An action that failed is read and not learned (TL-Training, arXiv 2412.15495), observations are never learned.
Where something was folded, the policy read another text from there on, which is another row; all rows of an episode
share its advantage (as in SUPO, arXiv 2510.06727). A context becomes tokens piece by piece, as it was read before each
action and as a model goes on from its own tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from proxy.errors import ConfigurationError
from proxy.policy.base import FINISH, Action, Asked, Exchange, Variant
from proxy.policy.context import Context
from proxy.policy.limits import WorkLimits
from proxy.policy.text_calls import messages, read_arguments
from proxy.store.recorder import Outcome
from proxy.store.rendering import REVISION, action, observation
from proxy.store.trajectory import TrajectoryStep
from trainer.data.judged import Judged
from trainer.data.keys import Keys
from trainer.data.shown import Shown
from trainer.data.tokens import Reader
from trainer.rows import Origin, PolicyRow, Segment, SegmentKind

MODE = "search"
TASK_ID = "task_id"


class Unfit(StrEnum):
    """Why an episode has no policy rows, in the words of a report."""

    MODE = "not in search mode, where alone a policy works"
    TASK = "without the task in the user's own words"
    CATALOGUE = "its catalogue was never written"
    VARIANT = "the gateway of that time lacked what the variant is about"
    ACTION = "an action that the variant does not offer"
    LONG = "the task is longer than the policy's context"
    FAILED = "no action of it succeeded"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySettings:
    """How the policy will work that reads these rows."""

    variant: Variant = Variant.TOOLS
    """`tools` or `code`: what the other two show at once, the log has as several steps, or not at all."""
    limits: WorkLimits = field(default_factory=WorkLimits)
    key_weight: float = 2.0
    """Of a token by which a name is decided; others that are learned have 1."""

    def __post_init__(self) -> None:
        if self.variant not in (Variant.TOOLS, Variant.CODE):
            raise ConfigurationError(f"a policy is trained for the variants tools and code, not for {self.variant}")
        if self.key_weight <= 0:
            raise ConfigurationError("key_weight is above 0")


def policy_rows(
    judged: Judged,
    origin: Origin,
    shown: Shown | None,
    keys: Keys,
    reader: Reader,
    settings: PolicySettings,
    *,
    turns: Sequence[float] = (),
    weight: float = 1.0,
) -> list[PolicyRow] | Unfit:
    """The rows of an episode, in order.

    `shown`: the catalogue at its begin. `keys`: of `reader`. `turns`: the advantages of the agent's own steps, where
    not the episode's. `weight`: of each row.
    """
    trajectory = judged.trajectory
    if trajectory.mode != MODE:
        return Unfit.MODE
    if origin.task is None:
        return Unfit.TASK
    if shown is None:
        return Unfit.CATALOGUE
    try:
        surface = shown.surface(settings.variant)
    except ConfigurationError:
        return Unfit.VARIANT
    if any(step.name not in surface.names for step in trajectory.steps):
        return Unfit.ACTION
    told = _Told(shown, surface.actions, keys, reader, settings)
    context = Context(surface.system, origin.task, surface.actions, settings.limits)
    for step in trajectory.steps:
        conversation = context.fitted()
        if conversation is None:
            # Here the policy's work would have ended.
            break
        asked = _asked(step, surface.actions)
        told.read(reader.prompt(messages(conversation, surface.actions)))
        told.write(step, asked)
        if step.name == FINISH and step.outcome is Outcome.OK:
            break
        observed = observation(step.observation, limit=settings.limits.observation_chars)
        context.add(Exchange(said="", asked=(asked,), observed=(observed,)))
    if not told.contexts:
        return Unfit.LONG
    own = {step.id: turn for step, turn in zip(trajectory.steps, turns, strict=False) if turn != origin.advantage}
    rows: list[PolicyRow] = []
    for number, segments in enumerate(told.contexts, 1):
        if not any(segment.weights for segment in segments):
            continue
        acts = [segment.step_id for segment in segments if segment.step_id is not None]
        rows.append(
            PolicyRow(
                id=f"{trajectory.id}/{number}",
                origin=origin,
                rendering=REVISION,
                tokenizer=reader.hash,
                segments=tuple(segments),
                advantages={act: own[act] for act in acts if act in own},
                weight=weight,
            )
        )
    return rows or Unfit.FAILED


class _Told:
    """Segments of an episode, context by context, as they are read and written."""

    def __init__(
        self, shown: Shown, actions: Sequence[Action], keys: Keys, reader: Reader, settings: PolicySettings
    ) -> None:
        self._shown = shown
        self._names = tuple(each.name for each in actions)
        self._keys = keys
        self._reader = reader
        self._settings = settings
        self._so_far: str | None = None
        """Text of the context, its last action included."""
        self.contexts: list[list[Segment]] = []

    def read(self, prompt: str) -> None:
        """All that stands before the next action."""
        tokens: tuple[int, ...] = ()
        if self._so_far is not None and prompt.startswith(self._so_far):
            tokens = self._reader.tokens(prompt[len(self._so_far) :])
        if tokens[:1] == (self._reader.end,):
            # It ended the action, and is part of it.
            tokens = tokens[1:]
        else:
            tokens = self._reader.tokens(prompt)
            self.contexts.append([])
        self.contexts[-1].append(Segment(SegmentKind.CONTEXT, tokens))
        self._so_far = prompt

    def write(self, step: TrajectoryStep, asked: Asked) -> None:
        text = action(asked.name, asked.arguments)
        ((tokens, spans),) = self._reader.spans([text])
        weights: tuple[float, ...] = ()
        if step.outcome is Outcome.OK and asked.problem is None:
            places = self._keys.places(text, asked.name, asked.arguments, self._shown, self._names)
            heavy = {next((at for at, (_, end) in enumerate(spans) if place < end), None) for place in places}
            weights = (*(self._settings.key_weight if at in heavy else 1.0 for at in range(len(tokens))), 1.0)
        segment = Segment(SegmentKind.ACT, (*tokens, self._reader.end), weights, step_id=step.id)
        self.contexts[-1].append(segment)
        assert self._so_far is not None
        self._so_far += text


def _asked(step: TrajectoryStep, actions: Sequence[Action]) -> Asked:
    """As a policy asks: agents of the protocol without sessions name their task, which a policy need not."""
    arguments, problem = read_arguments(step.arguments)
    parameters = next(each.parameters for each in actions if each.name == step.name)
    named = TASK_ID in parameters.get("properties", ())
    own = {name: value for name, value in arguments.items() if name != TASK_ID or named}
    return Asked(id=step.id, name=step.name, arguments=own, problem=problem)
