"""Recorded calls of functions chosen by glob: when, with what, to what end; nothing is changed.

Runs on the calling threads, through the event source; rows go to the call log. The hot path of a
recorded call is `_on_start` and `_on_end`.
"""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from fnmatch import fnmatchcase
from types import CodeType
from types import FrameType
from typing import Any

from pytest_cideldill import clock
from pytest_cideldill.capture.calls import arguments_text
from pytest_cideldill.capture.lens import Lens
from pytest_cideldill.capture.snapshot import type_name
from pytest_cideldill.probes.position import Position
from pytest_cideldill.sources.events import OnStart
from pytest_cideldill.sources.events import Source
from pytest_cideldill.sources.events import SourceUnavailable


class Recording:
    """See the module.

    Args:
        patterns: Globs over dotted paths, as `shop.cart.*`.
        lens: Shows values.
        add: Takes a row per call (`log.Row`).
        position: Tells the test.
    """

    def __init__(
        self,
        patterns: Iterable[str],
        lens: Lens,
        add: Callable[[tuple[Any, ...]], None],
        position: Position,
    ) -> None:
        self._patterns = tuple(patterns)
        self._lens = lens
        self._add = add
        self._position = position

    @property
    def wants_any(self) -> bool:
        """Whether anything is to be recorded."""
        return bool(self._patterns)

    def consider(self, source: Source, root: CodeType, module: str) -> None:
        """Record the functions inside a code object (a module's, or one function's) that match."""
        if not self._lens.project.is_user(root.co_filename):
            return
        for code in _functions_in(root):
            name = f"{module}.{code.co_qualname.replace('.<locals>', '')}"
            if any(fnmatchcase(name, pattern) for pattern in self._patterns):
                try:
                    source.record_calls(code, self._starting(name), self._on_end)
                except SourceUnavailable:
                    continue  # made by C: it has no Python calls to tell

    def _starting(self, name: str) -> OnStart:
        show = self._lens.show

        def on_start(frame: FrameType) -> object:
            return (clock.wall(), name, arguments_text(frame, show))

        return on_start

    def _on_end(
        self, token: object, _frame: FrameType, result: object, error: BaseException | None
    ) -> None:
        assert isinstance(token, tuple)
        started_at, name, args = token
        shown = self._lens.show(result) if error is None else None
        raised = None if error is None else type_name(error)
        nodeid, ended_at = self._position.nodeid, clock.wall()
        self._add(
            (started_at, ended_at - started_at, name, nodeid, get_ident(), args, shown, raised)
        )


def _functions_in(root: CodeType) -> Iterator[CodeType]:
    """The code of functions and methods, nested ones too; no class bodies, no lambdas."""
    if root.co_flags & 0x02 and not root.co_name.startswith("<"):  # CO_NEWLOCALS: no class body
        yield root
    for constant in root.co_consts:
        if type(constant) is CodeType:
            yield from _functions_in(constant)
