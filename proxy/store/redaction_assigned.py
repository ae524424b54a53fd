"""Secrets that show by the name before them in a text: `password=…`, `"api_key": "…"`, `--token …`, a header, code.

Above: redaction.py. Below: redaction_names.py, redaction_pieces.py. The text may be of any language, and quoted any
number of times: JSON within JSON writes `\\"password\\": \\"…\\"`. Each name is looked at once, and what was taken as
its value not again, so that the work is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from proxy.store.redaction_names import PLACEHOLDER, Naming, is_common, is_secret, is_wordy, naming
from proxy.store.redaction_patterns import decoded
from proxy.store.redaction_pieces import Found

# What names of secrets contain. The short ones are parts of many words and have to begin a name or a part of one.
_SHORT = ("pin", "otp", "totp", "cvv", "cvc", "sig", "code", "dsn", "seed", "pass", "sess")
_STEMS = (
    *(
        "passw",
        "pwd",
        "passphrase",
        "passcode",
        "secret",
        "token",
        "key",
        "auth",
        "cookie",
        "credential",
        "jwt",
        "bearer",
    ),
    *("mnemonic", "kennwort", "contrase", "senha", "пароль", "密码", "密碼", "sessid", "session", "license", "salt"),
)
# Names that are written as two words.
_WORDS = tuple(
    f"{word} key" for word in ("api", "access", "private", "secret", "auth", "license", "encryption", "signing")
)
# On lower case: a stem, and what follows it up to where a value may begin. With nothing before the letters the search
# is fast.
_STEM = re.compile(
    f"(?:{'|'.join((*_WORDS, *_STEMS, *_SHORT))})" + r"[\w-]{0,48}+"
    r"(?=[\"'`\\\])]|[ \t]{0,16}[:=!>]|[ \t]{1,4}(?:is|was|are|-|–)[ \t]|[ \t]{1,2}[\"'`\\])"
)
_OPTION = re.compile(r"-(?<![\w-]-)-?([A-Za-z][\w-]{1,48})[ \t]{1,4}(?=[^\s-])")
# In a sentence, without anything between: the password, and that it looks like one.
_TOLD = re.compile(
    r"(?<![\w-])(?:password|passwort|passphrase|passcode|kennwort|contraseña|senha)[ \t]{1,2}"
    r"([^\s\"'`,;:=<>(){}\[\]\\/|$%.-][^\s\"'`,;=<>(){}\[\]\\/|]{5,127})",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"[A-Za-z]+[-_.]?\d{1,2}|v?[\d.]+|[\w-]+\.[a-z]{1,4}")
LONG = 256
"""Characters of an unquoted value, from where on it is looked at once only."""
_PART = re.compile(r"[\w-]{0,48}")
_LEFT = 48
_QUOTE = r"\\*[\"'`]"
_JOIN = re.compile(
    rf"(?P<close>(?:{_QUOTE})?)(?:"
    # {"name": "API_KEY", "value": "…"}
    rf"(?P<labelled>\s{{0,20}},\s{{0,40}}{_QUOTE}(?:value|val|data)\"?\\*[\"'`]?\s{{0,8}}:\s{{0,8}})"
    # headers.set("Authorization", "…")
    rf"|(?P<pair>\s{{0,4}},\s{{0,4}}(?={_QUOTE}))"
    # password: str = "…"
    r"|(?P<typed>[ \t]{0,4}:[ \t]{0,4}[A-Za-z_][\w\[\] |.]{0,60}?[ \t]{1,4}=(?!=)[ \t]{1,8})"
    r"|(?P<sep>[\])]{0,2}[ \t]{0,16}(?::=|={1,3}>?|!==?|:(?!:))[ \t]{0,16}"
    # As YAML writes a text on lines of its own.
    r"(?:[|>][+-]?(?:\r?\n|\\+n)[ \t]{1,40})?)"
    r"|(?P<tag>>)(?=[^<\s\"'`\\])"
    r"|(?P<prose>[ \t]{1,4}(?:is|was|are|-|–)[ \t]{1,4})"
    # with the password 'hunter2'
    rf"|(?P<beside>[ \t]{{1,2}})(?={_QUOTE})"
    r")"
)
_OPEN = re.compile(r"(?:[rbufRBUF@$]{1,2}(?=\"|'))?(?P<quote>\"\"\"|'''|\\*[\"'`])")
_SCHEME = re.compile(
    r"(?:Bearer|Basic|Token|ApiKey|Api-Key|Digest|Negotiate"
    r"|AWS4-HMAC-SHA256|GoogleLogin auth=|SSWS|PRIVATE-TOKEN)[ \t]{1,4}",
    re.IGNORECASE,
)
_BARE = re.compile(r"[^\s\"'`,;&<>(){}\[\]|\\#]+")
_LINE = re.compile(r"[^\s\"'`\\]+")
_HEADER = re.compile(r"[^\r\n\"'`\\]+")
_ELEMENT = re.compile(r"[^<\n]{1,4096}(?=</)")
_COOKIE = re.compile(r"[^=;\s]{1,128}=([^;\s]{6,4096})")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


def by_name(text: str) -> Iterator[Found]:
    """What stands in `text` as the value of a name that names secrets."""
    lower = lowered(text)
    at = 0
    for stem in _STEM.finditer(lower):
        if stem.start() < at or _inside_word(lower, stem.start()):
            continue
        joined = _JOIN.match(text, stem.end())
        start = _start(text, stem.start())
        said = naming(text[start : stem.end()].lstrip("-"))
        if joined is None or said is Naming.NOTHING:
            continue
        found, at = _value(text, start, stem.end(), joined, said)
        if found is not None:
            yield found
    if "pass" in lower or "kennwort" in lower or "contraseña" in lower or "senha" in lower:
        for told in _TOLD.finditer(text):
            word = told[1].rstrip(".:?")
            if not _NUMBERED.fullmatch(word) and any(map(str.isdigit, word)) and any(map(str.isalpha, word)):
                yield Found(told.start(1), told.start(1) + len(word), "secret", word, (word,))
    if "-" in text:
        for option in _OPTION.finditer(text):
            said = naming(option[1])
            found = _of_option(text, option, said) if said is not Naming.NOTHING else None
            if found is not None:
                yield found


def lowered(text: str) -> str:
    """Lower case, with every character at its place."""
    lower = text.lower()
    return lower if len(lower) == len(text) else "".join(c.lower() if c.isascii() else c for c in text)


def _inside_word(lower: str, at: int) -> bool:
    return at > 0 and lower[at - 1].isalpha() and lower.startswith(_SHORT, at) and not lower.startswith(_STEMS, at)


def cookies_of(value: str) -> tuple[str, ...]:
    """The values in a header `Cookie` or `Set-Cookie`."""
    return tuple(_COOKIE.findall(value))


def _start(text: str, at: int) -> int:
    """Where the name begins that goes on at `at`."""
    left = _PART.match(text[max(0, at - _LEFT) : at][::-1])
    start = at - (0 if left is None else left.end())
    # An escaped line break before a name is no part of it.
    return start + 1 if start > 0 and text[start - 1] == "\\" and text[start] in "ntr" and start < at else start


def _value(text: str, start: int, end: int, joined: re.Match[str], said: Naming) -> tuple[Found | None, int]:
    """The value of the name between `start` and `end`, and where to look for the next name."""
    kind = joined.lastgroup
    if (kind in ("pair", "labelled") and not joined["close"]) or (kind == "tag" and not _is_tag(text, start)):
        return None, end
    name, first = text[start:end], joined.end()
    opens = _OPEN.match(text, first)
    found = None
    if opens is not None:
        last, depth = _close(text, opens.end(), opens["quote"])
        if kind not in ("beside", "prose") or _is_word_of_secret(text[opens.end() : last]):
            found = _quoted(text, opens.end(), last, depth, said, sure=kind != "pair", name=name)
    elif kind == "tag":
        element = _ELEMENT.match(text, first)
        if element is not None:
            found = _quoted(text, *element.span(), 0, said, sure=True, name=name)
    elif kind not in ("pair", "beside"):
        last, found = _bare(text, start, end, joined, said)
        if found is None and last - first > (LONG if "://" not in text[first : first + 16] else 16 * LONG):
            return None, last  # A run that names something again and again is not gone over for each.
    return found, end if found is None else found.end


def _of_option(text: str, option: re.Match[str], said: Naming) -> Found | None:
    """The word after an option of a command line."""
    first = option.end()
    opens = _OPEN.match(text, first)
    if opens is not None:
        last, depth = _close(text, opens.end(), opens["quote"])
        return _quoted(text, opens.end(), last, depth, said, sure=True, name=option[1])
    word = _LINE.match(text, first)
    if word is None or not is_secret(word[0], said):
        return None
    return Found(first, word.end(), "secret", word[0], (word[0],))


def _quoted(text: str, first: int, last: int, depth: int, said: Naming, *, sure: bool, name: str) -> Found | None:
    scheme = _SCHEME.match(text, first, last)
    if scheme is not None:
        first = scheme.end()
    value = _unescaped(text[first:last], depth)
    if "cookie" in name.lower() and "=" in value:
        return Found(first, last, "secret", value, cookies_of(value))
    if not is_secret(value, said) or (not sure and is_wordy(value)):
        return None
    return _found(first, last, value, scheme)


def _bare(text: str, start: int, end: int, joined: re.Match[str], said: Naming) -> tuple[int, Found | None]:
    """Where an unquoted value ends, and the value if it is a secret."""
    name, kind, first = text[start:end], joined.lastgroup, joined.end()
    before = text[start - 1] if start else "\n"
    if "cookie" in name.lower() and kind == "sep":
        cookies = _HEADER.match(text, first)
        if cookies is not None and "=" in cookies[0] and not PLACEHOLDER.match(cookies[0]):
            return cookies.end(), Found(first, cookies.end(), "secret", cookies[0], cookies_of(cookies[0]))
    scheme = _SCHEME.match(text, first)
    if scheme is not None:
        first = scheme.end()
    # A variable or option takes all up to the next space; in a URL, in code, and in prose other characters end it.
    whole = joined.group() == "=" and _is_variable(name, before)
    match = (_LINE if whole else _BARE).match(text, first)
    if match is None:
        return end, None
    last = match.end()
    while last > first and text[last - 1] in (".:!?" if not whole else ".,;)"):
        last -= 1
    value = text[first:last]
    if not is_secret(value, said) or is_common(value) or value.lower() == name.lower().lstrip("-"):
        return last, None
    if scheme is not None:
        if is_wordy(value) and len(value) < 20:
            return last, None
    elif said is not Naming.DIGITS and _is_code(text, value, last, kind, joined.group(), before, whole):
        return last, None
    return last, _found(first, last, value, scheme)


def _is_code(text: str, value: str, last: int, kind: str | None, join: str, before: str, whole: bool) -> bool:
    """Whether an unquoted value is an expression, a type, or a word of prose."""
    if kind == "prose" or (kind == "sep" and join.strip() in ("==", "!=", "===", "!==")):
        return not any(c.isdigit() or (not c.isalnum() and c not in "_-.'") for c in value)
    if text.startswith(("(", "[", "."), last):
        return True
    if whole or before in "?&;":
        return False
    if not is_wordy(value):
        return False
    # A line of a settings file: the name, a mark, one word, and nothing else.
    alone = before in "\n \t" and (last == len(text) or text[last] in "\r\n") and value.islower()
    return not alone


def _is_word_of_secret(value: str) -> bool:
    """Whether a piece that was quoted in prose is one word and none of a language."""
    return not any(c.isspace() for c in value) and not is_wordy(value)


def _is_variable(name: str, before: str) -> bool:
    return name.startswith("-") or before == "-" or (name.upper() == name and before not in "?&")


def _is_tag(text: str, start: int) -> bool:
    return text[start - 1 : start] in ("<", ":") if start else False


def _found(first: int, last: int, value: str, scheme: re.Match[str] | None) -> Found:
    if scheme is not None and scheme.group().strip().lower() == "basic":
        pair = decoded(value)
        if pair is not None and ":" in pair:
            return Found(first, last, "secret", pair, (pair.partition(":")[2],))
    return Found(first, last, "secret", value, (value,))


def _close(text: str, first: int, quote: str) -> tuple[int, int]:
    """Where the quoted piece ends, and how often it was escaped: at the same quote after as many backslashes, else
    at the end of the line or of the text, where it was cut."""
    mark = quote[-1]
    slashes = len(quote) - 1
    if len(quote) == 3 and slashes == 2 and quote[0] == mark:
        end = text.find(quote, first)
        return (len(text) if end < 0 else end), 1
    line = text.find("\n", first)
    limit = len(text) if line < 0 else line
    at = first
    while (end := text.find(mark, at, limit)) >= 0:
        run = 0
        while end - run - 1 >= first and text[end - run - 1] == "\\":
            run += 1
        if run == slashes or (run < slashes) or (slashes == 0 and run % 2 == 0):
            return end - min(run, slashes), (slashes + 1).bit_length()
        at = end + 1
    return limit, (slashes + 1).bit_length()


def _unescaped(value: str, times: int) -> str:
    for _ in range(times):
        if "\\" not in value:
            break
        value = _ESCAPE.sub(lambda found: _character(found[1]), value)
    return value


def _character(escaped: str) -> str:
    if len(escaped) == 5:
        return chr(int(escaped[1:], 16))
    return _ESCAPED.get(escaped, escaped)
