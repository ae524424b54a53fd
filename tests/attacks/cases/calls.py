"""Attacks by calls: tools that are not the agent's, and names and arguments that no tool has."""

from __future__ import annotations

from tests.attacks.case import Attack
from tests.attacks.cases.channel import rogue_call
from tests.attacks.protection import Protection as P

NO_SWITCH = "the check is how a call leaves the gateway; it has no switch"


def called(name: str, tries: str, code: str, shows: str, **more: object) -> Attack:
    """A call that must not get through as it is."""
    given = {"stopped_by": P.GATEWAY, "without": NO_SWITCH, "won": rogue_call, **more}
    return Attack(name=name, tries=tries, code=code, shows=shows, **given)  # type: ignore[arg-type]


ATTACKS = (
    called(
        "unknown-tool",
        "a tool that does not exist",
        "try: desk.nothing(value=1)\nexcept Exception as error: print('HELD', type(error).__name__)",
        r"^HELD",
    ),
    called(
        "unknown-server",
        "a server that the agent may not use",
        "attempt('vault', lambda: vault.open())",
        r"^HELD vault: NameError",
    ),
    called(
        "names-of-python",
        "the parts of a server that Python gives it",
        """
for name in ("__class__", "__init__", "__dict__", "__getattr__", "__globals__", "__call__", "__reduce__"):
    try: got = getattr(desk, name)
    except Exception as error: print("HELD", name, type(error).__name__)
    else: print("got", name, type(got).__name__)
    try: got()
    except BaseException: pass
print("HELD")
""",
        r"^HELD$",
    ),
    called(
        "names-with-paths",
        "tools by names that are paths, lines and other servers",
        r"""
names = ("../vault.open", "echo\nvault.open", "echo\0", "", ".", "x" * 1_000_000, "echo.vault.open", "écho", "\ud800")
for name in names:
    try: print("got", getattr(desk, name)(value=1))
    except BaseException as error: print("HELD", type(error).__name__, flush=True)
""",
        r"^HELD",
    ),
    called(
        "no-call",
        "calls with more arguments than there is memory",
        "try: desk.echo(value='x' * 20_000_000)\nexcept BaseException as error: print('HELD', type(error).__name__)",
        r"^HELD ToolError",
        won=lambda outcome: any(len(str(arguments)) > 16_000_000 for _, arguments in outcome.calls),
    ),
    called(
        "odd-arguments",
        "arguments that JSON has no form for",
        """
import datetime
class E:
    def __getattr__(self, name): raise SystemExit
values = [float("nan"), float("inf"), b"bytes", {1, 2}, object(), E(), datetime.datetime.now(), {1: 2}, {("a",): 1}]
for value in (*values, lambda: 1, desk):
    try: got = desk.echo(value=value)
    except Exception as error: print("HELD", type(error).__name__, flush=True)
    else: print("HELD came as", type(got).__name__, flush=True)
""",
        r"^HELD",
    ),
    called(
        "large-number",
        "a number of 100,000 digits, which takes long to read",
        "sys.set_int_max_str_digits(0)\n"
        "try: print('HELD', len(str(desk.echo(value=10 ** 100_000))))\n"
        "except BaseException as error: print('HELD', type(error).__name__)",
        r"^HELD|status=died",
    ),
    called(
        "deep-argument",
        "an argument of 100,000 lists",
        "deep = []\n"
        "for _ in range(100_000): deep = [deep]\n"
        "try: desk.echo(value=deep)\n"
        "except BaseException as error: print('HELD', type(error).__name__)",
        r"^HELD (ValueError|RecursionError|ToolError)",
    ),
    called(
        "endless-argument",
        "an argument that contains itself",
        "endless = []\n"
        "endless.append(endless)\n"
        "try: desk.echo(value=endless)\n"
        "except Exception as error: print('HELD', type(error).__name__)",
        r"^HELD",
    ),
    called(
        "many-keys",
        "an argument of 200,000 keys",
        "try: desk.echo(value={str(n): n for n in range(200_000)})\n"
        "except Exception as error: print('HELD', type(error).__name__)",
        r"^HELD",
    ),
    called(
        "hundred-threads",
        "a hundred calls at a time",
        """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(50) as pool:
    print("HELD", len(list(pool.map(lambda n: desk.echo(value=n), range(100)))))
""",
        r"^HELD 100",
    ),
    called(
        "odd-look-ups",
        "look-ups with names that are none",
        r"""
for function in (help, describe):
    for name in ("", "x" * 1_000_000, "../..", "vault.open", "__class__", "desk.__class__", "\0", "\ud800", "%s{0}"):
        try: got = function(name)
        except BaseException as error: print("HELD", type(error).__name__, flush=True)
        else: print("got", len(str(got)), flush=True)
print("HELD")
""",
        r"^HELD$",
        timeout_s=10,
    ),
)
