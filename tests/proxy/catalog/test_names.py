"""Written and exposed names: valid, unique, stable, reversible."""

from __future__ import annotations

import keyword
import re

from hypothesis import given
from hypothesis import strategies as st

from proxy.catalog.names import EXPOSED_LIMIT, TOOL_LIMIT, exposed_names, written_names

AWKWARD = ["calendar.update", "GET:/x", "工具", "a-b", "a_b", "class", "9lives", "", "_", "x" * 120, "x" * 119 + "y"]


def test_every_awkward_name_gets_a_python_identifier_of_its_own() -> None:
    written = written_names(AWKWARD, TOOL_LIMIT)
    assert set(written) == set(AWKWARD)
    assert len(set(written.values())) == len(AWKWARD)
    for name in written.values():
        assert name.isidentifier()
        assert not keyword.iskeyword(name)
        assert len(name) <= TOOL_LIMIT


def test_a_name_that_is_an_identifier_already_keeps_its_spelling_in_a_collision() -> None:
    written = written_names(["a-b", "a_b"], TOOL_LIMIT)
    assert written["a_b"] == "a_b"
    assert written["a-b"].startswith("a_b_")


@given(st.lists(st.text(max_size=90), unique=True, max_size=12), st.randoms(use_true_random=False))
def test_the_mapping_is_unique_and_does_not_depend_on_the_order(names: list[str], random: object) -> None:
    written = written_names(names, TOOL_LIMIT)
    assert len(set(written.values())) == len(names)
    shuffled = list(names)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert written_names(shuffled, TOOL_LIMIT) == written


@given(
    st.lists(st.from_regex(r"[a-z_][a-z0-9_]{0,30}\.[a-z_][a-z0-9_]{0,60}", fullmatch=True), unique=True, max_size=12)
)
def test_exposed_names_suit_every_client_and_lead_back(written: list[str]) -> None:
    exposed = exposed_names(written)
    assert sorted(exposed.values()) == sorted(written)
    for name in exposed:
        assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name)
        assert len(name) <= EXPOSED_LIMIT


def test_two_servers_with_one_tool_name_are_both_exposed() -> None:
    assert exposed_names(["azure.search", "duckduckgo.search"]) == {
        "azure__search": "azure.search",
        "duckduckgo__search": "duckduckgo.search",
    }


def test_names_that_join_alike_are_told_apart() -> None:
    assert len(exposed_names(["a__b.c", "a.b__c"])) == 2
