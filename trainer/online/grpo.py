"""GRPO by TRL: groups of rollouts of one task, each better or worse than its group.

Above: running.py. Below: TRL, whose hooks for rollouts are experimental and touched nowhere else (trl>=1.16,<1.17).

    A_i = (r_i - mean_g r) / (std_g r + 1e-4)
    L = - sum_i sum_t m_it min(rho_it A_i, clip(rho_it, 1 - e, 1 + e) A_i) / sum_i sum_t m_it

with r the judge's reward, g the group of the rollout, rho the ratio of the token's probability to that by which it was
sampled, and m 1 for tokens that the policy wrote in a rollout that is learned from, 0 for what it read and for all of a
rollout that is left out (GRPO: Shao et al. 2024, arXiv 2402.03300; normalised over tokens as in DAPO: Yu et al. 2025,
arXiv 2503.14476). Mean and std are over the rewards that there are: a missing one is no zero. A group without a
difference teaches nothing.
"""

from __future__ import annotations

import importlib
import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proxy.errors import ConfigurationError
from trainer.data.tokens import Reader
from trainer.loop.devices import Device
from trainer.online.live import Play
from trainer.online.playing import Rollout
from trainer.online.rounds import Sampled
from trainer.online.settings import OnlineSettings

Told = Callable[[int, Mapping[str, float]], None]
"""The number of an update, from 1, and its figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """What came of a run."""

    updates: int
    rewards: tuple[float, ...]
    """The mean of each update's rewards; NaN where there was none. Of this process."""
    left_out: Mapping[str, int]
    """Rollouts that nothing was learned from, by why. Of this process."""
    first: bool
    """Whether this process is the one that speaks for all."""


def train(
    model: Any,
    tokenizer: Any,
    tasks: Sequence[str],
    play: Play,
    settings: OnlineSettings,
    device: Device,
    folder: Path,
    *,
    resume: bool = False,
    told: Told = lambda _number, _figures: None,
) -> Trained:
    """Train `model`, which stays changed, and save it to `folder`: LoRA, or the whole of it.

    Args:
        model: Causal, of transformers, or the name of one; with a name every process of several loads its own part.
        tokenizer: Its own, with a chat template.
        tasks: In users' words.
        folder: For checkpoints (`checkpoints/`) and the end.
        resume: Go on from the last checkpoint in `folder`.

    Raises:
        ConfigurationError: A package is missing; there are fewer tasks than an update takes; numbers do not divide; or
            the model does not end its answers as its template does.
    """
    datasets, peft, trl = map(_library, ("datasets", "peft", "trl"))
    if len(tasks) < settings.tasks:
        raise ConfigurationError(f"an update takes {settings.tasks} tasks, and there are {len(tasks)}")
    run = _Run(play, settings, Reader(tokenizer))
    with warnings.catch_warnings():
        # That it is experimental is why only this module knows it; and it uses names that transformers has changed.
        warnings.filterwarnings("ignore", message="You are using 'rollout_func'", category=UserWarning)
        warnings.filterwarnings("ignore", message=".*gradient_checkpointing", category=FutureWarning)
        trainer = trl.GRPOTrainer(
            model=model,
            reward_funcs=_judged,
            args=trl.GRPOConfig(**_arguments(settings, device, folder, named=isinstance(model, str))),
            train_dataset=datasets.Dataset.from_list([{"prompt": task} for task in tasks]),
            processing_class=tokenizer,
            rollout_func=run.rollouts,
            callbacks=[_callback(run, told)],
            peft_config=None if settings.rank == 0 else _lora(peft, settings.rank),
        )
    trainer.remove_callback(_library("transformers").PrinterCallback)
    if run.end not in trainer.eos_token_ids:
        raise ConfigurationError(
            "the model's chat template ends answers with a token at which the model does not stop: set eos_token_id in "
            "its generation_config.json to that token"
        )
    # It would print whole rollouts, which are as private as the log, wherever one has no reward.
    quiet = _WithoutContents()
    logger = logging.getLogger("trl.trainer.grpo_trainer")
    logger.addFilter(quiet)
    try:
        trainer.train(resume_from_checkpoint=resume)
    finally:
        logger.removeFilter(quiet)
    trainer.save_model(str(folder))
    return Trained(
        updates=trainer.state.global_step,
        rewards=tuple(run.rewards),
        left_out=dict(run.left_out),
        first=trainer.is_world_process_zero(),
    )


class _Run:
    """What TRL's hooks share of one run."""

    def __init__(self, play: Play, settings: OnlineSettings, reader: Reader) -> None:
        self._play = play
        self._settings = settings
        self.end = reader.end
        self.rewards: list[float] = []
        self.left_out: dict[str, int] = {}
        self.figures: dict[str, float] = {}

    def rollouts(self, prompts: Sequence[str], trainer: Any) -> dict[str, Any]:
        """TRL's `rollout_func`: `prompts` of this process, each as often as its group is large."""
        sampler = _Sampler(trainer, self.end)
        rollouts = self._play(prompts, sampler)
        sampler.leave()
        self._note(rollouts)
        return columns(rollouts, self.end, with_logprobs=self._settings.vllm is not None)

    def _note(self, rollouts: Sequence[Rollout]) -> None:
        rewards = [each.reward for each in rollouts if each.reward is not None]
        self.rewards.append(sum(rewards) / len(rewards) if rewards else float("nan"))
        for each in rollouts:
            if each.left_out is not None:
                self.left_out[each.left_out] = self.left_out.get(each.left_out, 0) + 1
        self.figures = {
            "mean reward": self.rewards[-1],
            "left out": float(len(rollouts) - len(rewards)),
            "turns": sum(each.turns for each in rollouts) / len(rollouts),
        }


