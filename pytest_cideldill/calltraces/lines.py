"""The lines of one call, and what each of them changed; on the thread that runs it.

Nothing of the program is kept alive: of numbers and texts the value is remembered, of all else the
id.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any, Final

from pytest_cideldill.calltraces.named import MISSING, MOST_ITEMS, Chain, Reader, chains_of
from pytest_cideldill.calltraces.row_file import RowFile, plain
from pytest_cideldill.calltraces.values import Values
from pytest_cideldill.interpreter.frame_locals import read_locals
from pytest_cideldill.rendering.source_text import Texts

_SCALARS: Final = frozenset({int, float, bool, str, bytes, complex, type(None)})
_TEXTS: Final = frozenset({str, bytes})
_LONGEST: Final = 10_000
"""Characters of a text that is remembered by its value."""

_LAST: Final = 400
"""Rows that are kept from the end, when there were too many lines."""

_MOST_PARTS: Final = 3
"""Changed items of one object that are shown one by one."""

_NONE: Final[tuple[Chain, ...]] = ()


class LineRecorder:
    """Records the chosen call.

    Args:
        rows: Take what is recorded.
        values: Render values.
        most: How many lines are recorded.

    Attributes:
        frame_id: The id of the frame of the call.
    """

    def __init__(self, rows: RowFile, values: Values, most: int) -> None:
        self._rows = rows
        self._values = values
        self._most = most
        self._left = most
        self._reader = Reader()
        self._chains: Mapping[int, Sequence[Chain]] = {}
        self._heads: dict[str, str] = {}
        self._seen: dict[str, Any] = {}
        self._states: dict[str, tuple[int, tuple[Any, ...]]] = {}
        self._now: Sequence[Chain] = _NONE
        self._end: deque[str] = deque(maxlen=_LAST)
        self._skipped = 0
        self.frame_id = 0

    def begin(self, frame: FrameType, texts: Texts) -> None:
        """The call begins: its arguments are known."""
        self.frame_id = id(frame)
        self._chains = chains_of(frame, texts)
        self._notice(read_locals(frame), is_first=True)

    def line(self, frame: FrameType, line: int) -> None:
        """A line begins; what the one before changed is recorded first."""
        names = read_locals(frame)
        self._notice(names)
        if self._states:
            self._compare(names, frame)
        self._add(f'["line",{line}]')
        self._now = chains = self._chains.get(line, _NONE)
        if chains:
            self._look(chains, names, frame)
        elif self._states:
            self._states.clear()

    def changes(self, frame: FrameType) -> None:
        """The frame is left, for now or for good: record what the line has changed."""
        names = read_locals(frame)
        self._notice(names)
        self._compare(names, frame)
        self._now = _NONE
        self._states.clear()

    def resumes(self, frame: FrameType) -> None:
        """The frame goes on: what others changed meanwhile is not of its lines."""
        self._notice(read_locals(frame), is_first=True)

    def add(self, row: str) -> None:
        """A row in between, as JSON."""
        self._add(row)

    def end(self) -> None:
        """Leave the last rows, if there were too many."""
        if self._skipped:
            kept = self._end
            shown = f"{self._skipped - len(kept)} lines are left out here, after {self._most}"
            self._rows.add(["reached", "lines", shown])
            for row in kept:
                self._rows.add_text(row)
            kept.clear()
            self._skipped = 0

    def _add(self, row: str) -> None:
        if self._left > 0:
            self._left -= 1
            self._rows.add_text(row)
        else:
            self._skipped += 1
            self._end.append(row)

    # --- what changed -----------------------------------------------------------------------

    def _compare(self, names: Mapping[str, Any], frame: FrameType) -> None:
        for chain in self._now:
            before = self._states.get(chain.text)
            if before is None:
                continue
            value = self._reader.follow(chain, names, frame)
            if value is MISSING or id(value) != before[0]:
                continue  # another object by now, which is a change of the one that holds it
            after = self._reader.state(value)
            if after is not None and after != before[1]:
                self._changed(chain.text, value, before[1], after)

    def _look(self, chains: Sequence[Chain], names: Mapping[str, Any], frame: FrameType) -> None:
        states = self._states
        states.clear()
        looked: set[int] = set()
        for chain in chains:
            value = self._reader.follow(chain, names, frame)
            if type(value) in _SCALARS or value is MISSING or id(value) in looked:
                continue
            looked.add(id(value))
            state = self._reader.state(value)
            if state is not None:
                states[chain.text] = id(value), state

    def _notice(self, names: Mapping[str, Any], *, is_first: bool = False) -> None:
        """Compare the locals with those before."""
        seen = self._seen
        before = seen.get
        for name, value in names.items():
            old = before(name, MISSING)
            if old is value:
                continue
            kind = type(value)
            if kind in _SCALARS and not (kind in _TEXTS and len(value) > _LONGEST):
                if type(old) is kind and old == value:
                    continue
                seen[name] = value
            elif type(old) is tuple and old[0] == id(value) and old[1] == id(kind):
                continue
            else:
                seen[name] = (id(value), id(kind))
            if not is_first:
                self._add(f"{self._head(name)}{self._values.show(value, name)}]")
        if len(seen) > len(names):
            for name in [name for name in seen if name not in names]:
                del seen[name]
                if not is_first:
                    self._add(f"{self._head(name)}null]")

    def _head(self, name: str) -> str:
        head = self._heads.get(name)
        if head is None:
            head = self._heads[name] = f'["change",{plain(name)},'
        return head

    def _changed(
        self, text: str, value: Any, before: tuple[Any, ...], after: tuple[Any, ...]
    ) -> None:
        parts = _parts(before, after)
        if parts is None or len(parts) > _MOST_PARTS:
            shown = self._values.show(value, text.rpartition(".")[2])
            self._add(f'["change",{plain(text)},{shown}]')
            return
        for key in parts:
            held = self._reader.part(value, key)
            is_item = type(value) in (list, dict)
            part = f"{text}[{key!r}]" if is_item else f"{text}.{key}"
            name = key if type(key) is str else ""
            shown = "null" if held is MISSING else self._values.show(held, name)
            self._add(f'["change",{plain(part)},{shown}]')


def _parts(before: tuple[Any, ...], after: tuple[Any, ...]) -> list[Any] | None:
    """The keys whose values differ; None: the object is to be shown as a whole."""
    size, keys, ids = before
    size_now, keys_now, ids_now = after
    if keys is None or keys_now is None:
        if keys is not keys_now or size_now < size or size_now > MOST_ITEMS or size > MOST_ITEMS:
            return None
        return [at for at, each in enumerate(ids_now) if at >= size or ids[at] != each]
    if max(size, size_now) > MOST_ITEMS:
        return None
    old, new = dict(zip(keys, ids, strict=True)), dict(zip(keys_now, ids_now, strict=True))
    return [key for key in {**old, **new} if old.get(key) != new.get(key)]
