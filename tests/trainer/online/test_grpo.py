"""Two updates by TRL of a tiny policy that works tasks through a whole gateway; and what of a rollout moves weights."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.targets.small_world import ERRANDS
from bench.targets.tiny_policy import demonstrate, logged_rows, school, tiny_model
from proxy.errors import ConfigurationError
from tests.trainer.online.conftest import SETTINGS, Live
from trainer.loop.devices import Device
from trainer.online.grpo import Trained, columns, train
from trainer.online.live import Sample
from trainer.online.playing import Rollout
from trainer.online.settings import OnlineSettings

pytestmark = [
    # TRL asks transformers by names that it has changed, and its models are asked in 32 bits.
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning"),
    pytest.mark.timeout(300),
]
CPU = Device("cpu")
TASK = ERRANDS[0].task


class Given:
    """Implements `Play`: the same rollouts every time."""

    def __init__(self, rollouts: Sequence[Rollout]) -> None:
        self._rollouts = list(rollouts)

    def __call__(self, tasks: Sequence[str], sample: Sample) -> list[Rollout]:
        assert len(tasks) == len(self._rollouts)
        return self._rollouts


def rollout(*own: int, read: Sequence[int] = (), reward: float | None = None, left_out: str | None = None) -> Rollout:
    """It wrote `own`, and `read` came after that."""
    return Rollout(
        task=TASK,
        client="c",
        prompt=(5, 6, 7),
        completion=(*own, *read),
        mask=(*(1 for _ in own), *(0 for _ in read)),
        logprobs=None,
        turns=1,
        acted=True,
        reward=reward,
        left_out=left_out,
    )


def trained(live: Live, folder: Path, rollouts: Sequence[Rollout], **changed: Any) -> tuple[dict[str, Any], Trained]:
    """The change of the weights after one update."""
    model = tiny_model(live.tokenizer, 3)
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    settings: OnlineSettings = replace(SETTINGS, updates=1, **changed)
    done = train(model, live.tokenizer, [TASK], Given(rollouts), settings, CPU, folder)
    return {name: value.detach() - before[name] for name, value in model.named_parameters()}, done


def moved(change: dict[str, Any]) -> float:
    return max(float(value.abs().max()) for value in change.values())


def test_two_updates_of_a_policy_that_samples_through_the_gateway(live: Live, tmp_path: Path) -> None:
    live.portal.call(demonstrate, live.world.url, live.database, 12, random.Random(4))
    rows = live.portal.call(logged_rows, live.database, live.judge, live.reader)
    model = tiny_model(live.tokenizer, 0)
    losses = school(model, rows, live.tokenizer.pad_token_id, steps=60, batch=8, seed=0)
    assert losses[-1] < losses[0] / 4
    play, played = live.play(), list[Rollout]()

    def noting(tasks: Sequence[str], sample: Sample) -> list[Rollout]:
        played.extend(rollouts := play(tasks, sample))
        return rollouts

    told: list[int] = []
    before = [value.detach().clone() for value in model.parameters()]
    done = train(
        model, live.tokenizer, [TASK], noting, SETTINGS, CPU, tmp_path, told=lambda number, _: told.append(number)
    )
    assert (done.updates, told, len(played)) == (2, [1, 2], 8)
    several = [each for each in played if each.turns > 1]
    assert several, "none of them came to a second turn"
    for each in several:
        pairs = list(zip(each.completion, each.mask, strict=True))
        read = live.tokenizer.decode([token for token, mask in pairs if not mask])
        written = live.tokenizer.decode([token for token, mask in pairs if mask])
        # All that was read stands between a user's opening and the next answer's; none of it is the policy's.
        assert read.startswith("\n<|im_start|>user\n")
        assert read.endswith("<|im_start|>assistant\n")
        assert "<|im_start|>user" not in written
        assert each.mask[-1] == 1
    rewards = [each.reward for each in played if each.reward is not None]
    assert rewards, "none of them was judged"
    changed = any(not torch.equal(one, two) for one, two in zip(before, model.parameters(), strict=True))
    assert changed == any(
        len({each.reward for each in group if each.reward is not None}) > 1 for group in (played[:4], played[4:])
    )
    assert (tmp_path / "model.safetensors").is_file()


def test_what_was_read_moves_nothing(live: Live, tmp_path: Path) -> None:
    end = live.reader.end
    without = [rollout(10 + place, end, reward=place / 3) for place in range(4)]
    with_read = [rollout(10 + place, end, read=(40, 41 + place), reward=place / 3) for place in range(4)]
    one, _ = trained(live, tmp_path / "1", without)
    other, _ = trained(live, tmp_path / "2", with_read)
    assert moved(one) > 0
    assert moved({name: one[name] - other[name] for name in one}) < 1e-3 * moved(one)


def test_what_is_left_out_moves_nothing_and_is_in_no_mean(live: Live, tmp_path: Path) -> None:
    end = live.reader.end
    worth = [rollout(10, end, reward=0.25), rollout(11, end, reward=0.75), rollout(12, end, reward=0.5)]
    out = rollout(13, 14, 15, left_out="it was not judged")
    change, done = trained(live, tmp_path / "1", [*worth, out])
    assert done.rewards == (0.5,)
    assert done.left_out == {"it was not judged": 1}
    # The one in the middle is no better than its group, whatever it wrote; were the missing one a zero, it would be.
    middle, _ = trained(live, tmp_path / "2", [worth[0], worth[1], rollout(30, end, reward=0.5), out])
    assert moved(change) > 0
    assert moved({name: change[name] - middle[name] for name in change}) < 1e-3 * moved(change)


def test_where_all_are_alike_or_left_out_nothing_moves(live: Live, tmp_path: Path) -> None:
    end = live.reader.end
    alike, _ = trained(live, tmp_path / "1", [rollout(10 + place, end, reward=0.5) for place in range(4)])
    assert moved(alike) == 0
    out, done = trained(live, tmp_path / "2", [rollout(10, end, left_out="cut") for _ in range(4)])
    assert moved(out) == 0
    assert done.left_out == {"cut": 4}


def test_lora_is_saved_for_the_model_that_it_is_of(live: Live, tmp_path: Path) -> None:
    rollouts = [rollout(10 + place, live.reader.end, reward=place / 3) for place in range(4)]
    train(
        tiny_model(live.tokenizer, 3),
        live.tokenizer,
        [TASK],
        Given(rollouts),
        replace(SETTINGS, updates=1, rank=2),
        CPU,
        tmp_path,
    )
    assert (tmp_path / "adapter_model.safetensors").is_file()


def test_columns_mask_all_of_what_is_left_out_and_give_every_row_a_sequence() -> None:
    made = columns(
        [rollout(1, 2, read=(3,), reward=0.5), rollout(1, 2, left_out="cut"), rollout(left_out="too long")],
        9,
        with_logprobs=True,
    )
    assert made["env_mask"] == [[1, 1, 0], [0, 0], [0]]
    assert made["completion_ids"] == [[1, 2, 3], [1, 2], [9]]
    assert made["judged"] == [0.5, None, None]
    assert made["logprobs"] == [[0.0] * 3, [0.0] * 2, [0.0]]


def test_too_few_tasks_and_counts_that_do_not_divide_are_refused(live: Live, tmp_path: Path) -> None:
    model = tiny_model(live.tokenizer, 3)
    with pytest.raises(ConfigurationError, match="an update takes 3 tasks, and there are 1"):
        train(model, live.tokenizer, [TASK], Given([]), replace(SETTINGS, tasks=3), CPU, tmp_path)
    with pytest.raises(ConfigurationError, match="cannot share"):
        train(model, live.tokenizer, [TASK], Given([]), replace(SETTINGS, micro_batch=3), CPU, tmp_path)
