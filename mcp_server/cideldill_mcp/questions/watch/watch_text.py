"""Answers `test_watch`: the changes of a value in order, who made them, what else holds it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from cideldill_mcp.questions.recordings.listing import SourceFiles
from cideldill_mcp.questions.recordings.recorded import Recorded, RecordedTest
from cideldill_mcp.questions.texts.call_text import notes_of
from cideldill_mcp.questions.texts.fitting import (
    MAX_CHARS,
    Answer,
    Item,
    counted,
    fit,
    left_out_text,
    listed,
    ranges,
    short,
)
from cideldill_mcp.questions.texts.folding import folded
from cideldill_mcp.questions.trace.call_tree import heading
from cideldill_mcp.questions.watch.watched import Change, Part, Place, Watched, read_watched
from cideldill_mcp.replies.proposals import proposal

VALUE: Final = 120
"""Characters of a value before or after a change."""

STATEMENT: Final = 100
"""Characters of the statement that made it."""

_WRITERS: Final = 6
"""Writers in the line that counts them."""

_MOST_FIELDS: Final = 20
"""Writers beside the text."""

_ALIASES: Final = 8

_BRIEF: Final = 6
"""Changes between two that are shown, whose values are still shown."""


def watch_answer(
    recorded: Recorded,
    test: RecordedTest,
    files: SourceFiles,
    *,
    expression: str,
    until: str | None = None,
    max_chars: int = MAX_CHARS,
) -> Answer:
    """What became of a value in a test.

    Args:
        recorded: What its process left.
        test: One of its tests.
        files: The source.
        expression: What was watched.
        until: What was to become true.
        max_chars: Most characters of the text.
    """
    watched = read_watched(recorded, test)
    lines = _Lines(recorded, watched, files, expression)
    head = [*lines.head(), heading(test), *notes_of(recorded, test)]
    items = [Item(text, -5.0 + at / 10, weight=0) for at, text in enumerate(head)]
    items += lines.changes()
    items += [Item(text, 0.0, weight=0) for text in lines.until(until)]
    items += [Item(text, rank, weight=0) for rank, text in lines.end()]
    text, left_out = fit(items, max_chars, partial(left_out_text, noun="change"))
    fields = {
        "changes": watched.total,
        "writers": lines.writers[:_MOST_FIELDS],
        "aliases": list(
            dict.fromkeys(each for texts in watched.aliases.values() for each in texts)
        ),
    }
    if watched.became is not None:
        fields["became_true"] = watched.became.fields
    return Answer(text, fields, bool(left_out), _next(test, watched))


class _Lines:
    """Makes the lines of an answer."""

    def __init__(
        self, recorded: Recorded, watched: Watched, files: SourceFiles, expression: str
    ) -> None:
        self._watched, self._files, self._expression = watched, files, expression
        self._counts = [
            (Place(recorded.codes.get(code), line, None, 0), count)
            for (code, line), count in sorted(watched.counts.items(), key=lambda each: -each[1])
        ]
        self.writers = [{**place.fields, "count": count} for place, count in self._counts]

    def head(self) -> list[str]:
        """The expression, its first value, and where that is."""
        watched, begins = self._watched, self._watched.begins
        first = f"{self._expression}: {short(watched.first, 2 * VALUE)}"
        if begins.code is None:
            return [f"{first}  at the beginning of the test"]
        by = f", {begins.by}" if begins.by else ""
        return [f"{first}  as {begins.text} begins, call {watched.call:,}{by}"]

    def changes(self) -> list[Item]:
        """One line each; repeated ones folded."""
        changes = self._watched.changes
        if not changes:
            never = self._watched.first == "unset"
            return [Item("it was never set" if never else "it was not changed", 0.1, weight=0)]
        fold = folded([(*change.place.key, change.phase) for change in changes])
        is_folded = len(fold.parts) < len(changes)
        found = []
        last = len(changes) - 1
        for part in fold.parts:
            if isinstance(part, range):
                like = fold.like(part, lambda at: f"#{at + 1}")
                texts = [_parts(changes[at].parts) for at in part]
                if len(texts) <= _BRIEF and sum(map(len, texts)) <= VALUE:
                    like = ", ".join(texts)
                numbers = ranges([at + 1 for at in part], 2)
                found.append(Item(f"… #{numbers}: {like}", 1.5, weight=len(part)))
                continue
            change = changes[part]
            number = f"#{part + 1} " if is_folded else ""
            rank = -0.5 if part in (0, last) else 1.0 if fold.repeats(part) else 0.5
            rank += min(part, last - part) / (last + 20.0)
            source = self._source(change.place)
            found.append(Item(f"{number}{self._change(change)}", rank, once=source))
        more = self._watched.total - len(changes)
        if more > 0:
            found.append(Item(f"… {more:,} more changes (max_changes shows more)", 0.3, weight=0))
        return found

    def until(self, until: str | None) -> list[str]:
        """Where it became true, and the locals there."""
        watched = self._watched
        if until is None:
            return []
        lines = []
        if watched.was_true:
            lines.append(f"until: {until} is true at the beginning")
        became = watched.became
        if became is not None:
            by = f"  ({became.by})" if became.by else ""
            lines.append(f"until: {until} is true after {became.text}{by}  {self._source(became)}")
            names = ", ".join(f"{name}={short(text, VALUE)}" for name, text in watched.names)
            if names:
                lines.append(f"  locals: {names}")
        elif not watched.was_true:
            lines.append(f"until: {until} was never true")
        return lines

    def end(self) -> list[tuple[float, str]]:
        """Who wrote how often, what else holds the object, the last value."""
        watched = self._watched
        lines = []
        if watched.total > len(self._counts) > 1 or watched.total > len(watched.changes):
            texts = [f"{place.text} ×{count:,}" for place, count in self._counts]
            by = listed(texts, _WRITERS)
            lines.append((-0.4, f"{counted(watched.total, 'change')}: {by}"))
        first, last = watched.aliases.get("first", []), watched.aliases.get("end", [])
        if first:
            same = " and at the end" if first == last else ""
            lines.append(
                (0.2, f"also held at the first change{same} by: {listed(first, _ALIASES)}")
            )
        if last and first != last:
            lines.append((0.2, f"also held at the end by: {listed(last, _ALIASES)}"))
        if watched.lost is not None:
            lines.append((-0.3, f"not seen any more after {watched.lost.text}"))
        if watched.value is not None and watched.changes:
            when = "then" if watched.became is not None else "at the end"
            lines.append((-0.3, f"{when}: {short(watched.value, 2 * VALUE)}"))
        return lines

    # --- parts ------------------------------------------------------------------------------

    def _change(self, change: Change) -> str:
        where = []
        if change.phase not in ("call", ""):
            where.append(f"in {change.phase}")
        if change.thread:
            where.append(f"thread {change.thread}")
        if change.place.by:
            where.append(change.place.by)
        if change.late:
            where.append(f"or up to {counted(change.late, 'line')} before")
        by = f"  ({', '.join(where)})" if where else ""
        other = f" or {change.other.text}" if change.other is not None else ""
        return f"{change.place.text}{other}  {_parts(change.parts)}{by}"

    def _source(self, place: Place) -> str:
        if place.code is None:
            return ""
        lines = dict(self._files.listing(place.code).text_lines())
        text = lines.get(place.line, "").strip()
        return f"# {short(text, STATEMENT)}" if text else ""


def _parts(parts: Sequence[Part]) -> str:
    return ", ".join(map(_part, parts))


def _part(part: Part) -> str:
    place, old, new = part
    if old is None:
        text = f"+ {short(new or '', VALUE)}"
    elif new is None:
        text = f"- {short(old, VALUE)}"
    else:
        text = f"{short(old, VALUE)} → {short(new, VALUE)}"
    return f"{place}  {text}" if place else text


def _next(test: RecordedTest, watched: Watched) -> list[str]:
    """The call of the line that made the last change, line by line."""
    places = [change.place for change in reversed(watched.changes) if change.place.code]
    code = places[0].code if places else None
    if code is None or code.kind in ("module", "class"):
        return []
    why = "each line of the function that made the last change"
    return [proposal("test_trace", why, nodeid=test.nodeid, function=code.dotted)]
