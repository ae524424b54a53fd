"""A straight line fitted through noise: small, real, and with every source of chance that a model has. As a program it
trains one, so that it can be killed: `python -m tests.trainer.loop.noisy_line FOLDER`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from trainer.loop.training import LoopSettings, train

STEPS = 60
SETTINGS = LoopSettings(validate_every=7, checkpoint_every=3, patience=100)


class NoisyLine:
    """Two weights, AdamW, rows in a new order each epoch, and dropout of rows."""

    def __init__(self, seed: int = 0, *, steps: int = STEPS, rate: float = 0.05) -> None:
        draws = torch.Generator().manual_seed(seed)
        self._x = torch.randn(64, generator=draws)
        self._y = 3 * self._x - 1 + 0.1 * torch.randn(64, generator=draws)
        self._weights = torch.nn.Parameter(torch.zeros(2))
        self._optimiser = torch.optim.AdamW([self._weights], lr=rate)
        self._draws = torch.Generator().manual_seed(seed + 1)
        self._order: list[int] = []
        self._steps = steps

    @property
    def steps(self) -> int:
        return self._steps

    def step(self) -> Mapping[str, float]:
        if len(self._order) < 8:
            self._order = torch.randperm(48, generator=self._draws).tolist()
        rows, self._order = self._order[:8], self._order[8:]
        kept = torch.rand(8, generator=self._draws) < 0.9
        loss = (self._errors(torch.tensor(rows)) * kept).mean()
        self._optimiser.zero_grad()
        loss.backward()
        self._optimiser.step()
        return {"loss": loss.item()}

    def validate(self) -> Mapping[str, float]:
        with torch.no_grad():
            return {"loss": self._errors(torch.arange(48, 64)).mean().item()}

    def state_dict(self) -> dict[str, Any]:
        return {
            "weights": self._weights.detach().clone(),
            "optimiser": self._optimiser.state_dict(),
            "draws": self._draws.get_state(),
            "order": self._order,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        with torch.no_grad():
            self._weights.copy_(state["weights"])
        self._optimiser.load_state_dict(state["optimiser"])
        self._draws.set_state(state["draws"])
        self._order = list(state["order"])

    def save(self, folder: Path, facts: Mapping[str, Any]) -> str:
        folder.mkdir()
        torch.save(self._weights.detach(), folder / "weights.pt")
        return "line"

    def _errors(self, rows: torch.Tensor) -> torch.Tensor:
        return (self._weights[0] * self._x[rows] + self._weights[1] - self._y[rows]) ** 2


def main() -> None:
    folder = Path(sys.argv[1])

    def tell(position: Any, loss: float) -> None:
        print(position.step, flush=True)

    train(NoisyLine(), folder, SETTINGS, tell=tell)
    print("ended", flush=True)


if __name__ == "__main__":
    main()
