"""What a policy knows of actions it was not tuned on: closed lists against numbers worked out here, and free texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
pytest.importorskip("peft")

from proxy.policy.base import Action  # noqa: E402
from tests.trainer.policy.planted import TOOLS, Maker, fresh  # noqa: E402
from trainer.policy.evaluating import Moment, moments, next_actions, next_tools, written  # noqa: E402
from trainer.policy.settings import TuningSettings  # noqa: E402
from trainer.policy.tuning import PolicyProblem  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")
TOOL = {"type": "object", "properties": {"tool": {"type": "string"}}, "required": ["tool"]}
ACTIONS = (
    Action(name="search_tools", description="Find.", parameters={"properties": {"query": {"type": "string"}}}),
    Action(name="list_servers", description="All.", parameters={}),
    Action(name="call_tool", description="Call.", parameters=TOOL),
)
KNOWN = frozenset(TOOLS)


@pytest.fixture(scope="module")
def at(make: Maker, folder: Path) -> list[Moment]:
    row = make.row(
        make.context("Where is the lamp? There are shop.find_item(name) and weather.forecast, but no other.tool."),
        make.act(TOOLS[0], step="a"),
        make.context("Here."),
        make.act(TOOLS[1], step="b"),
        make.context("No."),
        make.act(TOOLS[2], ok=False, step="c"),
        make.context("Bad."),
        make.act(TOOLS[2], step="d"),
        advantages={"d": -1.0},
    )
    return moments(row, make.reader, fresh(folder).tokenizer, ACTIONS, KNOWN, before=30)


def test_moments_are_before_actions_that_came_out_well(at: list[Moment], make: Maker) -> None:
    first, second = at
    assert (first.name, first.tool, first.tools) == ("call_tool", TOOLS[0], (TOOLS[0], TOOLS[2]))
    # Nothing that it read named the second one's tool.
    assert (second.name, second.tool, second.tools) == ("call_tool", None, ())
    assert len(first.context) == len(second.context) == 30
    assert second.context[-len(make.context("Here.").tokens) :] == make.context("Here.").tokens


def test_a_closed_list_is_decided_by_probabilities_within_it(folder: Path, make: Maker, at: list[Moment]) -> None:
    language = fresh(folder)
    found = next_tools(language, make.reader, at)
    context = at[0].context
    likely: list[Any] = []
    for tool in at[0].tools:
        text = make.reader.tokens(f'call_tool {{"tool": "{tool}",')
        ids = torch.tensor([[*context, *text]])
        with torch.no_grad():
            said = language.model(input_ids=ids).logits[0].log_softmax(-1)
        likely.append(sum(said[len(context) + place - 1, token] for place, token in enumerate(text)))
    within = torch.stack(likely).log_softmax(0)
    assert found.nll == pytest.approx(-within[0].item(), abs=1e-4)
    assert found.accuracy == float(within[0] > within[1])
    assert (found.count, found.listed, found.commonest) == (1, 2.0, 1.0)
    assert found.chance == pytest.approx(torch.log(torch.tensor(2.0)).item(), abs=1e-6)
    assert (next_actions(language, make.reader, at).count, next_actions(language, make.reader, at).listed) == (2, 3.0)


def test_writing_is_counted_by_what_the_agent_loop_reads(folder: Path, make: Maker) -> None:
    """A random model writes no action; one that was tuned on two tasks writes what came out well in them."""
    language = fresh(folder)
    rows = [
        make.row(make.context("Where is the lamp?"), make.act(TOOLS[0], step=f"s{number}"), number=number)
        for number in range(8)
    ]
    (moment,) = moments(rows[0], make.reader, language.tokenizer, ACTIONS, KNOWN, before=500)
    # Of two lengths, so that one of them is padded.
    longer = Moment(
        **{name: getattr(moment, name) for name in ("actions", "name", "tool", "tools")}, context=moment.context * 2
    )
    before, _ = written(language, make.reader, [moment, longer], most=40)
    assert (before.count, before.read, before.valid, before.right) == (2, 0.0, 0.0, 0.0)
    settings = TuningSettings(batch=8, accumulation=1, epochs=60, learning_rate=3e-2, seed=1)
    problem = PolicyProblem(rows, language, settings, validation=rows[:1])
    while not problem.done:
        problem.step()
    after, texts = written(language, make.reader, [moment], most=40)
    assert texts == ['call_tool {"tool": "shop.find_item"}']
    assert (after.read, after.valid, after.right) == (1.0, 1.0, 1.0)
    assert next_actions(language, make.reader, [moment]).accuracy == 1.0
    padded, texts = written(language, make.reader, [moment, longer], most=40)
    assert texts[0] == 'call_tool {"tool": "shop.find_item"}'
    assert padded.count == 2
