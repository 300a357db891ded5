"""Recognizes values that are no secrets under a secret's name: numbers, sentences, placeholders.

Like `token = "+"`, `token='NAME'`, `{"password": "too short"}`, `api_key: required`,
`session_key = 3`. Pure functions over texts; run on any thread.
"""

from __future__ import annotations

import re
from typing import Final

from pytest_cideldill.interpreter.patterns import later
from pytest_cideldill.redaction.by_name import MAYBE, is_word_of_name, label_of_name, words_of
from pytest_cideldill.redaction.tags import TAGGED

_PLACEHOLDER: Final = later(
    r"""(?ix) (?: none | null | nil | true | false | yes | no | on | off | undefined
    | \*+ | \.+ | … | x{3,} | -+
    | \$?[-\]})(\[{]+ | <[\w \-]{0,40}> | [=!<>+*/%&|^~:,.;@\ ()\[\]{}-]{1,4} | \{\w*:\w*\}
    | (?:str|int|bytes|bool|float|any|optional|union|list|dict|tuple|secretstr
        |string|integer|number|boolean|object|array|inherit)(?:\[[\w\[\]|., ]*)?
    | n?(?:var)?char(?:\(\d+\))? | \#/[\w/]* | !(?:vault|ref|sub|secret|env) | \?
    | (?:\{[\w.!:\[\]()]{1,60}\}[-_:/.]{0,3}){1,8}
    | \[?(?:redacted|hidden|filtered|masked)\]?
    | %[sdr] | %\(\w+\)s | \{[\w.!:\[\]]*\} | \$\{?\w+\}? | \{\{[^{}]{0,60}\}\}
    | <redacted:[^<>#]*\#[0-9a-f]+> )"""
)
"""Empty values, types, placeholders."""

_STATE_WORDS: Final = (
    "absent accepted blank changed created deleted denied disabled empty enabled expired failed "
    "forbidden incorrect invalid malformed missing none optional present rejected removed required "
    "revoked set unauthorized unknown unset unsupported updated valid verified wrong"
)
_STATES: Final = frozenset(_STATE_WORDS.split())
"""Words that describe a secret."""

_SENTENCE_WORDS: Final = (
    "a an and are at by can cannot contain could do does during expected for found from given has "
    "have in is least match may more must no not of off on or per provided should than that the "
    "this to too was were when will with without"
)
_IN_SENTENCES: Final = frozenset(_SENTENCE_WORDS.split())
"""Words of sentences; a passphrase has other words."""

_IN_SENTENCE: Final = r"(?:[(\"'`]?[A-Za-z][A-Za-z'’/-]*+[)\"'`]?[.,;:!?]{0,3}|\d{1,3}|[-–—])"
_SENTENCE: Final = later(rf"\s*{_IN_SENTENCE}(?:\s+{_IN_SENTENCE})*+\s*")
_SAYING: Final = re.compile(r"[a-z][a-z'’/-]*")
_LONGEST_SENTENCE: Final = 400

_CAPITALS: Final = re.compile(r"[A-Z][A-Z_]{0,23}")
"""Kinds of tokens: `NAME`, `LEFT_PAREN`."""

_SMALL: Final = re.compile(r"[a-z]{1,5}")
_PROGRAM_WORDS: Final = (
    "anonymous assert bearer comment continue dedent default delete digest double except export "
    "extends finally float function global header identifier import include indent integer keyword "
    "lambda negotiate newline nonlocal number oauth2 omit operator private public return "
    "same-origin session static string struct switch typeof while"
)
_WORDS: Final = frozenset(_PROGRAM_WORDS.split())
"""Words of languages, of parsers, of schemes."""

_OTHER_WORDS: Final = (
    "access account admin api app bad client correct current db default dummy enter example fake "
    "for hashed here invalid login missing my new old our prod some test the user wrong x your"
)
_IN_NAMES: Final = frozenset(_OTHER_WORDS.split())
"""Words beside the name of a secret in a text that only names it."""

_NAME: Final = re.compile(r"[:@]?(?P<name>[A-Za-z][A-Za-z_. -]{0,40}?)(?:_\d|[ :*.]{1,3})?")
"""Matches texts that name a secret: `X-Api-Key`, `Your password: `, `:token_1` of a query."""

_LONGEST_TOKEN: Final = 24
_MOST_SIGNS: Final = 3
_SHORT_TOKEN: Final = 5
"""Characters of a token of a lexer or a language model; of names with digits in them."""

_SHORT: Final = 3
_FEW_WORDS: Final = frozenset({"token", "auth", "cookie", "credential"})
_PIN: Final = 4
"""A number with at least as many digits is a secret under `pin`, `otp`, `password`."""

_NUMBER: Final = re.compile(r"[-+]?\d+(?:\.\d+)?")
_TABLE: Final = 10
"""A number with at least as many digits is not that of a row, a count, a level."""

_PAIR: Final = 2
_WORD_LIKE: Final = re.compile(r"[A-Za-z][A-Za-z_ -]{0,24}|[a-z_]+(?:\.[A-Za-z_]+){1,8}")
_OPTION: Final = re.compile(r"--?[A-Za-z][\w.-]*")

