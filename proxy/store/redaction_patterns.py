"""Secrets that show by their form alone: keys of known vendors, signed tokens, private keys, passwords in URLs, e-mail
addresses, card numbers; and the owner's own patterns.

Above: redaction.py. Below: redaction_names.py, RE2. Every search is linear in the text: repetitions that could be tried
again from each place are bounded, and the owner's patterns run in RE2, which never goes back. The plugins of
detect-secrets (1.5.0) were tried and not taken: made for lines of source files, they find 15 of the 44 secrets of
tests/store_secrets, tell of some only that there is one, not where, and load a web client to try secrets out.
"""

from __future__ import annotations

import base64
import binascii
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, cast

import re2  # pyright: ignore[reportMissingTypeStubs]

from proxy.errors import ConfigurationError
from proxy.store.redaction_names import PLACEHOLDER, Naming, is_secret, is_wordy
from proxy.store.redaction_pieces import Found
from proxy.store.redaction_private_keys import private_keys

_HEX32 = "[0-9a-f]{32}"
_FORMATS = (
    r"(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}(?![0-9A-Za-z])",
    r"gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{40,255}",
    r"gl(?:pat|dt|rt|ptt|oas|soat|cbt|ft|agent|imt|ffct)-[\w.-]{16,300}",
    r"xox[abeoprs]-[A-Za-z0-9-]{10,300}|xapp-\d-[A-Za-z0-9-]{10,300}",
    r"(?:sk|rk|pk)_(?:live|test|prod)_[A-Za-z0-9]{10,250}|whsec_[A-Za-z0-9+/=]{24,120}",
    r"sk-(?:ant-|proj-|svcacct-|admin-|or-v1-|lf-)?[\w-]{20,300}|pk-lf-[\w-]{20,60}",
    r"AIza[\w-]{35}(?![\w-])|ya29\.[\w-]{20,2000}|GOCSPX-[\w-]{20,60}|1//0[\w-]{20,300}",
    r"hf_[A-Za-z0-9]{30,60}|api_org_[A-Za-z0-9]{30,60}|npm_[A-Za-z0-9]{36}|pypi-Ag[\w-]{50,1000}",
    r"SG\.[\w-]{16,32}\.[\w-]{16,64}|SK[0-9a-f]{32}(?![0-9a-f])|key-[0-9a-f]{32}(?![0-9a-f])|[0-9a-f]{32}-us\d{1,2}(?!\w)",
    r"\d{8,10}:AA[\w-]{33}(?![\w-])|[MNO][A-Za-z\d_-]{23,27}\.[\w-]{6}\.[\w-]{27,40}",
    r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}|sq0(?:atp|csp|idp)-[\w-]{22,60}|EAAA[\w-]{60}",
    r"do[opr]_v1_[0-9a-f]{64}|dp\.(?:pt|st|ct|sa|scim|audit)\.[\w.-]{30,80}|dapi[0-9a-f]{32}(?:-\d)?",
    r"lin_api_[A-Za-z0-9]{32,60}|secret_[A-Za-z0-9]{43}|ntn_[A-Za-z0-9]{40,60}|fig[dour]_[\w-]{30,80}|PMAK-[0-9a-f-]{50,70}",
    r"ATATT3[\w=-]{60,300}|ATCTT3[\w=-]{60,300}|pat[A-Za-z0-9]{14}\.[0-9a-f]{64}|sl\.[\w-]{100,1400}",
    r"hv[sbr]\.[\w-]{24,300}|[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{60,80}|NRAK-[A-Z0-9]{27}|gl(?:c|sa)_[\w=+/]{32,300}",
    r"sntry[su]_[\w=+/]{40,300}|sbp_[0-9a-f]{40}|sb_secret_[\w-]{20,60}|nfp_[A-Za-z0-9]{36,60}|fo1_[\w-]{43}|fm2_[\w+/=]{60,1000}",
    r"HRKU-[\w-]{36,70}|pscale_(?:tkn|pw|oauth)_[\w.-]{32,64}|gsk_[A-Za-z0-9]{40,60}|r8_[A-Za-z0-9]{37}|pplx-[A-Za-z0-9]{40,60}",
    r"xai-[A-Za-z0-9]{60,100}|tvly-[\w-]{24,60}|fc-[0-9a-f]{32}(?![0-9a-f])|lsv2_(?:pt|sk)_[0-9a-f_]{40,60}|pcsk_[\w-]{50,90}",
    # Private keys in base64 once more, as Kubernetes keeps them: "-----BEGIN", the kind, "PRIVATE KEY".
    r"LS0tLS1CRUdJTi(?:BQUklWQVRFIEtFW|BSU0EgUFJJVkFURSBLRV|BFQyBQUklWQVRFIEtFW|BPUEVOU1NIIFBSSVZBVEUgS0VZ"
    r"|BFTkNSWVBURUQgUFJJVkFURSBLRV)[A-Za-z0-9+/=]{20,16384}",
    r"rubygems_[0-9a-f]{48}|CLOJARS_[0-9a-z]{60}|dckr_(?:pat|oat)_[\w-]{27,40}|AGE-SECRET-KEY-1[0-9A-Z]{58}|phx_[A-Za-z0-9]{40,60}",
    r"[\w~.-]{3}\dQ~[\w~.-]{31,34}(?![\w~.-])|EAACEdEose0cBA[A-Za-z0-9]{20,300}|ops_eyJ[\w=-]{200,2000}|A3-[A-Z0-9]{6}-[A-Z0-9-]{20,40}",
    # Ours: tokens of agents, ids of tasks (whoever knows one may go on with the task), handles of parked calls.
    r"ta_[\w-]{43}(?![\w-])|t(?:\d|[A-Za-z0-9.]{0,64}[\d-])[A-Za-z0-9.-]{0,64}_[0-9a-f]{24}(?![0-9A-Za-z])|toolatlas\.parked\.[\w-]{32}",
)
# After an escaped line break, or an escape of a URL, a letter or digit stands before what begins there.
_BOUNDARY = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbf])|(?<=%[0-9A-Fa-f]{2}))"
_BEFORE = re.compile(_BOUNDARY)
_FORMAT = re.compile(_BOUNDARY + "(?:" + "|".join(f"(?:{each})" for each in _FORMATS) + ")")
_JWT = re.compile(_BOUNDARY + r"eyJ[\w-]{8,16384}\.[\w-]{4,16384}\.[\w-]{0,2048}(?:\.[\w-]{0,16384}\.[\w-]{0,2048})?")
_WEBHOOK = re.compile(
    r"(?<=hooks\.slack\.com/services/)[\w/-]{20,100}|(?<=discord\.com/api/webhooks/)[\d]{5,25}/[\w-]{20,100}"
    r"|(?<=discordapp\.com/api/webhooks/)[\d]{5,25}/[\w-]{20,100}|(?<=api\.telegram\.org/bot)\d{5,12}:[\w-]{30,50}"
)
# A look before the first character would be slower.
_LONG = re.compile(r"[^\s\"'<>(){}\[\],;|`\\]{16,}")
_SCHEME = re.compile(r"(?i)(?<![A-Za-z0-9])(bearer|basic)(?:[ \t]{1,4}|%20|\+)([A-Za-z0-9_.~+/-]{8,8192}={0,2})")
_USERINFO = re.compile(r"://([^\s/@:\"'<>\\\[\]]{0,256}):([^\s/@\"'<>\\]{1,512}|[^\s@\"'<>\\]{1,512})@(?=[\w\[])")
_TOKEN_USER = re.compile(r"(?<=https://)([A-Za-z0-9_-]{20,256})(?=@[\w.-]{3,253})")
_EMAIL = re.compile(
    r"(?<![A-Za-zÀ-ɏ0-9._%+-])(?!git@)[A-Za-zÀ-ɏ0-9_][A-Za-zÀ-ɏ0-9._%+'-]{0,63}(?:@|%40)"
    r"(?:[A-Za-zÀ-ɏ0-9](?:[A-Za-zÀ-ɏ0-9-]{0,62})\.){1,8}"
    r"(?!(?:png|jpe?g|gif|svg|webp|avif|js|mjs|css|ts|py|json|service)\b)[A-Za-z]{2,24}"
    r"(?![A-Za-z0-9_-])"
)
# A digit first and the look before it after that, which makes the search fast.
_CARD = re.compile(
    r"[0-9](?<![\w.,+/-][0-9])[0-9]{3}"
    r"(?:([ -]?)[0-9]{4}\1[0-9]{4}\1[0-9]{4}(?:\1?[0-9]{3})?|([ -]?)[0-9]{6}\2[0-9]{4,5})(?![\w-]|[.,][0-9])"
)
_BRAND = re.compile(
    r"4\d{15}|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}|3[47]\d{13}|3(?:0[0-5]|[68]\d)\d{11}"
    r"|6(?:011|5\d\d|4[4-9]\d)\d{12}|35(?:2[89]|[3-8]\d)\d{12}|62\d{14,17}"
)
_CURL_USER = re.compile(
    r"(?<![\w-])(?:-u|--user|--proxy-user)(?:[ =]{1,2})(\\?[\"']?)([^\s\"':\\]{1,128}):([^\s\"'\\]{1,256})"
)
_AUTH_PAIR = re.compile(
    r"(?<![A-Za-z])(?:auth|basic_?auth|credentials|HTTPBasicAuth)\s{0,2}[=:]?\s{0,2}[\[(]\s{0,2}"
    r"\\?([\"'])([^\"'\\]{0,128})\\?\1\s{0,2},\s{0,2}\\?([\"'])([^\"'\\]{1,256})\\?\3",
    re.IGNORECASE,
)

