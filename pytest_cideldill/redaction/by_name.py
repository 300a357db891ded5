"""What is a secret by its name: the names of things, and the values that texts give to them.

Pure tables and patterns; runs on any thread. What becomes of a secret is `redactor.py`'s business.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterator
from itertools import accumulate
from itertools import pairwise
from types import MappingProxyType
from typing import Final

from pytest_cideldill.patterns import later
from pytest_cideldill.redaction.by_shape import Secret

_KEYS: Final = (
    "access account aes api auth consumer decryption deploy encryption hmac master private secret "
    "session shared signing ssh storage subscription webhook"
)
_TOKENS: Final = (
    "access api auth bearer csrf id oauth personal refresh secret security session xsrf"
)

_NAMES: Final = MappingProxyType(
    {
        word: label
        for label, words in {
            "password": "password passwd pwd passphrase passcode userpass dbpass smtppass rootpass "
            "adminpass",
            "secret": "secret",
            "token": f"token jwt {' '.join(f'{each}tokens' for each in _TOKENS.split())}",
            "key": " ".join(f"{each}key {each}keys" for each in _KEYS.split()),
            "auth": "authorization basicauth httpauth proxyauth authheader authheaders",
            "cookie": "cookie cookiejar",
            "credential": "credential cred",
            "session": "sessionid sessid phpsessid jsessionid",
        }.items()
        for plain in words.split()
        # A list of tokens is what a parser or a language model works on.
        for word in ((plain,) if label in ("token", "key") else (plain, f"{plain}s"))
    }
)
"""Words, and pairs of words written as one, to labels."""

_ENDINGS: Final = later(
    r"(?:(?P<password>password|passwd|pwd|passphrase)s?|(?P<secret>secret)s?|(?P<token>token)"
    r"|(?P<key>apikey)s?)\Z"
)
"""Of words that were joined: `dbpassword`, `clientsecret`, `authtoken`."""

_ABOUT_WORDS: Final = (
    "age at attempts callback class cls cost count counts dir directory disabled enabled end "
    "endpoint expiration expired expires expiry factory field fields file filename files folder "
    "format func function handler hint idx ids in index kind label len length limit manager max "
    "min name names num number param params parser path paths pattern policy position pos prompt "
    "provider regex required rules scope scopes service size start store strength ttl type types "
    "uri uris url urls usage valid validator validators version"
)
_ABOUT: Final = frozenset(_ABOUT_WORDS.split())
"""Last words of names that tell something about a secret: `token_count`, `password_field`."""

_COUNTING: Final = frozenset({"has", "is", "max", "min", "n", "num", "number", "total", "use"})
"""First words of such names: `max_token`, `has_password`."""

_WORD: Final = re.compile(r"[A-Z]+(?![^\W\d_A-Z])|[A-Z]?[^\W\d_A-Z]+|[0-9]+")
"""Letters beyond ASCII count as lower-case ones."""

_MAX_NAME: Final = 200


def words_of(name: str) -> list[str]:
    """The lower-case words of a snake_case, camelCase, kebab-case or dotted name."""
    return [word.lower() for word in _WORD.findall(name[:_MAX_NAME])]


def spelled(name: str) -> str:
    """What all spellings of a name share: `taxnumber` for `tax_number`, `TaxNumber`, `TAX-NUMBER`.

    Raises:
        ValueError: There is no letter or digit in it.
    """
    if not (words := words_of(name)):
        raise ValueError(f"{name!r} is no name: it has no letter and no digit")
    return "".join(words)


def label_of_name(name: str, extra: Collection[str] = ()) -> str | None:
    """What kind of secret a thing of this name is; None if it is none.

    Args:
        name: Of a variable, an attribute, a key, a header, an environment variable.
        extra: Further names, `spelled`; also parts of longer names.
    """
    words = words_of(name)
    if not words:
        return None
    if extra and any(run in extra for at in range(len(words)) for run in accumulate(words[at:])):
        return "name"
    if words == ["auth"]:
        return "auth"
    if words[-1] in _ABOUT or words[0] in _COUNTING:
        return None
    pairs = [a + b for a, b in pairwise(words)]
    for word in (*words, *pairs):
        if word in _NAMES:
            return _NAMES[word]
    return next((label for word in words if (label := _label_by_ending(word))), None)


def is_row_number(value: str) -> bool:
    """Whether the id of a session is one of a table, which nobody can enter with: a short number.

    Those of web servers have more digits, or letters.
    """
    return len(value) < 10 and value.isascii() and value.isdecimal()


def _label_by_ending(word: str) -> str | None:
    found = _ENDINGS().search(word)
    return found.lastgroup if found else None


_STEMS: Final = "pass|pwd|secret|token|auth|cook|cred|key|sess|jwt"

_NAMED: Final = later(
    r"(?<![\w.-])(?P<option>--)?(?P<name>[\w.-]++)"
    r"(?:(?:\\{0,3}[\"'])?\]?[ \t]{0,8}(?:[=!:]?=|=>|:)[ \t]{0,8}|(?(option) |(?!)))"
)
"""A name and what stands between it and its value: `token=`, `"token": `, `--token `."""

_QUOTED: Final = later(
    r"[bBrRuUfF]{0,2}(?P<quote>\"\"\"|'''|\\{0,3}[\"'])"
    r"(?P<value>(?:[^\\\"'\n]++|(?!(?P=quote))(?:\\.|[^\n]))*+)"
)
_BARE: Final = later(r"(?P<value>(?:[^\s,;&\"'<>]++|,(?![\s\"'{\[]|[\w.-]*[=:]|\Z))++)")
_HEADER: Final = later(r"(?P<value>[^\r\n\"'\\]+)")
_SCHEME: Final = later(r"(?:Bearer|Basic|Digest|Token|Negotiate|ApiKey)[ \t]+", re.IGNORECASE)

_NO_SECRET: Final = later(
    r"""(?ix) (?: none | null | nil | true | false | undefined | 0 | \*+ | \.+ | … | [-\]})(\[{]+
    | (?:str|int|bytes|bool|float|any|optional|union|list|dict|tuple|secretstr)(?:\[[\w\[\]|.]*)?
    | %[sdr] | \{[\w.!:]*\} | \$\{\w+\} | <redacted:[^<>#]*\#[0-9a-f]+> )"""
)
"""Values that are nothing, types, placeholders."""

_CALL: Final = later(r"(?:[A-Za-z_]\w*\.)*(?!get)[A-Za-z_]\w*\((?=[bBrRuUfF]{0,2}[\"'])")
"""`SecretStr('…')`, as `repr` shows values that are secret; but not `environ.get('…')`."""

_CODE: Final = later(
    r"(?:[A-Za-z_]+\.)*[A-Za-z_]+[(\[].*"
    r"|(?:self|cls|os|args|config|settings|request|response|data)(?:\.[A-Za-z_]\w*)+"
)
_PROSE: Final = later(
    r"(?:a|an|and|are|at|by|can|cannot|could|does|expected|expired|for|from|has|in|incorrect"
    r"|invalid|is|missing|must|no|not|of|on|or|rejected|required|should|that|the|to|too|was|will"
    r"|with|wrong)(?= )"
)
"""How a sentence goes on after `Invalid password:`."""


class NamedSecrets:
    """Finds the values that a text gives to sensitive names.

    Args:
        label_of: The label of a sensitive name, None for any other.
        extra: The names that only `label_of` knows, `spelled`.
    """

    __slots__ = ("_extra", "_label_of", "_stem")

    def __init__(self, label_of: Callable[[str], str | None], extra: Collection[str]) -> None:
        self._label_of = label_of
        self._extra = extra
        spaced = ("[ _.-]*+".join(map(re.escape, name)) for name in extra)
        self._stem = re.compile("|".join((_STEMS, *spaced)))

    def may_be_in(self, text: str, lowered: str) -> bool:
        """Whether it is worth looking; quick. The lower-case text is searched five times as fast as
        the text is when the case is ignored.
        """
        if "=" in text or ":" in text or "--" in text:
            return self._stem.search(lowered) is not None
        return False

    def find(self, text: str, *, is_source: bool = False) -> Iterator[Secret]:
        """The values, without their quotes.

        Args:
            text: Any text.
            is_source: Whether it is Python source: only literals are values then.
        """
        if not self.may_be_in(text, text.lower()):
            return
        behind = 0
        for found in _NAMED().finditer(text):
            if found.start() < behind:
                continue  # inside of the last secret
            label = self._label(text, found)
            if label is not None and (span := _value(text, found, label, is_source)):
                behind = span[1]
                yield *span, label

    def _label(self, text: str, found: re.Match[str]) -> str | None:
        name, start = found["name"], found.start()
        is_likely = self._stem.search(name.lower()) is not None
        label = self._label_of(name) if is_likely else None
        if label is None and (is_likely or self._extra) and text.endswith(" ", 0, start):
            # "API key: …": words before belong to the name.
            words = words_of(text[max(start - 60, 0) : start] + name)
            phrases = ["".join(words[at:]) for at in range(len(words))]
            label = _NAMES.get("".join(words[-2:])) if is_likely else None
            label = "name" if any(each in self._extra for each in phrases) else label
        return label


def _value(text: str, found: re.Match[str], label: str, is_source: bool) -> tuple[int, int] | None:
    """Where the value of a name is; None if it is none, or no secret."""
    at = found.end()
    call = _CALL().match(text, at)
    value = _QUOTED().match(text, call.end() if call else at)
    if value is None:
        return None if is_source else _bare_value(text, found, label)
    start, end = value.span("value")
    scheme = _SCHEME().match(text, start, end)
    start = scheme.end() if scheme else start
    return None if _NO_SECRET().fullmatch(text, start, end) or start == end else (start, end)


def _bare_value(text: str, found: re.Match[str], label: str) -> tuple[int, int] | None:
    """Where a value without quotes is."""
    at = found.end()
    colon = found[0].rstrip().endswith(":")
    scheme = _SCHEME().match(text, at)
    is_header = colon and label in ("auth", "cookie")
    value = (_HEADER if is_header else _BARE)().match(text, scheme.end() if scheme else at)
    told = value["value"].rstrip(")]} \t") if value else ""
    if value is None or not told or _NO_SECRET().fullmatch(told):
        return None
    if label == "session" and is_row_number(told):
        return None
    if told == found["name"].rpartition(".")[2] or _CODE().fullmatch(value["value"]):
        return None
    if colon and _PROSE().match(text, at):
        return None
    return value.start(), value.start() + len(told)
