"""Where texts give values to names that are those of secrets: `password=…`, `"token": "…"`, pairs.

Any text: messages, reports, output, logs, JSON, lines of code. Linear in its length: each name is
looked at once, each value within a window, and what was found is not looked at again. Pure
patterns; runs on any thread.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterator
from typing import Final

from pytest_cideldill.interpreter.patterns import by_first_letter
from pytest_cideldill.interpreter.patterns import later
from pytest_cideldill.redaction.by_name import MAX_NAME
from pytest_cideldill.redaction.by_name import words_of
from pytest_cideldill.redaction.by_shape import Secret
from pytest_cideldill.redaction.harmless import is_harmless
from pytest_cideldill.redaction.harmless import is_number
from pytest_cideldill.redaction.harmless import is_placeholder
from pytest_cideldill.redaction.harmless import is_random
from pytest_cideldill.redaction.harmless import is_said
from pytest_cideldill.redaction.harmless import is_second
from pytest_cideldill.redaction.harmless import maybe

Span = tuple[int, int]

_STEM_WORDS: Final = (
    "auth bearer contrase cook cred curl identified jwt kennwort key parol pass pwd secret senha "
    "sess signature token парол"
)
_SHORT_WORDS: Final = "dsn otp pin pw sid sig totp"
_STEMS: Final = by_first_letter(
    [
        *_STEM_WORDS.split(),
        *(rf"{each}(?<![a-z]{each})(?![a-z])" for each in _SHORT_WORDS.split()),
    ]
)
"""One of these is in each name of a secret, in lower case."""

_NAME: Final = re.compile(r"[\w.-]*")

_NAMED: Final = later(
    r"(?P<option>--(?=\w))?(?P<name>[\w.-]++)"
    r"(?:(?P<told>[\"']?(?:[\s,]|\\{1,3}[nrt]){1,40}[\"']?(?:[vV]alue|content)[\"']?"
    r"[ \t]{0,4}[=:][ \t]{0,4}"
    r"|[\"'](?:(?:\r?\n){2}|(?:\\{1,3}r)?\\{1,3}n(?:\\{1,3}r)?\\{1,3}n))"
    r"|(?P<quote>\\{0,3}[\"'])?\]?[ \t]{0,8}"
    r"(?:(?P<sign>=>|[=!:+]?=(?!=|~)|:(?!:|//)|%3[dD])[ \t]{0,8}"
    r"|(?P<comma>,)[ \t\n]{0,8}(?=[bBrRuUfF]{0,2}\\{0,3}[\"'])(?(quote)|(?!)))"
    r"|(?P<blank>(?:[ ]BY)?[ \t]{1,4}(?=[\w\"']))"
    r"|(?P<tag>>)(?=[^<\s]))"
)
"""A name and what stands between it and its value: `token=`, `"token": `, `"token", `, `<token>`,
`name="token" value=`, `--token `."""

_NAMING: Final = re.compile(r"(?:name|key|Name|Key)[\"']?[ \t]{0,4}[=:][ \t]{0,4}[\"']?\Z")
_CURL: Final = later(
    r"curl\b[^\n]{0,400}?[ ](?:-u|--user)[ =]?[\"']?[^\s:\"']{1,60}:(?P<value>[^\s\"']+)"
)
_BLOCK: Final = later(
    r"[|>][-+]?[ \t]*(?:\r?\n|\\{1,3}n)[ \t]+(?P<value>[^\n\\]+(?:\n[ \t]+[^\n\\]+)*)"
)

_TYPE: Final = r"[A-Za-z_][\w.]{0,60}(?:\[[^\]\n=]{0,80}\]{1,3})?"
_ANNOTATED: Final = later(
    rf"{_TYPE}(?:[ \t]*\|[ \t]*{_TYPE}){{0,4}}[ \t]+=[ \t]+|(?:str|bytes|Any|object)=(?!=)"
)
"""A type and what follows: `str = `, `str | None = `; but no `sid=` of a header."""

_PREFIX: Final = r"[bBrRuUfF]{0,2}"
_QUOTED: Final = later(
    _PREFIX + r"(?P<quote>\"\"\"|'''|\\{0,3}[\"'])"
    r"(?P<value>(?:[^\\\"'\n]++|(?!(?P=quote))(?:\\.|[^\n]))*+)"
)
_TRIPLE: Final = later(
    _PREFIX + r"(?P<quote>\"\"\"|''')(?P<value>(?:[^\\\"']++|(?!(?P=quote))(?:\\.|.))*+)", re.DOTALL
)
_GLUE: Final = later(r"[ \t]*(?:[ \t]|\+)[ \t]*(?=" + _PREFIX + r"[\"'])")
_FILE: Final = re.compile(
    r"\w.*\.(?:py|pyi|pyc|txt|md|rst|json|ya?ml|toml|cfg|ini|csv|xml|html?|js|ts|log|sh|sql)"
)
"""Names of files, which say nothing of what follows: `test_password.py:25`."""

_BARE: Final = later(r"(?P<value>(?:[^\s,;&\"'<>]++|,(?![\s\"'{\[]|[\w.-]*[=:]|\Z))++)")
_HEADER: Final = later(r"(?P<value>(?:[^\r\n\"'\\]++|(?<==)\"[^\"\r\n\\]*\")++)")
_SCHEME: Final = later(r"(?:Bearer|Basic|Digest|Token|Negotiate|ApiKey)[ \t]+", re.IGNORECASE)
_ELEMENT: Final = later(r"(?P<value>[^<>\n]{1,4096})</")

_CALL: Final = later(
    r"(?:[A-Za-z_]\w{0,60}\.){0,8}(?!get)[A-Za-z_]\w{0,60}\((?=[bBrRuUfF]{0,2}[\"'])"
)
"""`SecretStr('…')`, as `repr` shows values that are secret; but not `environ.get('…')`."""

_OPENED: Final = later(r"[\[({][ \t\n]{0,40}(?=[\[({]|[bBrRuUfF]{0,2}\\{0,3}[\"'])")
_INSIDE: Final = later(r"[\[({]|[\])}]|" + _PREFIX + r"\\{0,3}[\"']|\n[ \t]*\n")
_COLON: Final = later(r"\\{0,3}[\"'][ \t]*:")
_MOST_INSIDE: Final = 600
"""Characters behind an opening bracket in which values are looked for."""

_WINDOW: Final = 200
"""Characters of a value that tell whether it is code."""

_IDENTIFIER: Final = r"[A-Za-z_]+\d{0,3}(?![A-Za-z0-9])"
_CODE: Final = later(
    rf"(?:{_IDENTIFIER}\.)*{_IDENTIFIER}(?:\((?:[\"'*)(\[{{]|-?\d+[,)\].]|lambda\b|{_IDENTIFIER}|\Z)"
    rf"|\[(?:[\"'\])]|-?\d+[\]:]|:|{_IDENTIFIER}|\Z))"
)
"""A call or an item; names have no digits but at their end."""

_ATTRIBUTE: Final = later(rf"(?:{_IDENTIFIER}\.)+{_IDENTIFIER}")

_PROSE: Final = later(
    r"(?:a|an|and|are|at|by|can|cannot|could|does|expected|expired|for|from|has|in|incorrect"
    r"|invalid|is|missing|must|no|not|of|on|or|rejected|required|should|that|the|to|too|was|will"
    r"|with|wrong)(?= )"
)
"""How a sentence goes on after `Invalid password:`."""

_ESCAPES: Final = frozenset("nrtabfv")
_COLORED: Final = re.compile(r"[\d;]{0,12}m")


class NamedSecrets:
    """Finds the values that a text gives to sensitive names.

    Args:
        label_of: The label of a sensitive name, None for any other.
        extra: The names that only `label_of` knows, `spelled`.
    """

    __slots__ = ("_extra", "_folded", "_label_of", "_stem")

    def __init__(self, label_of: Callable[[str], str | None], extra: Collection[str]) -> None:
        self._label_of = label_of
        self._extra = extra
        spaced = ("[ _.-]*+".join(map(re.escape, name)) for name in extra)
        stems = "|".join((_STEMS, *spaced))
        self._stem = re.compile(stems)
        self._folded = re.compile(stems, re.IGNORECASE)

    def may_be_in(self, lowered: str) -> bool:
        """Whether it is worth looking into a text, by its lower case, which is searched five times
        as fast as the text is when the case is ignored.
        """
        return self._stem.search(lowered) is not None

    def find(self, text: str, *, is_source: bool = False) -> Iterator[Secret]:
        """The values, without their quotes.

        Args:
            text: Any text.
            is_source: Whether it is Python source: only literals are values then.
        """
        lowered = text.lower()
        if not self.may_be_in(lowered):
            return
        # Letters whose lower case is longer would shift what is found.
        is_aligned = len(lowered) == len(text)
        stems = self._stem.finditer(lowered) if is_aligned else self._folded.finditer(text)
        seen = behind = 0
        for stem in stems:
            if stem.start() < seen:
                continue  # in the last name, or inside of the last secret
            start = _start_of_name(text, stem.end(), behind)
            found = _NAMED().match(text, start)
            if found is None:
                continue
            seen = found.end("name")
            label = self._label(text, found)
            if label is None or not _is_naming(text, found):
                continue
            for span in _values(text, found, label, is_source):
                seen = behind = max(behind, span[1])
                yield *span, label
        if "curl" in lowered:
            for curl in _CURL().finditer(text):
                if is_random(curl["value"]):
                    yield *curl.span("value"), "password"

    def _label(self, text: str, found: re.Match[str]) -> str | None:
        name, start = found["name"], found.start()
        if found["blank"] and found["blank"].startswith(" BY"):
            return "password" if name.lower() == "identified" else None
        if _FILE.fullmatch(name):
            return None
        label = self._label_of(name)
        if label is None and (shorter := _unescaped(text, found.start("name"), name)):
            label = self._label_of(shorter)
        if label is None and text.endswith(" ", 0, start):
            # "API key: …": words before belong to the name.
            words = words_of(text[max(start - 60, 0) : start] + name)
            label = self._label_of("_".join(words[-2:])) if found["sign"] else None
            if self._extra:
                phrases = ("".join(words[at:]) for at in range(len(words)))
                label = "name" if any(each in self._extra for each in phrases) else label
        return label


def _is_naming(text: str, found: re.Match[str]) -> bool:
    """Whether what stands around a name makes it one: not in `a:secret:b`."""
    start = found.start()
    if found["tag"]:
        return text.endswith("<", 0, start)
    if found["told"]:
        return _NAMING.search(text[max(start - 20, 0) : start]) is not None
    if found["sign"] in ("==", "!=") and found["quote"] and "]" not in found[0]:
        return False  # a literal is compared
    if found["sign"] == ":" and found[0].endswith(":"):
        return not text.endswith((":", "/"), 0, start)
    return True


def _start_of_name(text: str, at: int, behind: int) -> int:
    """Where the name begins that has the end of a stem at `at`; not before `behind`."""
    before = text[max(at - MAX_NAME, behind) : at][::-1]
    found = _NAME.match(before)
    return at - (found.end() if found else 0)


def _unescaped(text: str, start: int, name: str) -> str:
    """A name without what an escape left in front of it: `\\napi_key`, `\\x1b[31mapi_key`."""
    if text.endswith("\\", 0, start) and name[0] in _ESCAPES:
        return name[1:]
    if text.endswith("[", 0, start) and (color := _COLORED.match(name)):
        return name[color.end() :]
    return ""


def _values(text: str, found: re.Match[str], label: str, is_source: bool) -> Iterator[Span]:
    """Where the values of a name are; none if they are none, or no secrets."""
    at, name = found.end(), found["name"]
    if found["tag"]:
        element = _ELEMENT().match(text, at)
        if element and not is_harmless(label, element["value"], name):
            yield element.span("value")
        return
    if found["comma"]:
        yield from _second(text, found, label)
        return
    if found["blank"] and not found["option"]:
        if is_source:
            return
        label = maybe(label)  # `PASSWORD '…'`, but prose as well
    if found["sign"] == ":" and (annotated := _ANNOTATED().match(text, at)):
        at = annotated.end()
        is_source = is_source or not _QUOTED().match(text, at)
    call = _CALL().match(text, at, at + 600)
    at = call.end() if call else at
    if _QUOTED().match(text, at):
        yield from _literals(text, at, label, name)
    elif _OPENED().match(text, at):
        yield from _inside(text, at, label, name)
    elif not is_source and not call and (span := _bare_value(text, found, label)):
        yield span


def _second(text: str, found: re.Match[str], label: str) -> Iterator[Span]:
    """What follows a quoted name behind a comma: the second of a pair, the next argument."""
    opening, quote = found.start() - len(found["quote"]), found["quote"]
    if text[max(opening, 0) : found.start()] != quote:
        return  # the end of a longer text
    value = _QUOTED().match(text, found.end())
    if value is None or value["value"].startswith("-"):
        return
    if _COLON().match(text, value.end()):
        return  # a key of what follows
    # A list of names has words in it.
    if found["option"] or is_second(value["value"], 2):
        yield from _literals(text, found.end(), label, found["name"])


def _literals(text: str, at: int, label: str, name: str) -> Iterator[Span]:
    """A literal, and those that are joined to it."""
    while True:
        value = _TRIPLE().match(text, at) or _QUOTED().match(text, at)
        if value is None:
            return
        start, end = value.span("value")
        scheme = _SCHEME().match(text, start, end)
        start = scheme.end() if scheme else start
        told = text[start:end]
        if told and not (is_placeholder(told) if scheme else is_harmless(label, told, name)):
            yield start, end
        closing = end + len(value["quote"])
        glue = _GLUE().match(text, closing)
        if glue is None:
            return
        at = glue.end()


def _inside(text: str, at: int, label: str, name: str) -> Iterator[Span]:
    """The literals in brackets; keys are none."""
    depth, end = 0, at + _MOST_INSIDE
    while at < end and (mark := _INSIDE().search(text, at, end)):
        char = text[mark.end() - 1]
        if char in "[({":
            depth += 1
        elif char in "])}":
            depth -= 1
        elif char in "\"'":
            value = _QUOTED().match(text, mark.start())
            if value is None:
                return
            at = value.end() + len(value["quote"])
            if not _COLON().match(text, value.end()) and not is_harmless(
                label, value["value"], name
            ):
                yield value.span("value")
            continue
        if depth <= 0 or char.isspace():
            return
        at = mark.end()


def _is_code(text: str) -> bool:
    if is_random(text):
        return False
    return bool(_CODE().match(text) or _ATTRIBUTE().fullmatch(text.rstrip(")]}:")))


def _bare_value(text: str, found: re.Match[str], label: str) -> Span | None:
    """Where a value without quotes is."""
    at, name = found.end(), found["name"]
    is_colon = found["sign"] == ":"
    if is_colon and (block := _BLOCK().match(text, at)):
        return block.span("value")
    if is_colon and _PROSE().match(text, at):
        return None
    scheme = _SCHEME().match(text, at)
    start = scheme.end() if scheme else at
    is_header = is_colon and not found["quote"] and label in ("auth", "cookie")
    pattern = (_HEADER if is_header else _BARE)()
    value = pattern.match(text, start, start + _WINDOW)
    if value is None or value["value"].startswith("<"):
        return None
    told = value["value"].rstrip(")]} \t\\")
    plain = told.rstrip(")]}.,:!")
    if not plain or plain == name.rpartition(".")[2] or is_number(plain, label):
        return None
    if not scheme and (_is_code(value["value"]) or (found["option"] and plain.isupper())):
        return None
    if is_harmless(label, plain, name):
        return None
    if is_colon and is_said(text[at : at + _WINDOW].partition("\n")[0].strip()):
        return None
    if value.end() == start + _WINDOW and (value := pattern.match(text, start)):
        told = value["value"].rstrip(")]} \t")
    return start, start + len(told)
