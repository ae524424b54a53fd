"""What can be chosen about training online; written beside what comes out.

Above: running.py and the commands, which make it of options. Below: nothing but values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from proxy.errors import ConfigurationError
from proxy.policy.base import Variant
from proxy.policy.limits import WorkLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineSettings:
    """Of one run.

    Raises:
        ConfigurationError: A value cannot be meant.
    """

    updates: int = 100
    tasks: int = 4
    """Different tasks of an update."""
    group: int = 8
    """Rollouts of each; a reward counts by how it differs from those of its group."""
    micro_batch: int = 4
    """Sequences of one pass on each device; the passes of an update are added up."""
    learning_rate: float = 1e-5
    temperature: float = 1.0
    rank: int = 16
    """Of LoRA on all linear layers; 0 trains all weights."""
    kl: float = 0.0
    """What the divergence from the untrained model costs (beta); 0 needs no second model."""
    seed: int = 0
    variant: Variant = Variant.TOOLS
    limits: WorkLimits = field(default_factory=lambda: WorkLimits(turns=12, output_tokens=512))
    """Of the work on one task. Nothing is folded: what no longer fits is cut off, and left out."""
    model_tokens: int = 8_192
    """The longest sequence, in the model's own tokens: all that it reads and writes in a task."""
    vllm: Literal["colocate", "server"] | None = None
    """Who samples: vLLM on the same GPU, or one that `trl vllm-serve` runs; without it the model itself, slowly."""
    vllm_url: str | None = None
    """Of that server."""
    vllm_memory: float = 0.3
    """Share of the GPU that vLLM takes beside the training."""
    save_every: int = 20
    """Updates between checkpoints."""

    def __post_init__(self) -> None:
        counts = (self.updates, self.tasks, self.micro_batch, self.model_tokens, self.save_every)
        if min(counts) < 1:
            raise ConfigurationError("updates, tasks, micro_batch, model_tokens and save_every are at least 1")
        if self.group < 2:
            raise ConfigurationError("a group has at least 2 rollouts: one alone cannot be better than its group")
        if self.learning_rate <= 0 or self.temperature <= 0 or self.rank < 0 or self.kl < 0:
            raise ConfigurationError("learning_rate and temperature are above 0, rank and kl at least 0")
        if self.variant not in (Variant.TOOLS, Variant.CODE):
            raise ConfigurationError(f"a policy is trained for the variants tools and code, not for {self.variant}")
        if not 0 < self.vllm_memory < 1:
            raise ConfigurationError("vllm_memory is a share of the GPU, between 0 and 1")
        if (self.vllm_url is not None) and self.vllm != "server":
            raise ConfigurationError("the address of a vLLM server goes with --vllm server")

    @property
    def rollouts(self) -> int:
        """Of one update, over all devices."""
        return self.tasks * self.group
