"""What an agent cannot know of the place its code runs in, said where it meets it."""

import errno
import socket
import types
from difflib import get_close_matches

NO_NETWORK = "there is no network here: use a server's tool"
UNREACHABLE = frozenset({errno.ENETUNREACH, errno.EAFNOSUPPORT, errno.EHOSTUNREACH})


def hint(error: BaseException, servers: dict, processes: int) -> str | None:
    """A sentence that helps with this error, or None. `servers` are the names there are."""
    match error:
        case ModuleNotFoundError(name=str(name)):
            missing = name.partition(".")[0]
            if missing in servers:
                return f"{missing} is a server; it is there without an import"
            return "only what is installed here can be imported, and nothing can be installed: there is no network"
        case NameError(name=str(name)):
            near = get_close_matches(name, servers, 1, 0.6)
            return f"did you mean the server {near[0]}?" if near else None
        case AttributeError(obj=types.ModuleType(__name__=str(name))) if name in servers:
            return f'{name} is Python\'s module here, because the code imported it; the server is servers["{name}"]'
        case socket.gaierror():
            return NO_NETWORK
        case OSError(errno=number) if number in UNREACHABLE:
            return NO_NETWORK
        case OSError(errno=errno.EROFS):
            return "files can only be written below /tmp"
        case OSError(errno=errno.ENOSPC):
            return "/tmp is full"
        case BlockingIOError(errno=errno.EAGAIN) | RuntimeError(args=("can't start new thread",)):
            return f"there can be {processes} processes and threads at a time"
    return None
