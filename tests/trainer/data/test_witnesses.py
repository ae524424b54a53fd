"""What others bear out is believed; what one agent alone says counts for little, however much it is."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.trainer.data.made import origin, ranking, unhurried
from trainer.data.caps import believed, capped, shares, taught
from trainer.data.settings import CapSettings
from trainer.data.witnesses import ASKED, Agreement, agreements, borne_out
from trainer.rows import RankingRow, Used

NEEDS = {
    "weather.forecast": "rain and wind expected tomorrow along the coast",
    "library.find_book": "novels by a writer about whaling ships",
    "bank.exchange": "convert euros into yen at todays rate",
    "maps.route": "shortest way by bicycle between two towns",
}
DEFAULT = CapSettings()


def row(number: int, agent: str, tool: str, query: str, **changed: object) -> RankingRow:
    return ranking(number, tool, query=query, of=origin(number, agent=agent), **changed)


def honest(agents: int = 4) -> list[RankingRow]:
    """Each agent had each need, in an order of words of its own."""
    rows: list[RankingRow] = []
    for agent in range(agents):
        for tool, text in NEEDS.items():
            words = text.split()
            turned = " ".join([*words[agent:], *words[:agent]])
            rows.append(row(len(rows), f"agent {agent}", tool, turned))
    return rows


def lies(count: int = 200, agent: str = "poisoner") -> list[RankingRow]:
    """For everybody's needs, a tool that somebody else uses for something else."""
    tools, texts = list(NEEDS), list(NEEDS.values())
    return [
        row(1_000 + number, agent, tools[(number + 1) % len(tools)], f"{texts[number % len(texts)]} {number:x}ly")
        for number in range(count)
    ]


def test_what_two_agents_found_is_borne_out_and_what_one_made_up_is_not() -> None:
    rows = [*honest(), *lies(20)]
    assert borne_out(rows) == [True] * 16 + [False] * 20


def test_nobody_bears_out_themselves_and_another_tool_bears_out_nothing() -> None:
    tool, text = next(iter(NEEDS.items()))
    others = honest()[1:4]
    assert borne_out([row(100, "one", tool, text), row(101, "one", tool, text), *others])[:2] == [False, False]
    assert borne_out([row(100, "one", tool, text), row(101, "two", "bank.exchange", text), *others])[:2] == [False] * 2
    assert borne_out([row(100, "one", tool, text), row(101, "two", tool, text), *others])[:2] == [True, True]


def test_of_several_tools_that_were_right_each_has_to_be() -> None:
    tool, text = next(iter(NEEDS.items()))
    both = replace(row(100, "one", tool, text), used=tuple(_used(name) for name in (tool, "bank.exchange")))
    rows = [both, row(101, "two", tool, text), *honest()[1:4]]
    assert borne_out(rows)[:2] == [False, True]


def test_what_failed_bears_out_nothing() -> None:
    tool, text = next(iter(NEEDS.items()))
    failed = replace(row(101, "two", tool, text), used=(Used(tool=tool, ok=False, credit=None, shown=True),))
    assert borne_out([row(100, "one", tool, text), failed, *honest()[1:4]])[:2] == [False, False]


def test_a_flood_of_what_nobody_bears_out_teaches_a_twentieth_at_most() -> None:
    rows = [*honest(), *lies()]
    held = capped(rows, DEFAULT)
    part = shares([each.origin.agent for each in held], [each.weight * taught(each, DEFAULT) for each in held])
    assert part["poisoner"] <= DEFAULT.alone_share
    assert all(part[f"agent {number}"] > 0.2 for number in range(4))


def test_agreement_is_counted_where_another_agent_searched_for_the_same() -> None:
    rows = [*honest(), row(500, "agent 0", "zoo.feed", "when penguins get their fish"), *lies(20)]
    found = agreements(rows, borne_out(rows))
    assert found["agent 0"] == Agreement(compared=4, agreed=4)
    # By numbers alone, which are values, two searches do not differ.
    assert found["poisoner"] == Agreement(compared=10, agreed=0)


def test_of_much_traffic_a_sample_is_compared() -> None:
    """Whatever is left out, there is no row that agrees."""
    words = [chr(97 + number // 26) + chr(97 + number % 26) for number in range(26 * 26)]
    tools, texts = list(NEEDS), list(NEEDS.values())
    flood = [
        row(1_000 + at, "poisoner", tools[(at + 1) % 4], f"{texts[at % 4]} {word}") for at, word in enumerate(words)
    ]
    rows = [*honest(), *flood]
    assert agreements(rows, borne_out(rows))["poisoner"] == Agreement(compared=ASKED, agreed=0)


def test_who_is_contradicted_by_all_is_hardly_believed_even_within_its_share() -> None:
    words = [chr(97 + number // 26) + chr(97 + number % 26) for number in range(200)]
    tools, texts = list(NEEDS), list(NEEDS.values())
    liar = [
        row(1_000 + at, "poisoner", tools[(at + 1) % 4], f"{texts[at % 4]} {word}") for at, word in enumerate(words)
    ]
    lonely = [
        row(2_000 + at, "hermit", "zoo.feed", f"when penguins number {word}{word} get fish")
        for at, word in enumerate(words[:8])
    ]
    rows = [*honest(), *liar, *lonely]
    factors = believed(rows, [1.0] * len(rows), DEFAULT)
    lied, alone = factors[16:216], factors[216:]
    # Nobody contradicts the hermit.
    assert sum(alone) == min(8.0, DEFAULT.alone_share * (16 + 200))
    assert sum(lied) < 0.06 * DEFAULT.alone_share * (16 + 8)


def test_who_agrees_less_than_usual_but_not_by_far_is_believed() -> None:
    """Three of its four finds are contradicted for one agent, one of four for the others."""
    odd = [
        replace(each, used=(_used("bank.exchange"),)) if at % 4 == 0 else each for at, each in enumerate(honest(5)[4:])
    ]
    rows = [*honest()[:16], *odd]
    assert believed(rows, [1.0] * len(rows), DEFAULT) == [1.0] * len(rows)


def test_an_honest_agent_keeps_what_it_alone_has_seen() -> None:
    rows = [*honest(), row(500, "agent 0", "zoo.feed", "when penguins get their fish")]
    assert believed(rows, [1.0] * len(rows), DEFAULT) == [1.0] * len(rows)


def test_where_nobody_bears_out_anybody_all_are_believed() -> None:
    rows = [row(number, f"agent {number}", tool, text) for number, (tool, text) in enumerate(NEEDS.items())]
    assert believed(rows, [1.0] * len(rows), DEFAULT) == [1.0] * len(rows)
    sole = [row(number, "me", tool, text) for number, (tool, text) in enumerate(NEEDS.items())]
    assert believed(sole, [1.0] * len(sole), DEFAULT) == [1.0] * len(sole)


def test_trust_in_all_leaves_all() -> None:
    rows = [*honest(), *lies(10)]
    trusting = CapSettings(alone_share=1.0, trust=0.0)
    assert believed(rows, [1.0] * len(rows), trusting) == [1.0] * len(rows)


@unhurried
@given(st.permutations(range(24)))
def test_the_order_of_rows_decides_nothing(order: list[int]) -> None:
    rows = [*honest(), *lies(8)]
    expected = borne_out(rows)
    assert borne_out([rows[place] for place in order]) == [expected[place] for place in order]


def _used(tool: str) -> Used:
    return Used(tool=tool, ok=True, credit=None, shown=True)
