"""Losses against numbers worked out by hand; what is only read has exactly no gradient."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
pytest.importorskip("peft")

from proxy.errors import ConfigurationError  # noqa: E402
from proxy.router.language_model import LanguageModel  # noqa: E402
from tests.trainer.policy.planted import TOOLS, Maker, fresh  # noqa: E402
from trainer.policy.objectives.advantage_weighted import advantage_weighted  # noqa: E402
from trainer.policy.objectives.base import Objective  # noqa: E402
from trainer.policy.objectives.filtered_imitation import filtered_imitation  # noqa: E402
from trainer.policy.objectives.weighted import weighted  # noqa: E402
from trainer.policy.reading import log_likelihoods  # noqa: E402
from trainer.policy.settings import TuningSettings  # noqa: E402
from trainer.policy.windows import Window, windows  # noqa: E402
from trainer.ranking import lora  # noqa: E402
from trainer.ranking.objectives.advantage_weighted import weights  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")
SETTINGS = TuningSettings(batch=2, seed=1)


@pytest.fixture
def language(folder: Path) -> LanguageModel:
    return fresh(folder)


def with_lora(language: LanguageModel) -> Any:
    """Whose adapter changes something, so that gradients reach all of it."""
    torch.manual_seed(5)
    model = lora.with_lora(language.model, 4, "CAUSAL_LM")
    with torch.no_grad():
        for name, value in lora.trained(model).items():
            if ".lora_B." in name:
                value.normal_(std=0.05)
    return model


def a_window(make: Maker, *, failed: str = TOOLS[1], seen: str = "It is here.", advantage: float = 1.0) -> Window:
    row = make.row(
        make.context("Where is the lamp?"),
        make.act(TOOLS[0], step="t", key=2.0),
        make.context(seen),
        make.act(failed, ok=False, step="u"),
        make.context("That failed."),
        advantage=advantage,
    )
    # With what comes after the last action, too: nothing of it may count.
    (window,) = windows(row, most=1_000, before=10)
    tail = row.segments[2:]
    more = [token for segment in tail for token in segment.tokens]
    return replace(
        window,
        tokens=(*window.tokens, *more),
        weights=(*window.weights, *[0.0] * len(more)),
        advantages=(*window.advantages, *[advantage] * len(more)),
    )


def test_log_likelihoods_are_those_of_the_whole_model(language: LanguageModel, make: Maker) -> None:
    short, long = a_window(make), a_window(make, seen="It is here. " * 4)
    for window, likely in zip([short, long], log_likelihoods(language.model, [short, long]), strict=True):
        whole = language.model(input_ids=torch.tensor([window.tokens])).logits[0].log_softmax(-1)
        told = [whole[place - 1, window.tokens[place]].item() for place in window.learned]
        assert likely.tolist() == pytest.approx(told, abs=1e-5)


def test_the_loss_is_what_its_equation_says() -> None:
    window = Window(tokens=(9, 1, 2, 3), weights=(0.0, 2.0, 1.0, 1.0), advantages=(0.0, 1.0, 9.0, -2.0), weight=0.5)
    likely = torch.tensor([-0.5, -1.0, -4.0], requires_grad=True)

    def weigh(advantage: float) -> tuple[float, float]:
        return weights(advantage, beta=1.0, clip=5.0, margin=0.5, negative=0.1)

    loss = weighted(window, likely, weigh, -3.0)
    # e of 1, 9 clipped to 5, and -2 pushes down by 0.1 * 2; what is below the floor is worth as much as the floor.
    assert loss.item() == pytest.approx(0.5 * (2.0 * math.e * 0.5 + 5.0 * 1.0 + 0.2 * -3.0))
    loss.backward()
    assert likely.grad.tolist() == pytest.approx([-math.e, -2.5, 0.0])
    above = torch.tensor([-0.5, -1.0, -2.0], requires_grad=True)
    weighted(window, above, weigh, -3.0).backward()
    assert above.grad.tolist() == pytest.approx([-math.e, -2.5, 0.1])


@pytest.mark.parametrize("made", [advantage_weighted, filtered_imitation])
@pytest.mark.parametrize("parts", [1, 2, 4])
def test_accumulation_changes_nothing(language: LanguageModel, make: Maker, made: Any, parts: int) -> None:
    model = with_lora(language)
    objective: Objective = made(model, SETTINGS)
    of = [a_window(make, seen=f"{'Here. ' * number}", advantage=1.0 - number / 8) for number in range(1, 5)]
    objective.loss(of, of).backward()
    whole = {name: value.grad.clone() for name, value in lora.trained(model).items()}
    model.zero_grad()
    size = len(of) // parts
    for start in range(0, len(of), size):
        objective.loss(of[start : start + size], of).backward()
    for name, value in lora.trained(model).items():
        assert torch.allclose(value.grad, whole[name], atol=1e-6), name


def gradients(model: Any, objective: Objective, of: list[Window]) -> dict[str, Any]:
    model.zero_grad()
    objective.loss(of, of).backward()
    return {name: value.grad.clone() for name, value in lora.trained(model).items()}


def objectives(language: LanguageModel, algorithm: str) -> tuple[Any, Objective]:
    model = with_lora(language)
    settings = replace(SETTINGS, algorithm=algorithm)
    if algorithm == "advantage-weighted":
        return model, advantage_weighted(model, settings)
    if algorithm == "filtered-imitation":
        return model, filtered_imitation(model, settings)
    pytest.importorskip("trl")
    from trainer.policy.objectives.kto import Kto
    from trainer.policy.objectives.sft import Sft

    return model, (Sft if algorithm == "sft" else Kto)(model, language.tokenizer, settings)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("algorithm", ["advantage-weighted", "filtered-imitation", "sft", "kto"])
def test_what_came_after_the_last_learned_token_has_no_gradient(
    language: LanguageModel, make: Maker, algorithm: str
) -> None:
    """A failed call and the observations behind an action are predicted by nobody: whatever they are, the gradient is
    the same to the last bit. Of the same length, since sums of other lengths round otherwise."""
    model, objective = objectives(language, algorithm)
    other = a_window(make, seen="It is gone", advantage=-1.0)
    one = gradients(model, objective, [a_window(make), other])
    changed = a_window(make, failed=TOOLS[2])
    length = len(a_window(make).tokens)
    cut = replace(changed, tokens=(*changed.tokens, *[7] * length)[:length])
    assert cut.tokens != a_window(make).tokens
    two = gradients(model, objective, [cut, other])
    assert any(value.any() for value in one.values())
    assert all(torch.equal(value, two[name]) for name, value in one.items())
    # And what is learned has one.
    learned = replace(cut, tokens=(*cut.tokens[: cut.learned[-1]], 5, *cut.tokens[cut.learned[-1] + 1 :]))
    three = gradients(model, objective, [learned, other])
    assert any(not torch.equal(value, three[name]) for name, value in one.items())


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")
def test_sft_is_the_mean_of_good_tokens_however_it_is_parted(language: LanguageModel, make: Maker) -> None:
    _, objective = objectives(language, "sft")
    of = [a_window(make), a_window(make, seen="Here."), a_window(make, advantage=-1.0)]
    assert [objective.teaches(each) for each in of] == [True, True, False]
    likely = torch.cat(log_likelihoods(language.model, of[:2]))
    assert objective.loss(of[:2], of[:2]).item() == pytest.approx(-likely.mean().item(), abs=1e-5)
    parted = sum(objective.loss([each], of[:2]).item() for each in of[:2])
    assert parted == pytest.approx(-likely.mean().item(), abs=1e-5)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")
def test_kto_is_its_equation_against_the_untuned_model(language: LanguageModel, make: Maker) -> None:
    model, objective = objectives(language, "kto")
    of = [a_window(make), a_window(make, seen="Here.", advantage=-1.0)]
    loss = objective.loss(of, of).item()
    tuned = [value.sum().item() for value in log_likelihoods(model, of)]
    with model.disable_adapter():
        plain = [value.sum().item() for value in log_likelihoods(model, of)]
    ratios = [one - other for one, other in zip(tuned, plain, strict=True)]
    # Both windows have the same first action after the same question, so that the mismatched pairs are the same again.
    z = max(0.0, sum(ratios) / 2)

    def sigmoid(value: float) -> float:
        return 1 / (1 + math.exp(-value))

    expected = (1 - sigmoid(0.1 * (ratios[0] - z)) + 1 - sigmoid(0.1 * (z - ratios[1]))) / 2
    assert loss == pytest.approx(expected, abs=1e-5)
    assert set(model.peft_config) == {"default"}


def test_kto_of_single_windows_is_refused(language: LanguageModel) -> None:
    from trainer.policy.objectives.kto import Kto

    with pytest.raises(ConfigurationError, match="batch is at least 2"):
        Kto(with_lora(language), language.tokenizer, replace(SETTINGS, batch=1))
