"""Which names name secrets, and which values under such a name are none.

Above: redaction.py, for members of JSON values, and redaction_assigned.py, for names in text. Below nothing.
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache
from itertools import pairwise

PLACEHOLDER = re.compile(r"\[(?:card|custom|email|key|private_key|secret):[0-9a-f]{8}\]")
"""What stands in the place of something redacted."""


class Naming(IntEnum):
    """What a name says of the value under it."""

    NOTHING = 0
    DIGITS = 1
    """A secret if it is a few digits: PINs, one-time and card codes."""
    RANDOM = 2
    """A secret if it looks random: `key` may be a cache key as well as an API key."""
    MANY = 3
    """A collection of secrets, or of their names: a secret unless it reads like a name or a word."""
    SECRET = 4
    """A secret unless it cannot be one."""


_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_JOINT = re.compile(r"[\W_]+")
# What a name ends with that says something about a secret without being one.
_ABOUT = frozenset(
    """
    address algorithm alias arn at attempts available budget class configured count created created_at description
    enabled endpoint error exists expiration expired expires expiry field file filename format hint host id ids
    index info input issued issuer kind label last length level limit link list location manager message method
    missing mode name names network number options page path pattern placeholder plan policy position present
    prompt provider required reset rotation rules scope scopes server set settings size source state status store
    strength symbol template text time timeout title ttl type types updated uri url usage user valid validation
    version
    """.split()  # noqa: SIM905 - read as words
)
# What stands before `token` where it is a mark in a listing, or a piece of language.
_MARKS = frozenset(
    """
    bos cls completion continuation cursor end eos input lp mask max min next num output pad page pagination per
    prev previous prompt sep special start stop sync total unk upload
    """.split()  # noqa: SIM905 - read as words
)
# What stands before `key` where it is no secret.
_PLAIN_KEYS = frozenset(
    """
    answer cache column dict event foreign group hash idempotency index issue item lookup map natural object
    partition primary project public publishable query range redis reference row s3 search sort surrogate trigger
    unique
    """.split()  # noqa: SIM905 - read as words
)
_SECRET = re.compile(
    r"(?:^|_)(?:\w*passw(?:or[dt]|d)?|pass|pwd|\w*passphrase|passcode|kennwort|contraseña|contrasena|senha|пароль|密码|密碼"
    r"|(?:amz|goog)_signature|\w*secret|\w*token|credentials?|creds|(?:proxy_)?authorization|(?:set_)?cookie|bearer|jwt|mnemonic|seed_phrase"
    r"|recovery_(?:code|phrase|key)|(?:api|access|private|secret|account|shared|shared_access|auth|encryption|signing|master"
    r"|license|licence|service|subscription|app|application|consumer|client|storage|admin|deploy|ssh|ssl|tls|webhook|security"
    r"|decryption|hmac|session|recovery|service_role|write|ingest|function)_?key)$"
)
_FOLLOWED = re.compile(r"(?:^|_)(?:passw(?:or)?d|pwd|secret|token|api_?key|authorization|cookie)_\w+$")
_MANY = re.compile(
    r"(?:^|_)(?:passwords|secrets|api_?keys|private_?keys|access_?keys|cookies|access_tokens|auth_tokens)$"
)
_RANDOM = re.compile(
    r"(?:^|_)(?:\w*key|keys|auth|\w*tokens|session|session_?id|sid|\w*sessid|sessionid|sig|signature|code|code_verifier"
    r"|dsn|webhook|license|otp_seed|seed|nonce|hash|salt|bearer_\w+|x_auth\w*)$"
)
_DIGITS = re.compile(r"(?:^|_)(?:pin|pin_?code|t?otp|otp_?code|mfa_?code|cvv2?|cvc2?|card_code|verification_?code)$")

_COMMON = frozenset(
    """
    apikey jwt pass passwd pw pwd
    admin any apikey array auth basic bearer bool boolean bytes changeme char const default disabled dynamic empty
    enabled enum env environ environment error expired false file float forbidden hidden int integer invalid key
    list long masked missing nil no none not null number object omitted optional password pending private public
    redacted required revoked secret self set static str string text token true type undefined unknown unset valid
    value varchar void yes
    """.split()  # noqa: SIM905 - read as words
)
_STAND_IN = re.compile(
    r"\$\{?\w[^\s]*|\$\(.*|\{\{.*\}\}|\{[\w.]*\}|<[^<>]*>|%[sdr]|%\(\w+\)[sdr]|%\w+%"
    r"|\*+|[xX]{3,}|\.{2,}|…|-+|_+|#+|•+|\[[\w .…-]*\]"
    r"|your[-_ ].*|my[-_](?:secret|token|key|password)|(?:REDACTED|FILTERED|MASKED).*",
    re.DOTALL,
)
_WORDY = re.compile(r"[^\W\d]+(?:[-.'’][^\W\d]+)*")
_PLACE = re.compile(r"https?://\S*|(?:~|\.{0,2})(?:/[a-z0-9_.-]{1,40}){2,}")
_EXPRESSION = re.compile(
    r"(?:self|this|os|process|env|config|settings|args|options|request|req|ctx|context)\.\w.*|\w+\.\w+\.\w+"
)
_TELLS = re.compile(
    r"\b(?:the|of|for|to|your|is|an|be|or|and|with|must|not|will|used|if|from|this|that)\b", re.IGNORECASE
)
_HEX = re.compile(r"(?:sha\d+[:-]|md5[:-])?[0-9a-fA-F]+")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_PATHLIKE = re.compile(r"(?:[a-z][a-z0-9+.-]*:)?/.*|(?:[\w.@-]+/){2,}.*|\.{1,2}/.*|~/.*")
_RANDOM_CHARACTERS = re.compile(r"[A-Za-z0-9_+/=.~:%-]{16,}")

_WIDGETS = frozenset(
    """
    a aria box css data enter field form id input label name placeholder test testid text textbox the type your
    """.split()  # noqa: SIM905 - read as words
)
_WORD = re.compile(r"[^\W_]+")


def naming(name: str) -> Naming:
    """What a member, parameter, header or variable of this name holds. `name` may have any case and joints."""
    if not name or len(name) > 80:
        return Naming.NOTHING
    return _naming(name)


def naming_of_control(label: str) -> Naming:
    """What a field of a page holds that is described or selected so."""
    return naming("_".join(word for word in _WORD.findall(label[:200]) if word.lower() not in _WIDGETS))


@lru_cache(maxsize=8_192)
def _naming(name: str) -> Naming:
    squeezed = _JOINT.sub("_", _HUMP.sub("_", name)).strip("_").lower()
    parts = squeezed.split("_")
    last, before = parts[-1], parts[-2] if len(parts) > 1 else ""
    if _DIGITS.search(squeezed):
        return Naming.DIGITS
    if last in _ABOUT or parts[0] in ("has", "is", "num", "use", "requires", "max", "min"):
        return Naming.NOTHING
    if last.endswith("token") and before in _MARKS:
        return Naming.NOTHING
    if last == "key" and before in _PLAIN_KEYS:
        return Naming.NOTHING
    if _SECRET.search(squeezed):
        return Naming.SECRET
    if _MANY.search(squeezed):
        return Naming.MANY
    return Naming.RANDOM if _RANDOM.search(squeezed) or _FOLLOWED.search(squeezed) else Naming.NOTHING


def is_secret(value: str, said: Naming) -> bool:
    """Whether the value under a name that says this is to be redacted."""
    if not value or ("[" in value and not any(c.isalnum() for c in PLACEHOLDER.sub("", value))):
        return False
    match said:
        case Naming.NOTHING:
            return False
        case Naming.DIGITS:
            return value.isdigit() and 3 <= len(value) <= 10
        case Naming.RANDOM:
            return looks_random(value)
        case Naming.MANY:
            return not _is_none(value) and not _WORDY.fullmatch(value)
        case Naming.SECRET:
            return not _is_none(value)


def is_wordy(value: str) -> bool:
    """Whether it reads like a word or a name in code, so that it may be one where nothing marks it as data."""
    return _WORDY.fullmatch(value) is not None or _EXPRESSION.fullmatch(value) is not None


def is_common(value: str) -> bool:
    """Whether it is a word that says something of a secret: a type, `required`, `null`."""
    return value.lower() in _COMMON


def looks_random(value: str) -> bool:
    """Whether it is long and mixed as names, words, paths, digests and UUIDs are not."""
    if len(value) > 4_096 or not _RANDOM_CHARACTERS.fullmatch(value):
        return False
    if _HEX.fullmatch(value) or _UUID.fullmatch(value) or _PATHLIKE.fullmatch(value):
        return False
    value = value[:256]
    kinds = [0 if c.isdigit() else 1 if c.islower() else 2 if c.isupper() else 3 for c in value]
    changes = sum(one != other for one, other in pairwise(kinds))
    return kinds.count(0) >= 2 and kinds.count(1) + kinds.count(2) >= 4 and changes * 4 >= len(value)


def worth_remembering(value: str) -> bool:
    """Whether it can be looked for in other text without hitting words and small numbers."""
    if len(value) < 6 or len(value) > 512 or PLACEHOLDER.search(value):
        return False
    if value.isdigit():
        return len(value) >= 8
    return len(value) >= 16 if _WORDY.fullmatch(value) else True


def _is_none(value: str) -> bool:
    """Whether it only stands for a secret, or is a sentence about one."""
    if is_common(value) or _STAND_IN.fullmatch(value) or _PLACE.fullmatch(value):
        return True
    return " " in value and len(_TELLS.findall(value[:400])) >= 2 and not any(c.isdigit() for c in value)
