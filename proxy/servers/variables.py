"""`${VAR}` in configuration values: put in from the environment, never guessed.

Above: configfile.py, which disables the one server whose variable is missing. Below: nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from proxy.errors import ConfigurationError

REFERENCE = re.compile(r"\$\{([^}]*)\}")
PLAIN = re.compile(r"(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_()]*)(?P<default>:-.*)?", re.DOTALL)
# Only an editor with an open folder can fill these in, so "set it" would be the wrong advice.
EDITOR_NAMES = frozenset(
    (
        "workspaceFolder", "workspaceFolderBasename", "userHome", "cwd", "file", "fileBasename", "fileDirname",
        "relativeFile", "lineNumber", "selectedText", "execPath", "pathSeparator",
    )
)  # fmt: skip


class MissingVariable(ConfigurationError):
    """A value refers to an environment variable that is not set."""

    def __init__(self, name: str, message: str | None = None) -> None:
        super().__init__(
            message
            or f"the environment variable {name} is not set; set it where the gateway is started, "
            f"or give a default with ${{{name}:-default}}"
        )
        self.name = name


class UnsupportedVariable(MissingVariable):
    """A `${...}` form that another program fills in, or nobody."""

    def __init__(self, name: str) -> None:
        super().__init__(
            name,
            f"${{{name}}} is not supported here; write the value itself, or one of ${{VAR}}, ${{VAR:-default}} "
            "and ${env:VAR} with an environment variable of the gateway",
        )


def expand(text: str, environ: Mapping[str, str]) -> str:
    """`text` with each `${VAR}`, `${VAR:-default}` and `${env:VAR}` replaced; what is put in is not read again.

    As in a shell, `:-` gives the default for a variable that is empty as well as for one that is not set.
    A bare `$VAR` stays as it is.
    """

    def value(match: re.Match[str]) -> str:
        body = match[1]
        form = PLAIN.fullmatch(body)
        if form is None or "${" in body:
            # A default may be a secret, so it is cut off before the form is quoted.
            raise UnsupportedVariable(body.split(":-")[0])
        name, default = form["name"], form["default"]
        if default is not None:
            return environ.get(name) or default[2:]
        if name in environ:
            return environ[name]
        raise UnsupportedVariable(name) if name in EDITOR_NAMES else MissingVariable(name)

    return REFERENCE.sub(value, text)