_PATH: Final = re.compile(r"(?:[A-Za-z]:)?[\\/]|~|\.{1,2}(?:[\\/]|\Z)")
_FOLDERS: Final = frozenset({"pwd", "oldpwd"})

_PIECES: Final = re.compile(r"[\w+~-]{8,}")
_PART: Final = re.compile(r"[-_+~]+")
_READABLE: Final = re.compile(
    r"(?:(?:[A-Z]{2,5}(?=[A-Z][a-z])|[A-Za-z]?[a-z]*+)(?:[A-Z][a-z]{2,}+){0,12}+|[A-Z]*+)\d{0,3}|\d{1,9}"
    r"|[ab](?:16|32|64|85)(?:en|de)code"
)
"""Matches a word, camelCase too, perhaps with a number; or a number."""

_MOST_LOOKED_AT: Final = 4_096


def is_harmless(label: str, text: str, name: str = "") -> bool:
    """Whether a text is no secret under a name.

    Args:
        label: The label of the name, from `label_of_name`.
        text: The whole value, without quotes.
        name: The name itself: under `pwd` a path is no secret.
    """
    if not text.strip() or len(text) == 1:
        return True
    if len(text) <= _LONGEST_SENTENCE and (is_placeholder(text) or is_said(text)):
        return True
    if is_name(label, text):
        return True
    if label.endswith(MAYBE):
        return not is_random(text)
    if label == "pin":
        return not (is_random(text) or (len(text) >= _PIN and text.isdecimal()))
    if label == "password" and _PATH.match(text) and name.lower() in _FOLDERS:
        return True
    if label == "token" and _is_of_lexer(text):
        return True
    if label in _FEW_WORDS:
        is_word = _CAPITALS.fullmatch(text) or _SMALL.fullmatch(text) or text.lower() in _WORDS
        return len(text) <= _SHORT or bool(is_word)
    return False


def is_harmless_number(label: str, text: str) -> bool:
    """Whether a number is no secret; it is one only under names of passwords, PINs and the like."""
    digits = sum(map(str.isdigit, text))
    return digits < _PIN if label in ("password", "pin", "name") else True


def maybe(label: str) -> str:
    """The label under which only values that look random are secrets."""
    return label if label.endswith(MAYBE) else label + MAYBE


def label_inside(label: str, *, is_object: bool) -> str:
    """The label for the parts of a value; a lexer's token object holds source of the program."""
    return maybe(label) if label == "token" and is_object else label


def is_second(text: str, count: int) -> bool:
    """Whether a text is the value of the name before it: they are a pair, and no list of names."""
    return count == _PAIR and not _WORD_LIKE.fullmatch(text)


def is_option_value(option: str, text: str) -> bool:
    """Whether a text that follows an option of a command is the option's value."""
    return _OPTION.fullmatch(option) is not None and not text.startswith("-")


def is_number(text: str, label: str) -> bool:
    """Whether a text without quotes is a number that is no secret."""
    if not _NUMBER.fullmatch(text):
        return False
    return is_harmless_number(label, text) and len(text) < _TABLE


def is_placeholder(text: str) -> bool:
    """Whether a text is empty or a placeholder."""
    if _PLACEHOLDER().fullmatch(text) is None:
        return False
    return text.startswith(TAGGED) or not is_random(text)


def is_said(text: str) -> bool:
    """Whether a text describes a secret: `expired`, `This field is required.`"""
    text = text.strip()
    if not any(map(str.isspace, text)):
        return text.rstrip(".!").lower() in _STATES
    if not _SENTENCE().fullmatch(text):
        return False
    words = _SAYING.findall(text.lower())
    return not _IN_SENTENCES.isdisjoint(words) or not _STATES.isdisjoint(words)


def _is_of_lexer(text: str) -> bool:
    """Whether a token is one of a lexer: `foo_bar`, `##ing`, `3.14`, `"hello"`, `</w>`."""
    if len(text) > _LONGEST_TOKEN or is_random(text):
        return False
    if text.isalpha() and text.islower():
        return False  # one word: a user may have chosen it for a secret
    if len({char for char in text if not char.isalnum()}) > _MOST_SIGNS:
        return False
    has_digit, has_letter = any(map(str.isdigit, text)), any(map(str.isalpha, text))
    return len(text) <= _SHORT_TOKEN or not (has_digit and has_letter)


def is_name(label: str, text: str) -> bool:
    """Whether a text only names a secret of this label: `Password`, `SHOP_API_KEY`, `:token`."""
    match = _NAME.fullmatch(text)
    if match is None or (label_of_text := label_of_name(match["name"])) is None:
        return False
    if label_of_text.rstrip(MAYBE) != label.rstrip(MAYBE):
        return False
    if text.isupper() and "_" in text:
        return True
    return all(word in _IN_NAMES or is_word_of_name(word) for word in words_of(match["name"]))


def is_random(text: str) -> bool:
    """Whether a piece of a text looks random: `zq81Lm07xQ`, but not `us-east-1`."""
    return any(map(_is_random_piece, _PIECES.findall(text, 0, _MOST_LOOKED_AT)))


def _is_random_piece(piece: str) -> bool:
    return not all(map(_READABLE.fullmatch, _PART.split(piece)))