def columns(rollouts: Sequence[Rollout], end: int, *, with_logprobs: bool) -> dict[str, Any]:
    """What TRL takes of rollouts: token ids as sampled and read, the mask of the policy's own, and rewards."""
    ids: dict[str, Any] = {"prompt_ids": [], "completion_ids": [], "env_mask": [], "judged": []}
    logprobs: list[list[float]] = []
    for each in rollouts:
        # One that could not even begin has to be a sequence; it is masked as all that is left out.
        completion, mask = list(each.completion) or [end], list(each.mask) or [0]
        ids["prompt_ids"].append(list(each.prompt) or [end])
        ids["completion_ids"].append(completion)
        ids["env_mask"].append(mask if each.left_out is None else [0] * len(mask))
        ids["judged"].append(each.reward)
        told = list(each.logprobs or ())
        logprobs.append([*told, *([0.0] * (len(completion) - len(told)))])
    return {**ids, "logprobs": logprobs if with_logprobs else None}


class _Sampler:
    """Implements `Sample` by TRL: the model in this process, or vLLM with its weights of now.

    Of several processes all make the same number of rounds, with as many sequences in each: TRL counts on that where
    they share a model or a server. Whoever has fewer adds sequences that nobody reads.
    """

    def __init__(self, trainer: Any, end: int) -> None:
        self._trainer = trainer
        self._end = end

    def __call__(self, sequences: Sequence[Sequence[int]]) -> list[Sampled]:
        most = self._most(len(sequences))
        asked = [*map(list, sequences), *([[self._end]] * (most - len(sequences)))]
        completions, logprobs = self._trainer._generate_single_turn(asked, None, {}, 1)
        given: list[Sampled] = []
        for place in range(len(sequences)):
            told = None if logprobs is None else tuple(0.0 if each is None else each for each in logprobs[place])
            given.append(Sampled(tuple(completions[place]), told))
        return given

    def leave(self) -> None:
        """Takes part in the rounds of the others until none of them goes on."""
        while self._trainer.accelerator.num_processes > 1 and (most := self._most(0)):
            self._trainer._generate_single_turn([[self._end]] * most, None, {}, 1)

    def _most(self, own: int) -> int:
        if self._trainer.accelerator.num_processes == 1:
            return own
        return max(_library("accelerate.utils").gather_object([own]))


def _judged(prompts: Sequence[str], completions: Sequence[str], judged: Sequence[float | None], **_: Any) -> Any:
    """TRL's reward function: they are known with the rollouts."""
    return judged


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{error.name} is not installed, and training online needs it: pip install 'toolatlas[trainer]'"
        ) from error


def _callback(run: _Run, told: Told) -> Any:
    class Telling(_library("transformers").TrainerCallback):
        def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **_: Any) -> None:
            if logs is not None and "grad_norm" in logs:
                own = {"loss": float(logs["loss"]), "gradient": float(logs["grad_norm"])}
                told(int(state.global_step), {**run.figures, **own})

    return Telling()


def _lora(library: Any, rank: int) -> Any:
    return library.LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM")


def _arguments(settings: OnlineSettings, device: Device, folder: Path, *, named: bool) -> dict[str, Any]:
    state = _library("accelerate").PartialState(cpu=device.name == "cpu")
    at_once = settings.micro_batch * state.num_processes
    if settings.rollouts % at_once:
        raise ConfigurationError(
            f"an update has {settings.tasks} times {settings.group} rollouts, which {state.num_processes} processes "
            f"cannot share in passes of {settings.micro_batch}; change --tasks-at-once, --group or --micro-batch"
        )
    vllm: dict[str, Any] = {}
    if settings.vllm is not None:
        vllm = {
            "use_vllm": True,
            "vllm_mode": settings.vllm,
            "vllm_server_base_url": settings.vllm_url,
            "vllm_gpu_memory_utilization": settings.vllm_memory,
            "vllm_max_model_length": settings.model_tokens,
        }
    return {
        "output_dir": str(folder / "checkpoints"),
        "max_steps": settings.updates,
        "per_device_train_batch_size": settings.micro_batch,
        "gradient_accumulation_steps": settings.rollouts // at_once,
        "num_generations": settings.group,
        "max_completion_length": settings.limits.output_tokens,
        "temperature": settings.temperature,
        "learning_rate": settings.learning_rate,
        "lr_scheduler_type": "constant",
        "beta": settings.kl,
        "loss_type": "dapo",
        "scale_rewards": "group",
        "seed": settings.seed,
        "use_cpu": device.name == "cpu",
        "bf16": device.half,
        "gradient_checkpointing": device.half,
        # Of a model that is named, and loaded by TRL.
        "model_init_kwargs": {"dtype": "bfloat16" if device.half else "float32"} if named else None,
        "save_steps": settings.save_every,
        "save_total_limit": 2,
        "logging_steps": 1,
        "logging_strategy": "steps",
        "report_to": "none",
        "disable_tqdm": True,
        **vllm,
    }


class _WithoutContents(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return "All reward functions returned None" not in record.getMessage()
