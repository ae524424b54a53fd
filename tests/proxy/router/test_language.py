"""What the language model router promises, on models of two layers with random weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="a light installation ranks by words")
pytest.importorskip("transformers")
pytest.importorskip("peft")

import torch

from proxy.catalog.records import ServerRecord, ToolRecord
from proxy.errors import ConfigurationError
from proxy.router import language
from proxy.router.adapters import Adapter, Kind, load_adapter, save_adapter
from proxy.router.base import History, Query, Ranked
from proxy.router.documents import PROMPT
from proxy.router.language import NAME_TOKENS, PREFIX_TOKENS, LanguageRouter, empty_question, prompt
from proxy.router.language_model import LanguageModel, load_language_model
from tests.fixtures.small_language_model import KINDS, lora, save_small_model

pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")
"""peft asks transformers for it."""

NAMES = ["files.read", "files.read_all", "web.fetch", "web.search_pages_of_a_site", "mail.send", "mail.list"]
QUERY = Query("read the page of the company", task="Summarise what the company says of itself")
CLOSE = 1e-4


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """As in the router's process. Tests share their cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Fixed:
    """Finds the same for every query."""

    policy = "fixed"

    def __init__(self, names: Sequence[str] = NAMES) -> None:
        self._names = names
        self.asked: list[tuple[Query, int]] = []

    def rank(self, query: Query, limit: int) -> list[Ranked]:
        self.asked.append((query, limit))
        return [Ranked(name, float(-place)) for place, name in enumerate(self._names[:limit])]


def servers(names: Sequence[str] = NAMES) -> list[ServerRecord]:
    found: dict[str, list[ToolRecord]] = {}
    for written in names:
        server, _, name = written.partition(".")
        found.setdefault(server, []).append(ToolRecord(server=server, name=name, written=written, raw={"name": name}))
    return [
        ServerRecord(name=server, written=server, purpose="", tools=tuple(tools), listing=None)
        for server, tools in found.items()
    ]


@pytest.fixture(scope="module", params=KINDS)
def any_model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    return load_language_model(save_small_model(tmp_path_factory.mktemp("model"), request.param))


@pytest.fixture
def model(tmp_path: Path) -> LanguageModel:
    return load_language_model(save_small_model(tmp_path / "small"))


def naive(model: Any, read: Sequence[int], text: Sequence[int]) -> float:
    """Of each text by a pass of its own."""
    with torch.inference_mode():
        said = model(input_ids=torch.tensor([[*read, *text]])).logits[0].double().log_softmax(-1)
    return sum(float(said[len(read) - 1 + place, token]) for place, token in enumerate(text))


def naive_score(model: LanguageModel, query: Query, name: str, inner: Any = None) -> float:
    text = model.tokens(f" {name}\n", start=False)
    asked, empty = (model.tokens(prompt(each), start=True) for each in (query, empty_question(query)))
    inner = model.model if inner is None else inner
    return naive(inner, asked, text) - naive(inner, empty, text)


def scores(ranked: Sequence[Ranked]) -> dict[str, float]:
    return {each.tool: each.score for each in ranked}


def scorer(model: LanguageModel, folder: Path, seed: int, *, seen: Sequence[str]) -> Adapter:
    """A LoRA for `model`, written as the trainer writes it."""
    return save_adapter(folder, base_hash=model.hash, servers=seen, lora=lora(model.model, seed), kind=Kind.SCORER)


