"""Asked to stop once, a command ends in order; asked twice, it ends. Between two turns it looks whether it was."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from judge.tally import Tally
from trainer.commands.learning import waited
from trainer.commands.progress import LINE_EVERY_S, Reporter
from trainer.commands.stopping import stoppable
from trainer.loop.checkpoints import Position


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_and_what_was_there_before_is_there_again(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with stoppable() as wanted:
        assert wanted()
        signal.raise_signal(number)
        assert not wanted()
    assert signal.getsignal(number) is before


def test_the_second_ctrl_c_ends_it() -> None:
    code = (
        "import signal, time\nfrom trainer.commands.stopping import stoppable\n"
        "with stoppable() as wanted:\n    signal.raise_signal(signal.SIGINT)\n    assert not wanted()\n"
        "    signal.raise_signal(signal.SIGINT)\n    print('still here')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (-signal.SIGINT, "")


def test_between_turns_it_waits_unless_it_was_asked_to_stop() -> None:
    assert waited(0.01, lambda: True)
    assert not waited(3_600.0, lambda: False)


def test_without_a_terminal_progress_is_lines_and_not_too_many(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("trainer.commands.progress.time.monotonic", lambda: now)
    reporter = Reporter(None)
    reporter.say("reading the log")
    reporter.steps(9)
    reporter.updated(Position(step=1, validated=0), 1.5)
    now += LINE_EVERY_S
    reporter.updated(Position(step=2, validated=0, best_loss=1.25), 1.0)
    now += LINE_EVERY_S
    reporter.judged(Tally(judged=40), 100)
    assert capsys.readouterr().err.splitlines() == [
        "reading the log",
        "update 2 of 9, loss 1.0000, best validation 1.2500",
        "judged 40 of 100",
    ]
