"""Finds the values of secrets' names in texts: `password=…`, `"token": "…"`, pairs.

Texts may be messages, reports, output, logs, JSON, lines of code. The search is linear in their
length: each name is looked at once, each value within a window, and a secret that was match is not
searched again. Pure patterns; runs on any thread.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import Final

from pytest_cideldill.interpreter.patterns import by_first_letter, later
from pytest_cideldill.redaction.by_name import MAX_NAME, words_of
from pytest_cideldill.redaction.by_shape import Secret
from pytest_cideldill.redaction.harmless import (
    is_harmless,
    is_name,
    is_number,
    is_placeholder,
    is_random,
    is_said,
    is_second,
    maybe,
)

Span = tuple[int, int]

_STEM_WORDS: Final = (
    "auth bearer contrase cook cred curl identified jwt kennwort key parol pass pwd secret "
    "senha sess signature token парол csrf psk bindpw rootpw wachtwoord hasło heslo lösenord "
    "parola 密码 密碼 パスワード 비밀번호"
)
_CODE_WORDS: Final = "access backup recovery security unlock verification"
_SHORT_WORDS: Final = "dsn otp pin pw sid sig totp"
_STEMS: Final = by_first_letter(
    [
        *_STEM_WORDS.split(),
        *(f"{each}[ _-]?code" for each in _CODE_WORDS.split()),
        *(rf"{each}(?<![a-z]{each})(?![a-z])" for each in _SHORT_WORDS.split()),
    ]
)
"""Each name of a secret has one of these in it, in lower case."""

_NAME: Final = re.compile(r"[\w.-]*")

_COLOR: Final = r"(?:(?:\x1b|\\{1,3}x1b|\\{1,3}u001b|\\{1,3}033)\[[\d;]{0,12}m)"
"""Matches codes that color a text, as they are or escaped."""

_BACKSLASHES: Final = r"\\{0,7}"  # of quotes in texts within texts
_ENTITY: Final = r"(?:&quot;|&\#(?:34|39|x27);|%2[27])"
_LITERAL: Final = rf"(?=[bBrRuUfF]{{0,2}}{_BACKSLASHES}[\"'])"
_NAMED: Final = later(
    rf"""(?x)
    (?P<option> --(?=\w))? (?P<name> [\w.-]++) {_COLOR}? (?:\[[\w"']{{1,24}}\](?=[ ]?=))?
    (?:
      (?P<pair>                 # name="token" … value="…", <meta name="token" content="…">
        (?:{_BACKSLASHES}["'])? (?:[ ]\w{{1,20}}={_BACKSLASHES}["'][^"'<>\n]{{0,40}}["']){{0,3}}
        (?:[\s,]|\\{{1,3}}[nrt]){{1,40}}
        (?:{_BACKSLASHES}["'])? (?:[vV]alue|content) (?:{_BACKSLASHES}["'])?
        [ \t]{{0,4}} [=:] [ \t]{{0,4}}
      | {_BACKSLASHES}["'] (?:[ ][^<>\n]{{0,80}})? > (?=[^<\s])      # <x name="token">…
      | ["'] (?:(?:\r?\n){{2}} | (?:\\{{1,3}}r)?\\{{1,3}}n(?:\\{{1,3}}r)?\\{{1,3}}n) )  # multipart
    | (?P<quote> {_BACKSLASHES}["'`] | {_ENTITY})? \]? [ \t]{{0,8}}
      (?:
        (?:[ ](?:is|was))?      # token=…, "token": …, token => …, token is: …
        (?P<sign> [=-]> | → | [=!:+?]?=(?!=|~) | :(?!:|//) | ： | %3[aAdD]) [ \t]{{0,8}}
        (?: {_COLOR} | \*\*[ \t] | (?:%20)?{_ENTITY} | %20
          | \n[ \t]{{0,40}}(?=[bBrRuUfF]{{0,2}}["']) )?
      | (?P<opened> \() (?:[a-z_]{{1,30}}=)? {_LITERAL}               # set_token("…")
      | (?P<comma> ,) [ \t\n]{{0,8}} {_LITERAL} (?(quote)|(?!))      # ("token", "…")
      )
    | (?P<tag> (?:[ ][\w:.-]{{1,40}}=[^<>\n]{{0,200}})? > (?:<!\[CDATA\[)?) (?=[^<\s])  # <token>…
    | (?P<blank>                # --token …, PASSWORD '…', IDENTIFIED BY '…'
        (?:(?:[ ]WITH[ ]\w{{1,40}})?[ ]BY | [ ](?:is|was))? [ \t]{{1,4}} (?={_BACKSLASHES}[\w"']))
    )"""
)
"""Matches the end of a name up to its value: `token=`, `"token": `, `"token", `, `<token>`,
`name="token" value=`, `--token `."""

_EXPLAINED: Final = later(
    r"where (?P<quote>[\"'])(?P<value>[^\"'\\\n]{4,400})(?P=quote) = [^\n]{0,400}?"
    r"(?P<name>\w{1,200})(?:\([^\n]{0,400}\))?$",
    re.MULTILINE,
)
"""Matches a line in which pytest explains a comparison: `where '…' = <Client>.password`."""

_PLAIN: Final = re.compile(r"[a-z]+(?=[.,;)]?(?:\s|\Z))")
"""Matches a word of prose."""

_BEFORE_TAG: Final = re.compile(r"<(?:\w{1,16}:)?\Z")
_NAMING: Final = re.compile(
    r"(?:[nN]ame|[kK]ey)(?:\\{0,7}[\"'])?[ \t]{0,4}[=:][ \t]{0,4}(?:\\{0,7}[\"'])?\Z"
)
_CURL: Final = later(
    r"[ ](?:-[a-zA-Z]{0,8}u|--(?:proxy-)?user)[ =]?[\"']?[^\s:\"']{1,60}:(?P<value>[^\s\"']+)"
)
_MOST_BEFORE: Final = 400
"""Characters between `curl` and its option."""

_BLOCK: Final = later(
    r"[|>][-+]?\d?[ \t]*(?:\r?\n|\\{1,3}n)[ \t]+(?P<value>[^\n\\]+(?:\n[ \t]+[^\n\\]+)*)"
)

_TYPE: Final = r"[A-Za-z_][\w.]{0,60}(?:\[[^\]\n=]{0,80}\]{1,3})?"
_ANNOTATED: Final = later(
    rf"{_TYPE}(?:[ \t]*\|[ \t]*{_TYPE}){{0,4}}[ \t]+=[ \t]+|(?:str|bytes|Any|object)=(?!=)"
)
"""Matches a type before a value: `str = `, `str | None = `; but not `sid=` of a header."""

_PREFIX: Final = r"[bBrRuUfFN]{0,2}"
_QUOTED: Final = later(
    _PREFIX + r"(?P<quote>\"\"\"|'''|\\{0,7}[\"'])"
    r"(?P<value>(?:[^\\\"'\n]++|(?!(?P=quote))(?:\\.|[^\n]))*+)"
)
_TRIPLE: Final = later(
    _PREFIX + r"(?P<quote>\"\"\"|''')(?P<value>(?:[^\\\"']++|(?!(?P=quote))(?:\\.|.))*+)", re.DOTALL
)
_GLUE: Final = later(r"[ \t]*(?:[ \t]|\+|\r?\n)[ \t]{0,200}(?=" + _PREFIX + r"[\"'])")
_FILE: Final = re.compile(
    r"\w.*\.(?:py|pyi|pyc|txt|md|rst|json|ya?ml|toml|cfg|ini|csv|xml|html?|js|ts|log|sh|sql)"
)
"""Matches names of files, after which no value comes: `test_password.py:25`."""

_BARE: Final = later(r"(?P<value>(?:[^\s,;&\"'<>\x1b]++|,(?![\s\"'{\[]|[\w.-]*[=:]|\Z))++)")
_HEADER: Final = later(r"(?P<value>(?:[^\r\n\"'\\]++|(?<==)([\"'])[^\"'\r\n\\]*\2)++)")
_SCHEME: Final = later(r"(?:Bearer|Basic|Digest|Token|Negotiate|ApiKey)[ \t]+", re.IGNORECASE)
_ELEMENT: Final = later(r"(?P<value>[^<>\n]{1,4096}?)(?:\]\]>)?</")

_YAML_TAG: Final = later(r"(?:[!&][A-Za-z][\w:-]{0,40}[ \t]+){1,2}(?=\S)")
"""Matches tags and anchors of YAML: `!vault |`, `&name "…"`."""

_KEYED: Final = later(r"\{[ \t]?[\w.-]{1,60}(?::[ \t]+|=)(?=\w)")
"""Matches the first key of a mapping without quotes: `passwords: {kim: …}`."""

_CALL: Final = later(
    r"(?:[A-Za-z_]\w{0,60}\.){0,8}(?!get)[A-Za-z_]\w{0,60}\((?:(?P<key>[a-z_]{1,40})=)?(?=[bBrRuUfF]{0,2}[\"'])"
)
"""Matches `SecretStr('…')`, a secret by its `repr`; but not `environ.get('…')`."""

_OPENED: Final = later(
    r"[\[({][ \t\n]{0,40}(?=[\[({]|[bBrRuUfF]{0,2}\\{0,7}[\"']|[A-Z][A-Za-z]{1,60}\()"
)
_INSIDE: Final = later(r"[\[({]|[\])}]|" + _PREFIX + r"\\{0,7}[\"']|\n[ \t]*\n")
_DEEPEST: Final = 12
_COLON: Final = later(r"\\{0,7}[\"'][ \t]*:")
_MOST_INSIDE: Final = 600
"""Characters after an opening bracket that are searched for values."""

_WINDOW: Final = 120
"""Characters of a value that are looked at to see whether it is code."""

_SAID: Final = 100
"""Characters after a colon that are looked at to see whether they are a sentence."""

_IDENTIFIER: Final = r"(?:b(?:16|32|64|85)[a-z]+|[A-Za-z_]+\d{0,3})(?![A-Za-z0-9])"
_CODE: Final = later(
    rf"(?:{_IDENTIFIER}\.)*{_IDENTIFIER}(?:\((?:[\"'*)(\[{{]|-?\d+[,)\].]|lambda\b|{_IDENTIFIER}|\Z)"
    rf"|\[(?:[\"'\])]|-?\d+[\]:]|:|{_IDENTIFIER}|\Z))"
)
"""Matches a call or an item; names have digits only at their end."""

_ATTRIBUTE: Final = later(rf"(?:{_IDENTIFIER}\.)+{_IDENTIFIER}")

_PROSE: Final = later(
    r"(?:a|an|and|are|at|by|can|cannot|could|does|expected|expired|for|from|has|in|incorrect"
    r"|invalid|is|missing|must|no|not|of|on|or|rejected|required|see|should|that|the|to|too|was|will"
    r"|with|wrong)(?= )"
)
"""Matches words with which a sentence goes on after `Invalid password:`."""

_ESCAPED_END: Final = re.compile(r"\\{1,3}[nr]|\\{1,3}x1b")
"""Matches the end of a line in an escaped text."""

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
        """Whether a text may hold a name of a secret.

        It takes the text in lower case: to search that is five times as fast as to ignore the case.
        """
        return self._stem.search(lowered) is not None

    def find(self, text: str, *, is_source: bool = False) -> Iterator[Secret]:
        """The values of secrets' names, without their quotes.

        Args:
            is_source: Whether it is Python source, where only literals are values.
        """
        lowered = text.lower()
        if not self.may_be_in(lowered):
            return
        # A letter whose lower case is longer would shift the places that are found.
        is_aligned = len(lowered) == len(text)
        stems = self._stem.finditer(lowered) if is_aligned else self._folded.finditer(text)
        seen = behind = 0
        for stem in stems:
            if stem.start() < seen:
                continue  # in the last name, or inside of the last secret
            start = _start_of_name(text, stem.end(), behind)
            match = _NAMED().match(text, start)
            # A name is looked at once, also if it has no value: it may be a megabyte long.
            seen = match.end("name") if match else _end_of_name(text, start)
            if match is None:
                continue
            if match["blank"] and not match["option"] and _PLAIN.match(text, match.end()):
                continue  # prose: `token refreshed`
            label = self._label(text, match)
            if label is None or not _is_naming(text, match):
                continue
            for span in _values(text, match, label, is_source):
                seen = behind = max(behind, span[1])
                yield *span, label
        if "where " in text:
            for where in _EXPLAINED().finditer(text):
                label = self._label_of(where["name"])
                if label is not None and not is_harmless(label, where["value"], where["name"]):
                    yield *where.span("value"), label
        if "curl" in lowered:
            for curl in _CURL().finditer(text):
                before = text[max(curl.start() - _MOST_BEFORE, 0) : curl.start()]
                if "curl" in before.rpartition("\n")[2] and is_random(curl["value"]):
                    yield *curl.span("value"), "password"

    def _label(self, text: str, match: re.Match[str]) -> str | None:
        name, start = match["name"], match.start()
        if match["blank"] and "BY" in match["blank"]:
            return "password" if name.lower() == "identified" else None
        if _FILE.fullmatch(name):
            return None
        label = self._label_of(name)
        if label is None and (shorter := _unescaped(text, match.start("name"), name)):
            label = self._label_of(shorter)
        if label is None and text.endswith(" ", 0, start):
            # "API key: …": words before belong to the name.
            before = text[max(start - 60, 0) : start].rpartition("\n")[2]
            words = words_of(before + name)
            label = self._label_of("_".join(words[-2:])) if match["sign"] else None
            label = label or self._label_of("".join(words[-3:]))  # "mot de passe"
            if self._extra:
                phrases = ("".join(words[at:]) for at in range(len(words)))
                label = "name" if any(phrase in self._extra for phrase in phrases) else label
        return label


def _is_naming(text: str, match: re.Match[str]) -> bool:
    """Whether the text around a name allows that it has a value: not in `a:secret:b`."""
    start = match.start()
    if match["tag"]:
        return _BEFORE_TAG.search(text[max(start - 20, 0) : start]) is not None
    if match["pair"]:
        return _NAMING.search(text[max(start - 20, 0) : start]) is not None
    if match["sign"] in ("==", "!=") and match["quote"] and "]" not in match[0]:
        return False  # a literal is compared
    if match["sign"] == ":" and match[0].endswith(":"):
        return not text.endswith((":", "/"), 0, start)
    return True


def _start_of_name(text: str, at: int, behind: int) -> int:
    """The start of the name in which a stem ends at `at`; not before `behind`."""
    before = text[max(at - MAX_NAME, behind) : at][::-1]
    match = _NAME.match(before)
    return at - (match.end() if match else 0)


def _end_of_name(text: str, start: int) -> int:
    match = _NAME.match(text, start)
    return match.end() if match else start


def _unescaped(text: str, start: int, name: str) -> str:
    """A name without the rest of an escape in front of it: `\\napi_key`, `\\x1b[31mapi_key`."""
    if text.endswith("\\", 0, start) and name[0] in _ESCAPES:
        return name[1:]
    if text.endswith("[", 0, start) and (color := _COLORED.match(name)):
        return name[color.end() :]
    return ""


def _values(text: str, match: re.Match[str], label: str, is_source: bool) -> Iterator[Span]:
    """The places of a name's values that are secrets."""
    at, name = match.end(), match["name"]
    if match["tag"] or (match["pair"] or "").endswith(">"):
        element = _ELEMENT().match(text, at)
        if element and not is_harmless(label, element["value"], name):
            yield element.span("value")
        return
    if match["comma"]:
        yield from _second(text, match, label)
        return
    if match["blank"] and not match["option"]:
        if is_source:
            return
        label = maybe(label)  # `PASSWORD '…'`, but prose as well
    if match["opened"]:
        if not is_source:
            yield from _literals(text, at, maybe(label), name)
        return
    if match["sign"] == ":" and (annotated := _ANNOTATED().match(text, at)):
        at = annotated.end()
        is_source = is_source or not _QUOTED().match(text, at)
    if match["sign"] == ":" and (tag := _YAML_TAG().match(text, at)):
        at = tag.end()
    call = _CALL().match(text, at, at + 600)
    at = call.end() if call else at
    if call and call["key"]:
        label = maybe(label)
    if _QUOTED().match(text, at):
        yield from _literals(text, at, label, name)
    elif _OPENED().match(text, at):
        yield from _inside(text, at, label, name)
    elif not is_source and not call and (span := _bare_value(text, match, label, at)):
        yield span


def _second(text: str, match: re.Match[str], label: str) -> Iterator[Span]:
    """The value after a quoted name and a comma: the second of a pair, or the next argument."""
    opening, quote = match.start() - len(match["quote"]), match["quote"]
    if text[max(opening, 0) : match.start()] != quote:
        return  # the end of a longer text
    value = _QUOTED().match(text, match.end())
    if value is None or value["value"].startswith("-"):
        return
    if _COLON().match(text, value.end()):
        return  # a key of what follows
    # A list of names has words in it.
    if match["option"] or is_second(value["value"], 2):
        yield from _literals(text, match.end(), label, match["name"])


def _literals(text: str, at: int, label: str, name: str) -> Iterator[Span]:
    """The places of a literal, and of those that are joined to it."""
    while True:
        value = _TRIPLE().match(text, at) or _QUOTED().match(text, at)
        if value is None:
            return
        start, end = value.span("value")
        scheme = _SCHEME().match(text, start, end)
        start = scheme.end() if scheme else start
        secret = text[start:end]
        if secret and not (is_placeholder(secret) if scheme else is_harmless(label, secret, name)):
            yield start, end
        quote = value["quote"]
        closing = end + len(quote)
        if len(quote) == 1 and secret and text.startswith(quote, closing):  # of SQL: 'it''s'
            at = closing
            continue
        glue = _GLUE().match(text, closing)
        if glue is None:
            return
        at = glue.end()


def _inside(text: str, at: int, label: str, name: str) -> Iterator[Span]:
    """The places of literals in brackets, without keys."""
    depth, end = 0, at + _MOST_INSIDE
    while at < end and (mark := _INSIDE().search(text, at, end)):
        char = text[mark.end() - 1]
        if char in "[({":
            depth += 1
            if depth > _DEEPEST:
                return
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


def _is_first(text: str, value: re.Match[str]) -> bool:
    """Whether a value is the first of several names in brackets: `(user, password)`."""
    word = value["value"]
    if word[:1] not in ("(", "[", "{") or is_random(word):
        return False
    if word.endswith(":"):
        return word[1:-1].isidentifier()
    return word[1:].isidentifier() and text.startswith(", ", value.end())


def _is_code(text: str) -> bool:
    if is_random(text):
        return False
    text = text.lstrip("([{")
    return bool(_CODE().match(text) or _ATTRIBUTE().fullmatch(text.rstrip(")]}:")))


def _bare_value(text: str, match: re.Match[str], label: str, at: int) -> Span | None:
    """The place of a value without quotes."""
    name = match["name"]
    if keyed := _KEYED().match(text, at):
        at = keyed.end()
    is_colon = match["sign"] == ":"
    if is_colon and (block := _BLOCK().match(text, at)):
        return block.span("value")
    if is_colon and _PROSE().match(text, at):
        return None
    scheme = _SCHEME().match(text, at)
    start = scheme.end() if scheme else at
    is_header = is_colon and not match["quote"] and label in ("auth", "cookie")
    pattern = (_HEADER if is_header else _BARE)()
    value = pattern.match(text, start, start + _WINDOW)
    if value is None or value["value"].startswith("<"):
        return None
    secret = value["value"].rstrip(")]} \t\\")
    plain = _ESCAPED_END.split(secret, maxsplit=1)[0].rstrip(")]}.,:!")
    if is_placeholder(value["value"]) or _is_first(text, value):
        return None
    if not plain or plain == name.rpartition(".")[2] or is_number(plain, label):
        return None
    if not scheme and (_is_code(value["value"]) or (match["option"] and plain.isupper())):
        return None
    if is_harmless(label, plain, name):
        return None
    line = text[at : at + _SAID].partition("\n")[0].strip() if is_colon else ""
    if is_said(line) or is_name(label, line):
        return None
    if value.end() == start + _WINDOW and (value := pattern.match(text, start)):
        secret = value["value"].rstrip(")]} \t")
    return start, start + len(secret)