_Refused = cast(type[Exception], re2.error)  # pyright: ignore[reportUnknownMemberType]
SHORTEST = 13
"""Characters of the shortest secret that shows by its form alone, addresses left out."""
PIECE = 2_000
"""Characters within which an owner's pattern has to match: bounds what a pattern can cost on text made against it."""


def by_form(text: str) -> Iterator[Found]:
    """What shows by its form, the surest first; pieces may overlap."""
    if "PRIVATE KEY" in text:
        yield from private_keys(text)
    if "://" in text:
        yield from _in_urls(text)
    lower = text.lower()
    if "bearer" in lower or "basic" in lower:
        yield from _schemes(text)
    if "auth" in lower or "credentials" in lower or "-u" in lower:
        yield from _pairs(text)
    if "@" in text or "%40" in text:
        for match in _EMAIL.finditer(text):
            yield Found(match.start(), match.end(), "email", match[0].replace("%40", "@"))
    if len(text) >= SHORTEST:
        yield from _long(text)


def _long(text: str) -> Iterator[Found]:
    """Keys and card numbers."""
    for word in _LONG.finditer(text):
        start, end = word.span()
        for pattern in (_JWT, _FORMAT):
            for match in pattern.finditer(text, start, end):
                yield Found(match.start(), match.end(), "key", match[0])
    for match in _CARD.finditer(text):
        digits = re.sub(r"\D", "", match[0])
        if is_card(digits):
            yield Found(match.start(), match.end(), "card", digits)


