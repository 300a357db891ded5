"""The lines of one call, and what each of them changed; on the thread that runs it.

Nothing of the program is kept alive: of numbers and texts the value is remembered, of all else the
id.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any, Final

from pytest_cideldill.calltraces.named import MISSING, MOST_ITEMS, Chain, Reader, chains_of
from pytest_cideldill.calltraces.row_file import RowFile, plain
from pytest_cideldill.calltraces.value_texts import LARGE, Values
from pytest_cideldill.interpreter.frame_locals import locals_reader, read_locals
from pytest_cideldill.rendering.source_text import Texts

_SCALARS: Final = frozenset({int, float, bool, str, bytes, complex, type(None)})
_TEXTS: Final = frozenset({str, bytes})
_LONGEST: Final = 10_000
"""Characters of a text that is remembered by its value."""

_LAST: Final = 400
"""Rows that are kept from the end, when there were too many lines."""

_MOST_PARTS: Final = 3
"""Changed items of one object that are shown one by one."""


class LineRecorder:
    """Records the chosen call.

    Args:
        rows: Take what is recorded.
        values: Render values.
        most: How many lines are recorded.

    Attributes:
        frame_id: The id of the frame of the call.
        add: Takes a row in between, as JSON text.
    """

    def __init__(self, rows: RowFile, values: Values, most: int) -> None:
        self._rows = rows
        self._values = values
        self._most = most
        self._left = most
        self._reader = Reader()
        self._chains: Mapping[int, Sequence[Chain]] = {}
        self._heads: dict[str, tuple[str, bool]] = {}
        self._seen: dict[str, Any] = {}
        self._states: dict[str, tuple[int, tuple[Any, ...]]] = {}
        self._now: Sequence[Chain] = ()
        self._last: deque[str] = deque(maxlen=_LAST)
        self._read: Callable[[FrameType], Mapping[str, Any]] = read_locals
        self.add: Callable[[str], None] = rows.add_text
        self.frame_id = 0

    @property
    def is_full(self) -> bool:
        """Whether there were more lines than are recorded."""
        return self._left < 0

    def begin(self, frame: FrameType, texts: Texts) -> None:
        """The call begins: its arguments are known."""
        self.frame_id = id(frame)
        self._read = locals_reader(frame.f_code)
        self._chains = chains_of(frame, texts)
        self._notice(self._read(frame), is_first=True)

    def line(self, frame: FrameType, line: int) -> None:
        """A line begins; what the one before changed is recorded first."""
        names = self._read(frame)
        self._notice(names)
        if self._states:
            self._compare(names, frame)
        self._left -= 1
        if self._left < 0:
            self.add = self._last.append
        self.add(f'["line",{line}]')
        if line in self._chains:
            self._now = self._chains[line]
            self._look(names, frame)

    def changes(self, frame: FrameType) -> None:
        """The frame is left, for now or for good: record what the line has changed."""
        names = self._read(frame)
        self._notice(names)
        self._compare(names, frame)

    def resumes(self, frame: FrameType) -> None:
        """The frame goes on: what others changed meanwhile is not of its lines."""
        self._notice(self._read(frame), is_first=True)

    def end(self) -> None:
        """Leave the last rows, if there were too many lines."""
        if self.is_full:
            count = self._most - self._left
            shown = f"of {count:,} lines the first {self._most:,} and the last few are recorded"
            self._rows.add(["reached", "lines", shown])
            for row in self._last:
                self._rows.add_text(row)
            self._last.clear()

    # --- what changed -----------------------------------------------------------------------

    def _compare(self, names: Mapping[str, Any], frame: FrameType) -> None:
        """Compare what the line before named with its state then."""
        states, reader = self._states, self._reader
        for chain in self._now:
            before = states.get(chain.text)
            if before is None:
                continue
            value = reader.follow(chain, names, frame)
            if value is MISSING or id(value) != before[0]:
                continue  # another object by now, which is a change of the one that holds it
            after = reader.state(value)
            if after is not None and after != before[1]:
                self._changed(chain.text, value, before[1], after)
        states.clear()

    def _look(self, names: Mapping[str, Any], frame: FrameType) -> None:
        """Remember the states of what a line names."""
        states, reader = self._states, self._reader
        looked: set[int] = set()
        for chain in self._now:
            value = reader.follow(chain, names, frame)
            if type(value) in _SCALARS or value is MISSING or id(value) in looked:
                continue
            looked.add(id(value))
            state = reader.state(value)
            if state is not None:
                states[chain.text] = id(value), state

    def _notice(self, names: Mapping[str, Any], *, is_first: bool = False) -> None:
        """Compare the locals with those before."""
        seen = self._seen
        before, heads = seen.get, self._heads
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
                head, hidden = heads[name] if name in heads else self._head(name)
                if kind is int and not hidden and -LARGE < value < LARGE:
                    self.add(f'{head}"{value}"]')
                else:
                    self.add(f"{head}{self._values.show(value, name, hidden=hidden)}]")
        if len(seen) > len(names):
            for name in [name for name in seen if name not in names]:
                del seen[name]
                if not is_first:
                    self.add(f"{self._head(name)[0]}null]")

    def _head(self, name: str) -> tuple[str, bool]:
        """The beginning of a row of a local, and whether its name is sensitive."""
        found = (f'["change",{plain(name)},', self._values.lens.is_sensitive(name))
        self._heads[name] = found
        return found

    def _changed(
        self, text: str, value: Any, before: tuple[Any, ...], after: tuple[Any, ...]
    ) -> None:
        parts = _parts(before, after)
        if parts is None or len(parts) > _MOST_PARTS:
            self._add_part(text, value, text.rpartition(".")[2])
            return
        is_item = type(value) in (list, dict)
        for key in parts:
            name = key if type(key) is str else ""
            part = f"{text}[{key!r}]" if is_item else f"{text}.{key}"
            self._add_part(part, self._reader.part(value, key), name)

    def _add_part(self, text: str, value: Any, name: str) -> None:
        shown = "null"
        if value is not MISSING:
            hidden = bool(name) and self._values.lens.is_sensitive(name)
            shown = self._values.show(value, name, hidden=hidden)
        self.add(f'["change",{plain(text)},{shown}]')


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
