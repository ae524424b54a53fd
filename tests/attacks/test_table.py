"""The table itself: large enough, and without cases that could not fail."""

from __future__ import annotations

import re
from collections import Counter

from proxy.sandbox.base import Output, RunResult, Status
from tests.attacks.case import Outcome
from tests.attacks.protection import Protection
from tests.attacks.table import ATTACKS, EMBEDDED

EVERY = (*ATTACKS, *EMBEDDED)


def test_there_are_enough_and_each_has_a_name_of_its_own() -> None:
    assert len(ATTACKS) >= 80
    assert [name for name, times in Counter(attack.name for attack in EVERY).items() if times > 1] == []


def test_each_says_what_it_tries_and_what_happens_without_what_stops_it() -> None:
    for attack in EVERY:
        assert attack.tries, attack.name
        assert bool(attack.removed) != bool(attack.reason), attack.name
        assert all(protection.removal for protection in attack.removed), attack.name


def test_an_attack_that_got_what_it_wanted_is_not_stopped() -> None:
    fine = RunResult(status=Status.OK)
    won = Outcome(RunResult(status=Status.OK, output=Output("HELD it\nWON it\n")), fine)
    held = Outcome(RunResult(status=Status.OK, output=Output("HELD it\n")), fine)
    stuck = Outcome(held.result, RunResult(status=Status.DIED, kept=False))
    attack = next(attack for attack in ATTACKS if attack.name == "150-forks")
    assert not attack.stopped(won)
    assert not attack.stopped(held), "another reason than the one it should be stopped by"
    assert not attack.stopped(stuck)


def test_every_protection_stops_something() -> None:
    used = {attack.stopped_by for attack in EVERY} | {each for attack in ATTACKS for each in attack.removed}
    assert set(Protection) - used == set()


def test_patterns_can_be_missed() -> None:
    for attack in EVERY:
        assert not re.search(attack.shows, "", re.MULTILINE), attack.name
