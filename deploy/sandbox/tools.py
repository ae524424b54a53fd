"""What the agent's code has beside Python: servers and their tools as functions, and what tells of them."""

import ast
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches

from channel import Channel, ToolError

SHOWN_STUB = 1_500
"""Characters of a stub in an error."""


class Text(str):
    """Shown as it is where it is the last expression, with its line breaks."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Tool:
    """A tool of a server: call it with keyword arguments."""

    def __init__(self, channel: Channel, name: str) -> None:
        self._channel = channel
        self._name = name
        self.__name__ = name.rpartition(".")[2]

    def __call__(self, /, *positional: object, **arguments: object) -> object:
        if positional:
            raise TypeError(self._signature_wanted())
        return self._channel.call(self._name, arguments)

    def __repr__(self) -> str:
        return f'<tool {self._name}: describe("{self._name}") shows its arguments>'

    def _signature_wanted(self) -> str:
        begin = f"{self._name} takes keyword arguments only"
        try:
            stub = str(self._channel.look_up("describe", self._name))
        except ToolError as error:
            return f"{begin}. {error}"
        names = parameters(stub)
        if names is None:
            return f"{begin}:\n{stub[:SHOWN_STUB]}"
        return f"{begin}: {self._name}({', '.join(f'{name}=...' for name in names)})"


class Server:
    """A server: its attributes are its tools. Which there are is not known here; a wrong one fails when called."""

    def __init__(self, channel: Channel, name: str) -> None:
        self.__channel = channel
        self.__name = name

    def __getattr__(self, name: str) -> Tool:
        if name.startswith("__"):
            # What Python and its libraries ask every object for.
            raise AttributeError(name)
        tool = Tool(self.__channel, f"{self.__name}.{name}")
        self.__dict__[name] = tool
        return tool

    def __dir__(self) -> list[str]:
        """Its tools, as far as the text that describes them can be read."""
        listing = str(self.__channel.look_up("help", self.__name))
        return sorted(set(re.findall(rf"^\s*(?:def |{self.__name}\.)?([A-Za-z_]\w*)\(", listing, re.MULTILINE)))

    def __repr__(self) -> str:
        return f"<server {self.__name}: help({self.__name}) lists its tools>"


class Servers:
    """`servers()` lists the servers and their purpose; `servers["time"]` is one, whatever its name means here."""

    def __init__(self, channel: Channel, known: dict[str, Server]) -> None:
        self.__channel = channel
        self.__known = known

    def __call__(self) -> object:
        return self.__channel.look_up("servers", "")

    def __getitem__(self, name: str) -> Server:
        if name in self.__known:
            return self.__known[name]
        near = get_close_matches(str(name), self.__known, 3)
        raise KeyError(f"no server {name!r}" + (f"; did you mean {', '.join(near)}?" if near else "; see servers()"))

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self.__known))

    def __len__(self) -> int:
        return len(self.__known)

    def __contains__(self, name: object) -> bool:
        return name in self.__known

    def __repr__(self) -> str:
        return f"<{len(self)} servers: servers() lists them>"


class Toolbox:
    """All of it, for one interpreter."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._parallel = 1
        self.known: dict[str, Server] = {}
        """Written name -> server."""

    def functions(self) -> dict[str, object]:
        """Name -> what is there in every run."""
        return {
            "ToolError": ToolError,
            "parallel": self.parallel,
            "servers": Servers(self._channel, self.known),
            "help": self.help,
            "describe": self.describe,
        }

    def bind(self, names: Iterable[str], parallel: int) -> None:
        """Take over what there is in the next run. A server that stays is the same object."""
        servers = {name: self.known.get(name) or Server(self._channel, name) for name in names}
        self.known.clear()
        self.known.update(servers)
        self._parallel = parallel

    def describe(self, *tools: str | Tool) -> Text:
        """The stub of a tool, given as "server.tool" or server.tool: its arguments, result and documentation."""
        if not tools:
            raise TypeError('describe("server.tool"): name at least one tool')
        return Text("\n\n".join(str(self._look_up(tool)) for tool in tools))

    def help(self, subject: object = None, /) -> None:
        """Print the tools of a server, the stub of a tool, or the documentation of anything else."""
        if subject is None:
            print('servers() lists the servers; help(server) its tools; describe("server.tool") the arguments of one.')
        elif isinstance(subject, Server | Tool) or (
            isinstance(subject, str) and subject.partition(".")[0] in self.known
        ):
            print(self._look_up(subject))
        else:
            import pydoc

            print(pydoc.render_doc(subject, renderer=pydoc.plaintext))

    def parallel(self, fn: Callable, items: Iterable, *, return_exceptions: bool = False) -> list:
        """`[fn(item) for item in items]`, several at a time, in threads. A tool takes each item as its arguments.

        Every item is tried. Then the first error, in the order of the items, is raised; with `return_exceptions` errors
        stand in the list instead.
        """
        work = list(items)
        if isinstance(fn, Tool) and not all(isinstance(item, dict) for item in work):
            raise TypeError(f"parallel({fn.__name__}, items): each item has to be a dict of arguments, or fn a lambda")
        results: list = [None] * len(work)
        failed: list[int] = []
        numbers = iter(range(len(work)))
        take = threading.Lock()
        stop = False

        def run() -> None:
            while not stop:
                with take:
                    at = next(numbers, None)
                if at is None:
                    return
                try:
                    results[at] = fn(**work[at]) if isinstance(fn, Tool) else fn(work[at])
                except BaseException as error:
                    results[at] = error
                    failed.append(at)

        threads = [threading.Thread(target=run, daemon=True) for _ in range(min(self._parallel, len(work)))]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            stop = True
        if failed and not return_exceptions:
            first = min(failed)
            error = results[first]
            error.add_note(f"in parallel(): item {first} of {len(work)}; {len(failed)} of them failed")
            raise error
        return results

    def _look_up(self, subject: object) -> object:
        if isinstance(subject, Server):
            name = next((name for name, server in self.known.items() if server is subject), "")
        else:
            name = subject._name if isinstance(subject, Tool) else str(subject)
        return self._channel.look_up("describe" if "." in name else "help", name)


def parameters(stub: str) -> list[str] | None:
    """Names of the arguments in a stub, or None if it cannot be read."""
    try:
        functions = [node for node in ast.parse(stub).body if isinstance(node, ast.FunctionDef)]
    except (SyntaxError, ValueError, RecursionError):
        return None
    return [argument.arg for argument in functions[-1].args.kwonlyargs] if functions else None