def test_the_shared_prefix_changes_no_likelihood(any_model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    read = any_model.tokens(prompt(QUERY), start=True)
    # Of one token, of many, and of the same.
    texts = [any_model.tokens(text, start=False) for text in (" ", *(f" {name}\n" for name in NAMES), " files.read\n")]
    wanted = [naive(any_model.model, read, text) for text in texts]
    assert any_model.log_likelihoods(read, texts) == pytest.approx(wanted, rel=1e-6, abs=CLOSE)
    monkeypatch.setattr("proxy.router.language_model.BATCH_TOKENS", 2 * len(read) + 60)
    assert any_model.log_likelihoods(read, texts) == pytest.approx(wanted, rel=1e-6, abs=CLOSE)


def test_tools_are_ranked_by_what_the_question_adds_to_the_likelihood_of_their_names(any_model: LanguageModel) -> None:
    router = LanguageRouter(Fixed(), servers(), any_model)
    wanted = {name: naive_score(any_model, QUERY, name) for name in NAMES}
    for _ in range(2):  # the second time with what was kept of the first
        ranked = router.rank(QUERY, 10)
        assert scores(ranked) == pytest.approx(wanted, abs=CLOSE)
        assert [each.tool for each in ranked] == sorted(NAMES, key=lambda name: -wanted[name])
    assert [each.tool for each in ranked] != NAMES


def test_what_the_task_did_before_stands_in_both_questions(model: LanguageModel) -> None:
    before = History(searched=("company",), revealed=("web.fetch",), called=("files.read",))
    query = replace(QUERY, history=before, servers=frozenset({"web", "files"}))
    router = LanguageRouter(Fixed(), servers(), model)
    plain = router.rank(QUERY, 10)
    ranked = router.rank(query, 10)
    assert scores(ranked) == pytest.approx({name: naive_score(model, query, name) for name in NAMES}, abs=CLOSE)
    assert scores(ranked) != pytest.approx(scores(plain), abs=CLOSE)
    assert "searched: company\nfound: web.fetch\ncalled: files.read\n" in prompt(query)
    assert prompt(empty_question(query)).endswith("called: files.read\nquery: unknown\nservers: files, web\n1.")
    # And nothing of it stays for the next.
    assert scores(router.rank(QUERY, 10)) == scores(plain)


def test_what_the_model_did_not_read_stands_below_in_its_own_order(model: LanguageModel) -> None:
    base = Fixed()
    ranked = LanguageRouter(base, servers(), model, candidates=3).rank(QUERY, 5)
    assert {each.tool for each in ranked[:3]} == set(NAMES[:3])
    assert [each.tool for each in ranked[3:]] == NAMES[3:5]
    assert [each.score for each in ranked] == sorted({each.score for each in ranked}, reverse=True)
    assert base.asked == [(QUERY, 5)]


def test_it_reads_more_candidates_than_are_wanted_and_answers_no_more(model: LanguageModel) -> None:
    base = Fixed()
    router = LanguageRouter(base, servers(), model)
    assert [each.tool for each in router.rank(QUERY, 2)] == [each.tool for each in router.rank(QUERY, 9)[:2]]
    assert base.asked[0] == (QUERY, language.CANDIDATES)
    assert router.rank(QUERY, 0) == []


@pytest.mark.parametrize("names", [[], NAMES[:1]], ids=["none", "one"])
def test_where_there_is_nothing_to_order_the_model_is_not_asked(model: LanguageModel, names: list[str]) -> None:
    ranked = LanguageRouter(Fixed(names), servers(names), model).rank(QUERY, 5)
    assert [(each.tool, each.score) for each in ranked] == [(name, 0.0) for name in names]


@pytest.mark.parametrize("text", ["word " * 50_000, "字" * 50_000, "\u202e\u0000<|im_start|>" * 20_000])
def test_a_long_question_is_cut_in_the_middle_and_says_so(model: LanguageModel, text: str) -> None:
    read: list[int] = []

    class Reading(LanguageModel):
        def log_likelihoods(
            self, prefix: Sequence[int], texts: Sequence[Sequence[int]], adapter: str | None = None
        ) -> list[float]:
            read.append(len(prefix))
            assert all(len(each) <= NAME_TOKENS for each in texts)
            return super().log_likelihoods(prefix, texts, adapter)

    watched = Reading(model.model, model.tokenizer, name="watched", hashed=model.hash)
    history = History(searched=(text,) * 50, revealed=("a.b",) * 500, called=(text,) * 50)
    query = Query(text, task=text, history=history, servers=frozenset(f"s{place}" for place in range(900)))
    names = [*NAMES, f"long.{'x' * 5_000}"]
    assert len(LanguageRouter(Fixed(names), servers(names), watched).rank(query, 10)) == len(names)
    assert read
    assert max(read) <= PREFIX_TOKENS
    assert "characters left out]" in prompt(query)
    assert "and 880 others" in prompt(query)
    assert "<|im_start|>" not in prompt(query)


def test_a_name_that_begins_another_does_not_win_for_being_shorter(model: LanguageModel) -> None:
    router = LanguageRouter(Fixed(), servers(), model)
    ends = model.tokens("\n", start=False)
    assert all(router._name(name)[-len(ends) :] == ends for name in NAMES)


def test_an_adapter_counts_for_the_servers_that_it_has_seen_and_for_no_other(
    model: LanguageModel, tmp_path: Path
) -> None:
    adapter = scorer(model, tmp_path / "adapter", 1, seen=["web", "gone"])
    plain = scores(LanguageRouter(Fixed(), servers(), model).rank(QUERY, 10))
    router = LanguageRouter(Fixed(), servers(), model, adapter=adapter)
    adapted = scores(router.rank(QUERY, 10))
    trained = lora(model_alone(tmp_path), 1)
    for name in NAMES:
        wanted = naive_score(model, QUERY, name, trained) if name.startswith("web.") else plain[name]
        assert adapted[name] == pytest.approx(wanted, abs=CLOSE)
        assert (adapted[name] == pytest.approx(plain[name], abs=CLOSE)) == (not name.startswith("web."))
    assert router.adapter == adapter.hash
    assert (adapter.kind, adapter.rendering) == (Kind.SCORER, PROMPT)
    assert load_adapter(adapter.folder) == adapter
    assert router.policy == "slm:small"


def model_alone(tmp_path: Path) -> Any:
    return load_language_model(str(tmp_path / "small")).model


def test_two_adapters_answer_side_by_side_and_leave_the_model_as_it_was(model: LanguageModel, tmp_path: Path) -> None:
    everywhere = ["files", "web", "mail"]
    adapters = [scorer(model, tmp_path / f"adapter{seed}", seed, seen=everywhere) for seed in (1, 2)]
    plain = LanguageRouter(Fixed(), servers(), model)
    before = plain.rank(QUERY, 10)
    first, second = (LanguageRouter(Fixed(), servers(), model, adapter=each) for each in adapters)
    answers = [first.rank(QUERY, 10), second.rank(QUERY, 10)]
    assert scores(answers[0]) != pytest.approx(scores(answers[1]), abs=CLOSE)
    assert [first.rank(QUERY, 10), second.rank(QUERY, 10), plain.rank(QUERY, 10)] == [*answers, before]
    for router, stays in ((second, first), (first, plain)):
        assert router.adapter is not None
        model.detach(router.adapter)
        assert stays.rank(QUERY, 10) == (answers[0] if stays is first else before)
    assert not any("lora" in name for name, _ in model.model.named_parameters())
    again = LanguageRouter(Fixed(), servers(), model, adapter=adapters[1])
    assert again.rank(QUERY, 10) == answers[1]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"base_hash": "0" * 64}, "trained on another model"),
        ({"rendering": "language-0/1"}, "trained on other texts"),
        ({"head": True}, "is a head; a language model takes a scorer"),
        ({"kind": Kind.LORA}, "is a lora; a language model takes a scorer"),
        ({"width": 16}, "does not fit small"),
        ({"layers": "none"}, "does not fit small"),
    ],
)
def test_an_adapter_for_something_else_is_refused_and_changes_nothing(
    model: LanguageModel, tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    folder = tmp_path / "adapter"
    base_hash, kind = change.get("base_hash", model.hash), change.get("kind", Kind.SCORER)
    if "head" in change:
        made = save_adapter(folder, base_hash=base_hash, servers=[], head=torch.eye(4).numpy())
    else:
        trained = lora(model.model, 1)
        if "width" in change:
            for name, weights in trained.named_parameters():
                if "lora_A" in name:
                    weights.data = weights.data[:, :16]
        if "layers" in change:
            trained.peft_config["default"].target_modules = {"k_proj"}
        said_of = {"kind": kind, "rendering": change.get("rendering")}
        made = save_adapter(folder, base_hash=base_hash, servers=["web"], lora=trained, **said_of)
    good = scorer(model, tmp_path / "good", 2, seen=["web"])
    plain = LanguageRouter(Fixed(), servers(), model)
    before = plain.rank(QUERY, 10)
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=said):
            LanguageRouter(Fixed(), servers(), model, adapter=made)
        assert plain.rank(QUERY, 10) == before
    beside = LanguageRouter(Fixed(), servers(), model, adapter=good)
    answer = beside.rank(QUERY, 10)
    with pytest.raises(ConfigurationError, match=said):
        LanguageRouter(Fixed(), servers(), model, adapter=made)
    assert beside.rank(QUERY, 10) == answer


def test_a_model_is_loaded_by_its_folder_and_known_by_its_content(tmp_path: Path) -> None:
    folder = save_small_model(tmp_path / "small")
    router = LanguageRouter(Fixed(), servers(), folder)
    assert router.policy == "slm:small"
    assert len(router.rank(QUERY, 10)) == len(NAMES)
    hashed = load_language_model(folder).hash
    config = tmp_path / "small" / "config.json"
    config.write_text(config.read_text("utf-8").replace('"rms_norm_eps": 1e-06', '"rms_norm_eps": 1e-05'), "utf-8")
    assert load_language_model(folder).hash != hashed


def test_a_folder_without_a_model_is_the_owners_to_change(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no language model can be loaded from"):
        load_language_model(str(tmp_path))


def test_weights_that_are_programs_are_not_run(tmp_path: Path) -> None:
    folder = save_small_model(tmp_path / "small")
    (tmp_path / "small" / "model.safetensors").unlink()
    torch.save({}, tmp_path / "small" / "pytorch_model.bin")
    with pytest.raises(ConfigurationError, match="no language model can be loaded from"):
        load_language_model(folder)
