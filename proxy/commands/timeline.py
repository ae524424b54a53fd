"""One episode as a person reads it in a terminal: what the agent asked, what it was answered, in order and with times.

Above: episodes.py. Below: store/rendering.py, which makes the texts of agents and servers harmless.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from rich.text import Text

from proxy.store.judgements import Judgement, Label
from proxy.store.recorder import Level, Outcome
from proxy.store.rendering import action, observation, visible
from proxy.store.trajectory import Missing, Size, Trajectory, TrajectoryDecision, TrajectoryStep

MISSING = {
    Missing.NOT_LOGGED: "not logged",
    Missing.NOTHING: "none",
    Missing.RUNNING: "not known while it is running",
    Missing.UNTOLD: "the agent did not say",
}


def timeline(trajectory: Trajectory, limit: int | None) -> Iterator[Text]:
    """The lines, head first. `limit`: characters of one text of an agent or a server; None shows all."""
    yield from _head(trajectory)
    for step in trajectory.steps:
        yield Text()
        yield from _step(step, trajectory.began_at, limit, indent=0)


def remarks(judged: Sequence[Judgement], labelled: Sequence[Label]) -> Iterator[Text]:
    """What judges gave and people said, a line each."""
    if judged or labelled:
        yield Text()
    for each in judged:
        given = (
            f"reward {each.reward:.2f}" if each.reward is not None else f"no reward ({visible(each.unrewarded or '')})"
        )
        again = f", repeat {each.repeat}" if each.repeat else ""
        yield _fact("judged", f"{given} by {visible(each.judge)}{again}, seen {each.scope}, {_moment(each.created_at)}")
    for label in labelled:
        of = "the whole" if label.criterion is None else visible(label.criterion)
        note = f": {visible(label.note)}" if label.note else ""
        yield _fact("label", f"{visible(label.labeller)} says {label.value:.2f} of {of}{note}")


def _head(trajectory: Trajectory) -> Iterator[Text]:
    ending = trajectory.ending
    yield Text(trajectory.id, style="bold")
    yield _fact("agent", f"{visible(trajectory.agent)} ({visible(trajectory.client or 'unknown program')})")
    if trajectory.parent_step is not None:
        of = trajectory.parent_episode or "an episode that is not in the log"
        yield _fact("by", f"delegated by step {trajectory.parent_step} of {of}")
    yield _fact("began", f"{_moment(trajectory.began_at)}, mode {trajectory.mode}")
    if ending is None:
        yield _fact("ended", "it is running")
    else:
        claimed = f", the agent says {visible(ending.outcome)}" if ending.outcome else ""
        yield _fact("ended", f"{_moment(ending.ended_at)}, {ending.reason}{claimed}")
        eager = "an unknown number" if ending.tokens_eager is None else f"{ending.tokens_eager:,}"
        yield _fact("tokens", f"{ending.tokens_seen:,} seen; all definitions would have been {eager}")
    source = " (from its queries)" if ending is not None and ending.task_source == "queries" else ""
    yield _fact("task", _told(trajectory.task, trajectory.task_missing) + source)
    yield _fact("answer", _told(trajectory.answer, trajectory.answer_missing))
    if trajectory.lost:
        yield Text(f"{trajectory.lost} steps of its gateway were lost in that time; some may be its own", style="red")


def _step(step: TrajectoryStep, began_at: datetime, limit: int | None, indent: int) -> Iterator[Text]:
    pad = "  " * indent
    after = (step.started_at - began_at).total_seconds()
    head = Text(f"{pad}+{max(0.0, after):.1f} s  ")
    head.append(visible(step.name), style="bold")
    head.append(f"  {step.outcome}", style="green" if step.outcome is Outcome.OK else "red")
    head.append(f"  {step.duration_ms:,.0f} ms{_tokens(step)}", style="dim")
    yield head
    if step.call is not None and step.name != step.call.written:
        yield Text(f"{pad}  to {visible(step.call.server)}, {visible(step.call.tool)}", style="dim")
    for episode_id in step.delegated:
        yield Text(f"{pad}  worked as {episode_id}", style="dim")
    logged = step.level is Level.FULL
    if logged:
        yield from _block(f"{pad}  > ", action(step.name, step.arguments, limit=limit))
        if step.decision is not None:
            yield Text(f"{pad}  ranked by {_ranking(step.decision)}", style="dim")
    else:
        yield Text(f"{pad}  [contents not logged]", style="dim")
    for call in step.code_calls:
        yield from _step(call, began_at, limit, indent + 2)
    if logged:
        yield from _block(f"{pad}  < ", observation(step.observation, limit=limit))
        if step.observation is None and step.error is not None:
            yield from _block(f"{pad}  ! ", visible(step.error))
        if step.observation_size is not None and step.observation_size.left_out_bytes:
            yield Text(f"{pad}  {_left_out(step.observation_size)}", style="dim")


def _block(prefix: str, text: str) -> Iterator[Text]:
    for number, line in enumerate(text.split("\n")):
        yield Text((prefix if number == 0 else " " * len(prefix)) + line)


def _ranking(decision: TrajectoryDecision) -> str:
    shown = ", ".join(map(visible, decision.shown or ())) or "nothing shown"
    degraded = "" if decision.degraded is None else f" (instead: {visible(decision.degraded)})"
    return f"{visible(decision.policy)}{degraded}: {shown}"


def _tokens(step: TrajectoryStep) -> str:
    if step.observation_tokens is None:
        return ""
    asked = "" if step.action_tokens is None else f"{step.action_tokens:,} asked, "
    return f"  {asked}{step.observation_tokens:,} tokens answered"


def _left_out(size: Size) -> str:
    return f"the log keeps {size.kept_bytes:,} of {size.whole_bytes:,} bytes"


def _told(value: str | None, missing: Missing | None) -> str:
    return visible(value) if missing is None and value is not None else f"({MISSING[missing or Missing.UNTOLD]})"


def _fact(name: str, value: str) -> Text:
    return Text(f"{name:>7}  ", style="dim").append(value, style="default")


def _moment(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"
