"""The `Redactor`: replaces secrets in everything that leaves the process under test.

A secret becomes a tag like `<redacted:token#a1>`: one tag per value, so that an agent sees which
values are equal (docs/secrets.md). Runs on any thread, takes no lock, runs no user code, never
raises.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Final, NoReturn

from pytest_cideldill.redaction.by_name import MAYBE, label_of_name, spelled
from pytest_cideldill.redaction.by_shape import Secret, find_shapes, may_be_shapes
from pytest_cideldill.redaction.environment import Environment
from pytest_cideldill.redaction.harmless import is_harmless, is_option_value
from pytest_cideldill.redaction.in_report import (
    CUT,
    LEAST_PIECE,
    ReportPart,
    parts_of_report,
    pieces,
)
from pytest_cideldill.redaction.in_source import find_in_comments, find_in_source
from pytest_cideldill.redaction.in_text import NamedSecrets
from pytest_cideldill.redaction.tags import LONGEST, TAG, UNKNOWN, Tags

MIN_ENVIRONMENT: Final = 8
"""Shorter values of sensitive environment variables are not looked for."""

MARGIN: Final = 2_048
"""Characters after a limit that are looked at, to recognize a secret that reaches over it."""

_SHORTEST: Final = 6
"""Shorter texts are not searched: a secret in them can't be distinguished from a word."""

_PASSES: Final = 3
"""How often a text is searched: a replacement may join two parts that look like a secret."""

_MOST_SEEN: Final = 64
"""How many values of sensitive names are looked for in other texts; the newest ones are."""

_MOST_KEPT: Final = 200
"""How many values of parameters are looked for as long as the process lives."""

_LONGEST_SEEN: Final = 1_024

_NOT_ENVIRONMENT: Final = frozenset({"PWD", "OLDPWD"})
"""Variables that hold folders, though they look like passwords: they would hide every path."""

_COMMON_WORDS: Final = (
    "password postgres postgresql changeme changeit testtest testing disabled required undefined "
    "username rabbitmq minioadmin"
)
_TOO_COMMON: Final = frozenset(_COMMON_WORDS.split())
"""Defaults of services, and words: to hide them would hide no secret, but parts of many texts."""


