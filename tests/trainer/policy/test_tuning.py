"""A small model is tuned on planted rows: it learns what came out well, goes on where it was, and an agent loads it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
pytest.importorskip("peft")

from proxy.errors import ConfigurationError  # noqa: E402
from proxy.policy.base import Action, Conversation  # noqa: E402
from proxy.policy.limits import WorkLimits  # noqa: E402
from proxy.policy.making import adapter_named, opened  # noqa: E402
from proxy.router.adapters import Kind, load_adapter  # noqa: E402
from proxy.router.local_model import LocalChat  # noqa: E402
from proxy.settings import ModelSettings  # noqa: E402
from tests.fixtures.small_language_model import save_small_model  # noqa: E402
from tests.proxy.router.encoders import WordEncoder  # noqa: E402
from tests.trainer.policy.planted import TOOLS, Maker, fresh, save_model  # noqa: E402
from trainer.loop.trainable import Trainable  # noqa: E402
from trainer.loop.training import LoopSettings, train  # noqa: E402
from trainer.policy.settings import TuningSettings  # noqa: E402
from trainer.policy.tuning import PolicyProblem  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning"),
    # What TRL says of itself and of models that it did not load.
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning"),
]
SETTINGS = TuningSettings(batch=4, accumulation=2, epochs=6, learning_rate=2e-2, rank=4, seed=2)
ALGORITHMS = ("advantage-weighted", "filtered-imitation", "sft", "kto")


def problem(folder: Path, make: Maker, settings: TuningSettings = SETTINGS) -> PolicyProblem:
    return PolicyProblem(make.log(32, 1), fresh(folder), settings, validation=make.log(12, 2))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_two_updates_and_going_on_from_the_first_gives_the_same(folder: Path, make: Maker, algorithm: Any) -> None:
    if algorithm in ("sft", "kto"):
        pytest.importorskip("trl")
    settings = replace(SETTINGS, algorithm=algorithm)
    first: Trainable = problem(folder, make, settings)
    first.step()
    state = first.state_dict()
    kept = {name: value.clone() for name, value in state["parameters"].items()}
    follows = [first.step()["loss"] for _ in range(2)]
    validated = first.validate()["loss"]
    assert all(torch.equal(value, state["parameters"][name]) for name, value in kept.items())
    second: Trainable = problem(folder, make, settings)
    second.load_state_dict(state)
    assert [second.step()["loss"] for _ in range(2)] == pytest.approx(follows, abs=1e-5)
    assert second.validate()["loss"] == pytest.approx(validated, abs=1e-5)


@pytest.mark.parametrize("algorithm", ["advantage-weighted", "filtered-imitation"])
def test_what_came_out_well_becomes_likelier_on_other_rows(
    folder: Path, make: Maker, tmp_path: Path, algorithm: Any
) -> None:
    made = problem(folder, make, replace(SETTINGS, algorithm=algorithm))
    before = made.validate()
    ended = train(made, tmp_path, LoopSettings(validate_every=4))
    assert ended.best_loss < before["loss"] - 0.5
    assert made.done
    assert made.validate()["loss"] == pytest.approx(ended.best_loss)


async def said_by(folder: Path, adapter: Path | None) -> tuple[str, str]:
    own = None if adapter is None else load_adapter(adapter)
    settings = ModelSettings(model=str(folder))
    async with opened(settings, WorkLimits(output_tokens=16), own) as model:
        actions = (Action(name="call_tool", description="Call.", parameters={}),)
        answer = await model.answer(Conversation(system="Work.", task="Where is the lamp?"), actions)
        return model.identity, answer.said


@pytest.mark.anyio
async def test_it_is_saved_and_an_agent_loads_it(folder: Path, make: Maker, tmp_path: Path) -> None:
    made = problem(folder, make)
    for _ in range(6):
        made.step()
    hashed = made.save(tmp_path / "adapters" / "made", {"run": "planted"})
    adapter = adapter_named(str(tmp_path / "adapters" / "made"), tmp_path)
    assert (adapter.hash, adapter.kind, adapter.base_hash) == (hashed, Kind.POLICY, fresh(folder).hash)
    assert adapter.servers == {"shop"}
    assert adapter.facts["settings"]["algorithm"] == "advantage-weighted"
    assert adapter.facts["run"] == "planted"
    (tmp_path / "adapters" / "made").rename(tmp_path / "adapters" / hashed)
    assert adapter_named(hashed[:8], tmp_path / "adapters").hash == hashed
    identity, tuned = await said_by(folder, tmp_path / "adapters" / hashed)
    assert identity == f"{folder} in this process with the adapter {hashed[:12]}"
    _, plain = await said_by(folder, None)
    assert tuned != plain
    # What the agent computes is what was trained.
    chat = LocalChat(str(folder), load_adapter(tmp_path / "adapters" / hashed))
    ids = torch.tensor([make.context("Will it rain?").tokens])
    with torch.no_grad():
        assert torch.allclose(chat._model(ids).logits, made._model(ids).logits, atol=1e-4)


def test_an_adapter_of_another_model_or_kind_is_refused(folder: Path, make: Maker, tmp_path: Path) -> None:
    made = problem(folder, make)
    made.save(tmp_path / "policy", {})
    adapter = load_adapter(tmp_path / "policy")
    other = save_model(tmp_path / "other")
    (other / "more.txt").write_text("another one", "utf-8")
    with pytest.raises(ConfigurationError, match="tuned on another model"):
        LocalChat(str(other), adapter)
    with pytest.raises(ConfigurationError, match="other texts"):
        LocalChat(str(folder), replace(adapter, rendering="policy-0/1"))
    with pytest.raises(ConfigurationError, match="an agent takes a policy"):
        LocalChat(str(folder), replace(adapter, kind=Kind.SCORER))
    with pytest.raises(ConfigurationError, match="toolatlas agent --adapter"):
        adapter.check(WordEncoder())
    with pytest.raises(ConfigurationError, match="a language model takes a scorer"):
        fresh(folder).attach(adapter)
    with pytest.raises(ConfigurationError, match="no adapter in"):
        adapter_named("abc", tmp_path)


@pytest.mark.anyio
async def test_an_endpoint_is_no_place_for_an_adapter(folder: Path, make: Maker, tmp_path: Path) -> None:
    problem(folder, make).save(tmp_path / "policy", {})
    with pytest.raises(ConfigurationError, match="an endpoint has to load it itself"):
        async with opened(
            ModelSettings(model="m", url="http://127.0.0.1:9/v1"), WorkLimits(), load_adapter(tmp_path / "policy")
        ):
            pass


def test_rows_that_teach_nothing_or_are_of_something_else_are_refused(folder: Path, make: Maker) -> None:
    rows, validation = make.log(8, 1), make.log(8, 2)
    failed = [make.row(make.context("Where?"), make.act(TOOLS[0], ok=False))]
    with pytest.raises(ConfigurationError, match="too few teach anything"):
        PolicyProblem(failed, fresh(folder), SETTINGS, validation=validation)
    with pytest.raises(ConfigurationError, match="nothing says when to stop"):
        PolicyProblem(rows, fresh(folder), SETTINGS, validation=failed)
    with pytest.raises(ConfigurationError, match="another model's tokenizer"):
        PolicyProblem([replace(rows[0], tokenizer="t")], fresh(folder), SETTINGS, validation=validation)
    with pytest.raises(ConfigurationError, match="another version"):
        PolicyProblem([replace(rows[0], rendering=0)], fresh(folder), SETTINGS, validation=validation)


def test_a_model_without_a_chat_template_is_refused(make: Maker, tmp_path: Path) -> None:
    other = save_small_model(tmp_path / "bare")
    with pytest.raises(ConfigurationError, match="no chat template"):
        PolicyProblem(make.log(8, 1), fresh(Path(other)), SETTINGS, validation=make.log(8, 2))


@pytest.mark.parametrize(
    "wrong", [{"beta": 0.0}, {"negative": -1.0}, {"batch": 0}, {"floor": 0.0}, {"tokens": 9, "before": 9}]
)
def test_settings_that_cannot_be_meant_are_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong)) if len(wrong) == 1 else "less than tokens"):
        TuningSettings(**wrong)
