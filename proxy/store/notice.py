"""What the first start of a gateway that logs says about it, once.

Above: app.py prints it. Below: files.py.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from proxy.files import replace_file

_MARK = "log-notice-shown"


def first_start_notice(database_shown: str, folder: Path) -> str:
    """What is logged, where, and how to have less of it. `database_shown` is without a password; `folder` holds the
    journals."""
    return (
        "This gateway logs what agents do through it: their calls with arguments and results, searches, code, and the\n"
        "answers they hand in, to learn from them. Nothing is sent anywhere else.\n"
        f"  where     {database_shown}; on the way there, {folder}. Files are for this user alone.\n"
        "  left out  passwords, keys, tokens, e-mail addresses and card numbers are replaced as far as they are\n"
        "            recognised; patterns of your own: --redact.\n"
        '  less      --log metadata (no contents) or --log off; for one server or tool "log" in the configuration.\n'
        "  for how long  until deleted: --retention-days N, `toolatlas episodes delete`.\n"
        "docs/privacy.md says more. This is shown once."
    )


def notice_due(state_dir: Path) -> bool:
    """Whether the notice was never shown for this folder; from now on it was. Where that cannot be kept, it is shown
    each time."""
    mark = state_dir / _MARK
    if mark.exists():
        return False
    with suppress(OSError):
        replace_file(mark, b"", durable=False)
    return True
