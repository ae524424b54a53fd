"""What a task did before changes what its next search puts first."""

from __future__ import annotations

from proxy.router.base import History, Ranked
from proxy.router.history import remembering

SCORES = {"mail.send": 3.0, "mail.draft": 2.98, "chat.post": 2.96, "chat.read": 2.94, "files.list": 2.6}
RANKED = [Ranked(tool, score) for tool, score in SCORES.items()]


def names(history: History, ranked: list[Ranked] = RANKED) -> list[str]:
    return [found.tool for found in remembering(ranked, history)]


def test_without_a_history_nothing_changes() -> None:
    assert remembering(RANKED, History()) == RANKED
    assert remembering(RANKED, History(searched=("write to Ann",))) == RANKED
    assert remembering([], History(revealed=("mail.send",))) == []


def test_what_was_shown_comes_after_what_is_about_as_good() -> None:
    shown = History(revealed=("mail.send", "mail.draft"))
    assert names(shown) == ["chat.post", "chat.read", "mail.send", "mail.draft", "files.list"]


def test_what_was_called_comes_after_other_tools_of_its_server() -> None:
    assert names(History(revealed=("chat.post",), called=("chat.post",))) == [
        "chat.read", "mail.send", "mail.draft", "chat.post", "files.list",
    ]  # fmt: skip


def test_a_tool_that_leads_by_far_stays_first_however_often_it_was_shown() -> None:
    clear = [Ranked("mail.send", 30.0), *RANKED[1:]]
    assert names(History(revealed=("mail.send",), called=("mail.send",)), clear)[0] == "mail.send"


def test_no_candidate_is_lost_and_equal_ones_keep_their_order() -> None:
    equal = [Ranked(f"a.{number}", 1.0) for number in range(6)]
    assert remembering(equal, History(revealed=("a.0",))) == equal
    assert sorted(names(History(revealed=("files.list",), called=("mail.send",)))) == sorted(
        found.tool for found in RANKED
    )


def test_the_unit_is_that_of_the_scores() -> None:
    history = History(revealed=("mail.send", "chat.read"), called=("chat.post",))
    large = [Ranked(found.tool, found.score * 1000) for found in RANKED]
    assert names(history) == names(history, large)
