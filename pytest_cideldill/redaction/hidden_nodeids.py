"""Replaces secrets in node ids by tags, and finds the tests that an id with tags means.

pytest makes ids of the values of parameters. A value that is a secret, by the name of its parameter
or by itself, becomes a tag in ids too, live and in records. The id that pytest prints finds its
test nevertheless, and so does an id of another run, whose tags differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pytest_cideldill.redaction.harmless import is_harmless
from pytest_cideldill.redaction.redactor import Redactor
from pytest_cideldill.redaction.tags import TAG

_MOST: Final = 10_000
"""How many ids are kept with their redacted form, as the same ids come again and again."""

_NOTED: Final = "cideldill_nodeid"
"""Attribute of reports that holds the redacted id; xdist sends all attributes with plain values."""

_SHORTEST: Final = 4
"""Shorter values are not looked for in ids."""


class NodeIds:
    """Redacts the node ids of one process. Any thread."""

    __slots__ = ("_learned", "_redacted", "_redactor", "_secrets")

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._redacted: dict[str, str] = {}
        self._learned = 0
        # Id of a test with secret parameters → value as in the id → its tag.
        self._secrets: dict[str, dict[str, str]] = {}

    def learn(self, parameters: Iterable[tuple[str, Mapping[str, object]]]) -> None:
        """Learn the parameters of tests: their ids, and name → value of each parameter."""
        redactor, kept = self._redactor, {}
        for nodeid, values in parameters:
            for name, value in list(values.items()):
                label = redactor.label(name)
                if not label or type(value) not in (str, bytes) or len(value) < _SHORTEST:  # type: ignore[arg-type]
                    continue
                as_in_id = _in_id(value)
                if type(value) is bytes:
                    value = value.decode("latin-1")
                assert type(value) is str
                if not is_harmless(label, value, name):
                    kept[value] = label
                    tags = self._secrets.setdefault(nodeid, {})
                    tags[as_in_id] = redactor.tag(label, value)
        if kept:
            redactor.keep(kept)

    def shown(self, nodeid: str) -> str:
        """An id without secrets."""
        if "[" not in nodeid or not self._redactor.enabled:
            return nodeid
        if self._learned != self._redactor.learned:
            self._redacted, self._learned = {}, self._redactor.learned
        redacted = self._redacted
        if nodeid not in redacted:
            if len(redacted) >= _MOST:
                redacted.clear()
            redacted[nodeid] = self._redactor.redact_text(self._tagged(nodeid))
        return redacted[nodeid]

    def of_report(self, report: Any) -> str:
        """The redacted id of a report; a worker of xdist has noted it there, see `note_in`."""
        noted = vars(report).get(_NOTED)
        return noted if type(noted) is str else self.shown(report.nodeid)

    def note_in(self, report: Any) -> None:
        """Note the redacted id in a report if it differs, for the process that gets the report."""
        if (shown := self.shown(report.nodeid)) != report.nodeid:
            setattr(report, _NOTED, shown)

    def _tagged(self, nodeid: str) -> str:
        function, bracket, parameters = nodeid.partition("[")
        for text, tag in self._secrets.get(nodeid, {}).items():
            parameters = parameters.replace(text, tag)
        return function + bracket + parameters


def _in_id(value: object) -> str:
    """A text, or bytes, as pytest writes it in an id."""
    if type(value) is bytes:
        return value.decode("ascii", "backslashreplace")
    return str(value).encode("unicode_escape").decode("ascii")


def meant(nodeid: str, candidates: Iterable[str], redactor: Redactor | None = None) -> list[str]:
    """The ids that an id may mean: itself, else those that differ only where one has a tag.

    Args:
        nodeid: With tags, or as pytest printed it.
        candidates: Ids with tags, or as pytest has them.
        redactor: Has the key of the tags, to compare a value with a tag.
    """
    ids = list(dict.fromkeys(candidates))
    if nodeid in ids or "[" not in nodeid:
        return [nodeid] if nodeid in ids else []
    if TAG.search(nodeid):
        pattern = _pattern(nodeid)
        return [each for each in ids if pattern.fullmatch(TAG.sub("-", each))]
    fitting = [
        (each, match)
        for each in ids
        if TAG.search(each) and (match := _pattern(each).fullmatch(nodeid))
    ]
    if redactor is not None:
        same = [each for each, match in fitting if _has_tags_of(match.groups(), each, redactor)]
        return same or [each for each, _ in fitting]
    return [each for each, _ in fitting]


def _pattern(nodeid: str) -> re.Pattern[str]:
    """A pattern for the ids that an id with tags may stand for."""
    return re.compile("(.+?)".join(map(re.escape, TAG.split(nodeid))), re.DOTALL)


def _has_tags_of(texts: Iterable[str], nodeid: str, redactor: Redactor) -> bool:
    tags = TAG.findall(nodeid)
    digits = [redactor.tag("id", text).partition("#")[2] for text in texts]
    return [tag.partition("#")[2] for tag in tags] == digits