class Redactor:
    """Replaces secrets by tags.

    Args:
        extra_names: Further sensitive names, in any spelling; they count in longer names too.
        extra_patterns: Regular expressions; whatever they match is a secret.
        environ: The environment variables, read now; by default those of the process.
        shown_names: Names that are not sensitive, in any spelling.
        key: The key of the run: with the same key, equal secrets get equal tags. None: a random
            key.
        enabled: Whether anything is replaced at all.

    Attributes:
        edition: A number that changes when further names become sensitive.
        learned: A number that changes when a text may be redacted in another way than before.

    Raises:
        ValueError: A name or a pattern is malformed; the message names it.
    """

    def __init__(
        self,
        extra_names: Iterable[str] = (),
        extra_patterns: Iterable[str] = (),
        environ: Mapping[str, str] | None = None,
        *,
        shown_names: Iterable[str] = (),
        key: bytes | None = None,
        enabled: bool = True,
    ) -> None:
        self.enabled = enabled
        self.edition = self.learned = 0
        self._tags = Tags(key)
        # A value as it may be written in a text → the value. Copied to read it, as other threads
        # add.
        self._seen: dict[str, str] = {}
        self._environ = dict(os.environ if environ is None else environ)
        self._environment = Environment()
        self._shown: frozenset[str] = frozenset()
        self._extra: frozenset[str] = frozenset()
        self._patterns: dict[str, re.Pattern[str]] = {}
        self._values: dict[str, str] = {}
        self._kept = 0
        self._known: dict[str, None] = {}
        self.extend(extra_names, extra_patterns, shown_names)

    def __reduce__(self) -> NoReturn:
        raise TypeError("what is known of secrets goes nowhere")

    def extend(
        self, names: Iterable[str] = (), patterns: Iterable[str] = (), shown: Iterable[str] = ()
    ) -> None:
        """Add names and patterns, as in the constructor. One thread at a time.

        Raises:
            ValueError: A name or a pattern is malformed; then nothing has changed.
        """
        extra = self._extra.union(map(spelled, names))
        compiled_patterns = self._patterns | {text: compiled(text) for text in patterns}
        is_shown = self._shown.union(map(spelled, shown))
        label_of = lru_cache(4096)(lambda name: label_of_name(name, extra, is_shown))
        # Other threads redact meanwhile. So each attribute is replaced as a whole, and fits both
        # the old and the new values of the others.
        self._extra, self._patterns, self._label_of = extra, compiled_patterns, label_of
        self._shown = is_shown
        self._named = NamedSecrets(label_of, extra)
        self._look_for(_environment_secrets(self._environ, label_of))
        self.edition += 1

    def look_again(self) -> None:
        """Also hide the values of environment variables that the program has set by now."""
        try:
            changed = self._environment.changed() if self.enabled else {}
            fresh = {name: value for name, value in changed.items() if self._is_fresh(name, value)}
            if fresh:
                self._environ |= fresh
                self._look_for(_environment_secrets(fresh, self._label_of))
        except Exception:  # noqa: BLE001 - a border: known secrets are hidden anyway
            return

    def keep(self, values: Mapping[str, str]) -> None:
        """Hide some texts from now on, wherever they appear: text → label."""
        fresh = {
            value: label.rstrip(MAYBE)
            for value, label in values.items()
            if value not in self._values
            and MIN_ENVIRONMENT <= len(value) <= _LONGEST_SEEN
            and _is_distinctive(label, value)
        }
        kept = dict(islice(fresh.items(), _MOST_KEPT - self._kept))
        self._kept += len(kept)
        self._look_for(kept)

    def _is_fresh(self, name: str, value: str) -> bool:
        return value not in self._values and self._label_of(name) is not None

    def _look_for(self, fresh: Mapping[str, str]) -> None:
        """Hide further values (value → label) wherever they appear."""
        values = {**fresh, **self._values}
        for value, label in values.items():
            self.tag(label, value)
        longest_first = [re.escape(value) for value in sorted(values, key=len, reverse=True)]
        self._values = values
        self._of_environment = re.compile("|".join(longest_first)) if longest_first else None
        self._margin = max(MARGIN, *map(len, values), 0)
        self.learned += 1

    def name_is_sensitive(self, name: str) -> bool:
        """Whether the value of this name is always hidden, whatever it looks like."""
        return self.enabled and type(name) is str and self._label_of(name) is not None

    def is_plain(self, text: str) -> bool:
        """Whether a text and its lines certainly hold no secret; a quick test."""
        try:
            return not self._may_hold_secrets(text)
        except Exception:  # noqa: BLE001 - a border, as below
            return False

    def redact_text(self, text: str, limit: int | None = None) -> str:
        """The text without its secrets.

        Args:
            text: Any text; it must not be cut yet, as a secret that was cut is not recognized.
            limit: How many characters of `text` are wanted. A secret that reaches over the limit
                is replaced as a whole; the rest is left out. Longer texts cost no more time.
        """
        try:
            text = self._without_pieces(text)
            if limit is not None and len(text) > limit:
                return self._start(text, limit)
            return self._whole(text) if self._may_hold_secrets(text) else text
        except Exception:  # noqa: BLE001 - a border: showing nothing is safe, showing it all is not
            return UNKNOWN

    def redact_source(self, text: str, *, is_python: bool = True) -> str:
        """The text of a file without its secrets; its lines keep their numbers.

        In Python a name is no secret, like the one in `token = name`.
        """
        try:
            if not self._may_hold_secrets(text):
                return text
            named = self._named_in_source(text) if is_python else list(self._named.find(text))
            for start, end, label in named:
                self._remember(label, text[start:end])
            secrets = list(self._secrets(text, named))
            return self._replaced(text, secrets, len(text), keeps_lines=True)
        except Exception:  # noqa: BLE001 - a border, as above
            return UNKNOWN

    def redact_known(self, text: str) -> str:
        """A text that was redacted before, without the secrets that were learned since."""
        try:
            if not self.enabled or not self._knows(text):
                return text
            secrets = list(self._known_in(text))
            return self._without_pieces(self._replaced(text, secrets, len(text)))
        except Exception:  # noqa: BLE001 - a border, as above
            return UNKNOWN

    def redact_report(self, text: str) -> str:
        """A report of pytest without its secrets; the source in it is searched by its tree."""
        try:
            if not self._may_hold_secrets(text):
                return self.redact_text(text)
            parts = parts_of_report(text, self._label_of, self._named.find)
            return "".join([self._part_of_report(text[p.start : p.end], p) for p in parts])
        except Exception:  # noqa: BLE001 - a border, as above
            return UNKNOWN

    def _part_of_report(self, text: str, part: ReportPart) -> str:
        if part.secrets is None:
            return self.redact_text(text)
        secrets = list(self._secrets(text, part.secrets))
        return self._without_pieces(self._replaced(text, secrets, len(text), keeps_lines=True))

    def redact_bytes(self, data: bytes, limit: int | None = None) -> bytes:
        """Some bytes without their secrets; the tags are ASCII."""
        if limit is not None:
            data = data[: limit + 16 * self._margin]
        return self.redact_text(data.decode("latin-1"), limit).encode("latin-1", "replace")

    def label(self, name: object) -> str:
        """The kind of secret that a name stands for, see `label_of_name`; empty for other names."""
        return (self._label_of(name) or "") if self.enabled and type(name) is str else ""

    def hide_under(self, label: str, text: str, name: str = "") -> str:
        """The tag of a string under a sensitive name; the string itself if it is harmless.

        Args:
            label: The label of the name, from `label`.
            text: All of the string; bytes as latin-1.
        """
        if TAG.fullmatch(text) or is_harmless(label, text, name):
            return text
        self._remember(label, text)
        return self.tag(label, text)

    def redact_arguments(self, argv: Iterable[str]) -> list[str]:
        """The arguments of a command, also without secrets after their option (`--token`, `…`)."""
        shown, before = [], ""
        for each in argv:
            label = self.label(before) if is_option_value(before, each) else ""
            shown.append(self.redact_text(self.hide_under(label, each) if label else each))
            before = each
        return shown

    def tag(self, label: str, secret: str) -> str:
        """The tag of a secret value; it keeps the label of its first appearance."""
        try:
            return self._tags.tag(label.rstrip(MAYBE), secret)
        except Exception:  # noqa: BLE001 - a border, as above
            return UNKNOWN

    def _remember(self, label: str, value: str) -> None:
        """Look for a value everywhere from now on, if it differs from words."""
        if not MIN_ENVIRONMENT <= len(value) <= _LONGEST_SEEN or not _is_distinctive(label, value):
            return
        for spelling in (value, repr(value)[1:-1]):
            if spelling not in self._seen:
                if len(self._seen) >= _MOST_SEEN:
                    self._seen.pop(next(iter(tuple(self._seen))), None)
                self._seen[spelling] = value
                self._know(value)
                self.learned += 1

    def _know(self, secret: str) -> None:
        """From now on, recognize this secret where it was cut in the middle."""
        if LEAST_PIECE * 2 < len(secret) <= _LONGEST_SEEN and secret not in self._known:
            if len(self._known) >= _MOST_SEEN:
                self._known.pop(next(iter(tuple(self._known))), None)
            self._known[secret] = None

    def _without_pieces(self, text: str) -> str:
        """A text without pieces of known secrets that pytest has cut in the middle."""
        if not self.enabled or CUT not in text or not self._known:
            return text
        parts, behind = [], 0
        for start, end, secret in pieces(text, (*self._known, *self._values)):
            if start >= behind:
                parts += [text[behind:start], self.tag("name", secret)]
                behind = end
        return "".join((*parts, text[behind:])) if parts else text

    def _may_hold_secrets(self, text: str) -> bool:
        """Whether a text may hold secrets; a quick test that is false for most texts."""
        if not self.enabled or len(text) < _SHORTEST:
            return False
        lowered = text.lower()
        if may_be_shapes(text, lowered) or self._knows(text):
            return True
        return self._named.may_be_in(lowered)

    def _knows(self, text: str) -> bool:
        """Whether a text may hold a known secret; a quick test."""
        if self._patterns or any(value in text for value in self._values):
            return True
        if CUT in text and self._known:
            return True
        return bool(self._seen) and any(spelling in text for spelling in tuple(self._seen))

    def _start(self, text: str, limit: int) -> str:
        size = limit + self._margin
        while self._may_hold_secrets(text[:size]):
            secrets = list(self._secrets(text[:size]))
            # A secret at the end of the searched part may go on: the tag is that of all of it.
            is_open = any(start < limit and last == size for start, last, _ in secrets)
            if not is_open or size >= min(len(text), limit + LONGEST):
                return self._replaced(text[:size], secrets, limit)
            size *= 4
        return text[:limit]

    def _whole(self, text: str) -> str:
        for _ in range(_PASSES):
            if not (secrets := list(self._secrets(text))):
                break
            text = self._replaced(text, secrets, len(text))
        return text

    def _secrets(self, text: str, named: Iterable[Secret] | None = None) -> Iterator[Secret]:
        """All secrets in a text; they may overlap. Tags are no secrets.

        `named`: the secrets that have a name; None if they are to be searched.
        """
        lowered = text.lower()
        secrets = list(find_shapes(text)) if may_be_shapes(text, lowered) else []
        if named is not None:
            secrets += named
        elif self._named.may_be_in(lowered):
            secrets += self._named.find(text)
        secrets += self._known_in(text)
        tags = [each.span() for each in TAG.finditer(text)] if secrets else []
        starts = [start for start, _ in tags]
        for start, end, label in secrets:
            before = bisect_right(starts, start) - 1
            if before < 0 or end > tags[before][1]:
                yield start, end, label

    def _known_in(self, text: str) -> Iterator[Secret]:
        """Known secrets in a text: values of the environment, values of names, matched patterns."""
        secrets: list[Secret] = []
        if self._of_environment is not None:
            matches = self._of_environment.finditer(text)
            secrets += [(*each.span(), self._values[each[0]]) for each in matches]
        for spelling in tuple(self._seen):
            if spelling in text:
                secrets += [
                    (*each.span(), "name") for each in re.finditer(re.escape(spelling), text)
                ]
        for pattern in self._patterns.values():
            secrets += [(*each.span(), "pattern") for each in pattern.finditer(text) if each[0]]
        yield from secrets

    def _named_in_source(self, text: str) -> list[Secret]:
        find = self._named.find
        secrets = find_in_source(text, self._label_of, find)
        if secrets is None:
            secrets = list(find(text, is_source=True))
        return [*secrets, *find_in_comments(text, find)]

    def _replaced(
        self, text: str, secrets: list[Secret], limit: int, *, keeps_lines: bool = False
    ) -> str:
        """The first `limit` characters, each run of overlapping secrets replaced by one tag."""
        parts = []
        behind = 0
        for start, end, label in _merged(secrets):
            if start >= limit:
                break
            secret = self._seen.get(text[start:end], text[start:end])
            self._know(secret)
            parts += [text[behind:start], self.tag(self._values.get(secret, label), secret)]
            if keeps_lines:
                parts.append("\n" * text.count("\n", start, end))
            behind = end
        return "".join((*parts, text[behind : max(limit, behind)]))


