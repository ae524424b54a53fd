"""Becomes a server after the reaper has been told of it: `launcher.py REAPER STATUS CTYPE COMMAND [ARGUMENT...]`.

A program of its own (standard library only; see orphans.py). The parent can be killed between the start of a process
and its own next line; a process that registers itself before it becomes the server cannot be missed.
"""

import os
import signal
import sys


def close_all_but(kept: int) -> None:
    """Close everything beyond the standard streams. What starts us closes only what it opened itself: uvloop leaves
    copies of the streams, and whatever the gateway inherited from its own parent."""
    for name in os.listdir("/dev/fd"):
        if int(name) > 2 and int(name) != kept:
            try:  # noqa: SIM105  contextlib takes as long to import as all the rest
                os.close(int(name))
            except OSError:
                pass  # the one that the listing itself took


def main(reaper: str, status: str, ctype: str, command: str, *arguments: str) -> None:
    """`reaper` and `status` are open descriptors; `ctype` says whether the server is to have an LC_CTYPE.

    Writes the error's number into `status` when the command cannot be started; otherwise it closes without a word.
    """
    if ctype == "0":
        # The interpreter sets one for itself where no locale is set.
        os.environ.pop("LC_CTYPE", None)
    for ignored_by_python in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored_by_python, signal.SIG_DFL)
    try:  # noqa: SIM105  contextlib takes as long to import as all the rest
        os.write(int(reaper), b"+%d\n" % os.getpid())
    except OSError:
        pass  # without a reaper the server works all the same
    close_all_but(int(status))
    os.set_inheritable(int(status), False)
    try:
        os.execvp(command, [command, *arguments])
    except OSError as error:
        os.write(int(status), b"%d" % (error.errno or 0))
        os._exit(127)


if __name__ == "__main__":
    main(*sys.argv[1:])