def _pairs(text: str) -> Iterator[Found]:
    """Passwords after a user's name: in code, and as curl takes them."""
    for pattern, group in ((_AUTH_PAIR, 4), (_CURL_USER, 3)):
        for match in pattern.finditer(text):
            yield Found(match.start(group), match.end(group), "secret", match[group], (match[group],))


def begins_word(text: str, at: int) -> bool:
    """Whether no word goes on at this place: what stands before may also be an escape."""
    return at == 0 or _BEFORE.match(text, at) is not None


def long_words(text: str) -> Iterator[re.Match[str]]:
    """Pieces without space and quotes that could hold a secret in another encoding."""
    return _LONG.finditer(text)


def is_card(digits: str) -> bool:
    """Whether these digits are the number of a payment card: a brand's first digits and length, and the check digit."""
    if not _BRAND.fullmatch(digits):
        return False
    total = 0
    for place, digit in enumerate(reversed(digits)):
        number = int(digit) * (1 + place % 2)
        total += number - 9 if number > 9 else number
    return total % 10 == 0


def decoded(word: str) -> str | None:
    """The text that `word` holds in base64, of either alphabet; None where it holds none."""
    plain = word.rstrip("=").replace("-", "+").replace("_", "/")
    if not 8 <= len(plain) <= 8_192 or len(plain) % 4 == 1:
        return None
    try:
        text = base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    return text if text.isprintable() else None