def compiled(text: str) -> re.Pattern[str]:
    """The compiled form of a user's pattern.

    Raises:
        ValueError: The pattern is malformed; the message names it.
    """
    try:
        return re.compile(text)
    except (re.error, Warning, OverflowError, RecursionError) as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from error


def _environment_secrets(
    environ: Mapping[str, str], label_of: Callable[[str], str | None]
) -> dict[str, str]:
    """The values of the environment to look for, with their labels."""
    return {
        value: "env:" + re.sub(r"[^\w.-]", "_", name)
        for name, value in environ.items()
        if len(value) >= MIN_ENVIRONMENT
        and name not in _NOT_ENVIRONMENT
        and value.lower() not in _TOO_COMMON
        and "redacted" not in value
        and (label := label_of(name)) is not None
        # The environment holds no tokens of lexers.
        and not is_harmless("secret" if label == "token" else label, value, name)
    }


def _is_distinctive(label: str, value: str) -> bool:
    """Whether a value is so special that it must be the secret wherever it appears."""
    if value.lower() in _TOO_COMMON or value.isalpha() or "redacted" in value:
        return False
    has_digit = any(map(str.isdigit, value))
    return has_digit or label in ("password", "secret", "key", "auth", "env")


def _merged(secrets: list[Secret]) -> Iterator[Secret]:
    """The unions of overlapping secrets, each with the label of its first one."""
    start, end, label = 0, 0, ""
    for first, last, name in sorted(secrets, key=lambda each: (each[0], -each[1])):
        if first < end:
            end = max(end, last)
            continue
        if end > start:
            yield start, end, label
        start, end, label = first, last, name
    if end > start:
        yield start, end, label
