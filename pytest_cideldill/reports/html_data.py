"""The data that the script of a report draws: rows of a run as plain lists, each name once.

Times are milliseconds from the begin of the run. The lists are those that `page/*.js` take apart:

* tests: node id, worker, begin, end, outcome, class of that, seconds, id of a failure or null, why
* tracepoints: place, template, condition, hits
* hits: time, test, worker, tracepoint, number, message
* calls, each before those that it made: depth, time, end, test, worker,
  function, arguments, what came of it, whether it raised, call site, objects `[name, number]`
* notes: time, test, worker, type, text
* objects: snapshots
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import count, islice
from typing import Any, Final

from pytest_cideldill.records.format import Line
from pytest_cideldill.records.reader import object_files
from pytest_cideldill.reports.digest import Story, Tracepoint
from pytest_cideldill.reports.html_failures import outcome_class
from pytest_cideldill.reports.outcomes import place_of
from pytest_cideldill.reports.words import left_out

MOST_OBJECTS: Final = 2_000
_OBJECT_CHARACTERS: Final = 100
"""Of all snapshots together, for each row that there may be."""

_TEXT: Final = (200, 2_000)
"""Characters of a message, or of what a call was given: where there are many, and at most."""

_TEXTS: Final = 200
"""Of all of them together, for each row that there may be."""

_MOST_TESTS: Final = 50_000


class _Page:
    """One run; see the module."""

    def __init__(self, story: Story, anchors: list[str], most_rows: int) -> None:
        self._story = story
        self._most = most_rows
        # Numbers by the order in which a name first came.
        self._workers: dict[str, int] = defaultdict(count().__next__)
        self._cids: dict[Any, int] = defaultdict(count().__next__)
        self._began = story.summary.started_at
        self._tests = story.tests[:_MOST_TESTS]
        self._anchors: dict[tuple[str, str], str] = {}
        for failure, anchor in zip(story.failures, anchors, strict=False):
            self._anchors.setdefault((failure.worker, failure.nodeid), anchor)
        self._numbers = {
            (test.worker, test.nodeid): number for number, test in enumerate(self._tests)
        }

    def plain(self) -> dict[str, Any]:
        story = self._story
        tracepoints = list(story.tracepoints.values())
        hits, calls = self._hits(tracepoints), list(self._calls())
        objects = list(self._objects())
        data = {
            "name": story.folder.name,
            "tests": list(self._test_rows()),
            "tracepoints": [
                [each.place, each.message, each.condition, each.hits.count] for each in tracepoints
            ],
            "hits": sorted(hits, key=lambda each: float(each[0] or 0)),
            "calls": calls,
            "notes": [
                [
                    self._ms(note.ts),
                    self._numbers.get((note.worker, str(note.nodeid))),
                    self._workers[note.worker],
                    note.type,
                    note.text[: _TEXT[0]],
                ]
                for note in story.notes[: self._most]
            ],
            "objects": objects,
        }
        left = (
            (len(story.tests) - len(self._tests), "test"),
            (sum(tracepoint.hits.count for tracepoint in tracepoints) - len(hits), "hit"),
            (story.calls.count - len(calls), "call"),
            (len(story.notes) - len(data["notes"]), "note"),
            (len(self._cids) - len(objects), "object"),
        )
        return data | {"workers": list(self._workers), "left_out": left_out(left)}

    def _ms(self, ts: float | None) -> float | None:
        return None if ts is None else round((ts - self._began) * 1000, 3)

    def _test_rows(self) -> Iterator[list[Any]]:
        for test in self._tests:
            yield [
                test.nodeid,
                self._workers[test.worker],
                self._ms(test.began),
                self._ms(test.ended),
                test.outcome,
                outcome_class(test.outcome),
                test.duration_s,
                self._anchors.get((test.worker, test.nodeid)),
                test.why[: _TEXT[0]],
            ]

    def _test(self, line: Line) -> int | None:
        return self._numbers.get((line.worker, str(line.values.get("nodeid"))))

    def _hits(self, tracepoints: list[Tracepoint]) -> list[list[Any]]:
        """As many of each as there are; else what those leave that have fewer."""
        kept: list[tuple[int, Line]] = []
        by_count = sorted(enumerate(tracepoints), key=lambda each: each[1].hits.count)
        for place, (number, each) in enumerate(by_count):
            share = (self._most - len(kept)) // (len(by_count) - place)
            kept += [(number, line) for line in each.hits.lines(share)]
        cut = self._cut(len(kept))
        return [
            [
                self._ms(line.ts),
                self._test(line),
                self._workers[line.worker],
                number,
                line.values.get("hit_count"),
                str(line.values.get("message") or "")[:cut],
            ]
            for number, line in kept
        ]

    def _cut(self, count: int) -> int:
        """How many characters each of so many texts may have."""
        least, most = _TEXT
        return max(least, min(most, self._most * _TEXTS // max(1, count)))

    def _calls(self) -> Iterator[list[Any]]:
        """Depth first, without recursion: a record may claim any depth."""
        lines = sorted(
            self._story.calls.lines(self._most),
            key=lambda each: (each.worker, str(each.values.get("thread")), _started(each)),
        )
        cut = self._cut(2 * len(lines))
        known = {str(each.values.get("call_id")) for each in lines}
        below: dict[str, list[Line]] = {}
        for line in lines:
            parent = str(line.values.get("parent_id"))
            below.setdefault(parent if parent in known else "", []).append(line)
        waiting = [(0, line) for line in reversed(below.pop("", []))]
        while waiting:
            depth, line = waiting.pop()
            yield self._call(depth, line, cut)
            inner = below.pop(str(line.values.get("call_id")), [])
            waiting += [(depth + 1, each) for each in reversed(inner)]

    def _call(self, depth: int, line: Line, cut: int) -> list[Any]:
        values = line.values
        cids = values.get("cids") or {}
        args = [str(each) for each in values.get("pretty_args") or ()]
        named = [f"{name}={text}" for name, text in (values.get("pretty_kwargs") or {}).items()]
        positional = [(f"argument {n}", cid) for n, cid in enumerate(cids.get("args") or (), 1)]
        more = [*(cids.get("kwargs") or {}).items(), ("result", cids.get("result"))]
        objects = [[name, self._cids[cid]] for name, cid in [*positional, *more] if cid]
        is_raised = values.get("status") != "success"
        result = values.get("pretty_result")
        if is_raised:
            exception = values.get("exception") or {}
            result = f"{exception.get('type') or values.get('status')}: {exception.get('message')}"
        return [
            depth,
            self._ms(_started(line)),
            self._ms(values.get("completed_at") or line.ts),
            self._test(line),
            self._workers[line.worker],
            str(values.get("qualified_name")),
            ", ".join([*args, *named])[:cut],
            str(result)[:cut],
            is_raised,
            place_of(values.get("call_site")),
            objects,
        ]

    def _objects(self) -> Iterator[dict[str, Any] | None]:
        """Snapshots by number, as many as there is room for; None: it was not stored."""
        if not (files := object_files(self._story.folder)):
            return
        from pytest_cideldill.objects.store import CIDStore  # with sqlite3

        stores = [CIDStore(path, is_reader=True) for path in files]
        room = self._most * _OBJECT_CHARACTERS
        for cid in islice(self._cids, MOST_OBJECTS):
            found = (store.description(str(cid)) for store in stores)
            row = next((each for each in found if each is not None), None)
            room -= len(str(row))
            if room < 0:
                break
            yield row
        for store in stores:
            store.close()


def of_run(story: Story, anchors: list[str], most_rows: int) -> dict[str, Any]:
    """The data of a run that the script of a report draws, as plain lists.

    Args:
        anchors: Ids of its failures in the page, in their order.
        most_rows: How many hits there may be; as many calls.
    """
    return _Page(story, anchors, most_rows).plain()


def _started(line: Line) -> float:
    at = line.values.get("started_at")
    return float(at) if isinstance(at, int | float) else line.ts