def _in_urls(text: str) -> Iterator[Found]:
    for match in _USERINFO.finditer(text):
        if not is_secret(match[2], Naming.SECRET):
            continue
        yield Found(match.start(2), match.end(2), "secret", match[2], (match[2],))
    for match in _TOKEN_USER.finditer(text):
        yield Found(match.start(), match.end(), "secret", match[0], (match[0],))
    for match in _WEBHOOK.finditer(text):
        yield Found(match.start(), match.end(), "key", match[0])


def _schemes(text: str) -> Iterator[Found]:
    for match in _SCHEME.finditer(text):
        credential = match[2]
        if match[1].lower() == "basic":
            pair = decoded(credential)
            if pair is not None and ":" in pair:
                password = pair.partition(":")[2]
                yield Found(match.start(2), match.end(2), "secret", pair, (password,))
            continue
        if not is_wordy(credential) and (any(c.isdigit() for c in credential) or len(credential) >= 24):
            yield Found(match.start(2), match.end(2), "secret", credential, (credential,))


class _Match(Protocol):
    def span(self) -> tuple[int, int]: ...


class _Pattern(Protocol):
    def finditer(self, text: str) -> Iterator[_Match]: ...


class OwnPatterns:
    """What the gateway's owner wants redacted besides: regular expressions in RE2's syntax, each matching within one
    line and within `PIECE` characters of it."""

    def __init__(self, patterns: Sequence[str]) -> None:
        """Raises `ConfigurationError` for one that cannot be used."""
        options: Any = re2.Options()  # pyright: ignore[reportUnknownMemberType]
        options.log_errors = False
        self._patterns: list[_Pattern] = []
        for pattern in patterns:
            try:
                compiled = cast(_Pattern, re2.compile(pattern, options))  # pyright: ignore[reportUnknownMemberType]
                empty = next(compiled.finditer(""), None) is not None
            except (_Refused, TypeError, UnicodeError) as error:
                raise ConfigurationError(
                    f"The redaction pattern {pattern!r} cannot be used: {_reason(error)}. It has to be a regular "
                    "expression in RE2's syntax, which has no look-around and no back-references."
                ) from None
            if empty:
                raise ConfigurationError(f"The redaction pattern {pattern!r} matches nothing at all, hence everywhere.")
            self._patterns.append(compiled)

    def find(self, text: str) -> Iterator[Found]:
        if not self._patterns:
            return
        kept = [match.span() for match in PLACEHOLDER.finditer(text)]
        for start, end in _pieces(text):
            # RE2 takes UTF-8 only; the stand-in is as long, so that places stay.
            piece = re.sub("[\ud800-\udfff]", "\ufffd", text[start:end])
            for pattern in self._patterns:
                for match in pattern.finditer(piece):
                    first, last = match.span()
                    for a, b in _without(start + first, start + last, kept):
                        yield Found(a, b, "custom", text[a:b])


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    while start < len(text):
        end = text.find("\n", start, start + PIECE)
        if end < 0:
            end = min(len(text), start + PIECE)
            space = text.rfind(" ", start, end) if end < len(text) else -1
            end = space + 1 if space > start else end
        else:
            end += 1
        yield start, end
        start = end


def _without(start: int, end: int, kept: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The parts of a piece outside placeholders, so that no pattern eats those."""
    for first, last in kept[max(0, bisect_left(kept, (start, start)) - 1) : bisect_left(kept, (end, end))]:
        if first > start:
            yield start, first
        start = max(start, last)
    if start < end:
        yield start, end


def _reason(error: Exception) -> str:
    said = error.args[0] if error.args else error
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
