"""Records of calls: when, by whom, with what, to what end. Nothing of the program is changed.

Recorded are the functions chosen by glob and those that have a breakpoint. Runs on the calling
threads, through the event source; rows go to the log. The hot path is `_on_start` and `_on_end`.
"""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import count
from types import CodeType
from types import FrameType
from typing import Any

from pytest_cideldill.capture.calls import Parameters
from pytest_cideldill.capture.calls import raised
from pytest_cideldill.capture.lens import Lens
from pytest_cideldill.capture.objects import Frozen
from pytest_cideldill.capture.objects import Objects
from pytest_cideldill.clock import wall
from pytest_cideldill.probes.begun import Begun
from pytest_cideldill.probes.begun import current
from pytest_cideldill.probes.position import Position
from pytest_cideldill.sources.events import OnStart
from pytest_cideldill.sources.events import Source
from pytest_cideldill.sources.events import SourceUnavailable
from pytest_cideldill.sources.interpose import is_trampoline

Row = tuple[Any, ...]
"""As `log.Row`."""

_GENERATES = 0x20 | 0x200  # CO_GENERATOR, CO_ASYNC_GENERATOR

_MOST_ANNOUNCED = 100


class Recording:
    """See the module.

    Args:
        patterns: Globs over dotted paths, as `shop.cart.*`.
        lens: Shows values.
        add: Takes a row per call that ended, and per call that runs while something stops.
        position: Tells the test.
        prefix: What the ids of calls begin with: `r1.main`.
        objects: Takes arguments and results for their content ids.
    """

    def __init__(
        self,
        patterns: Iterable[str],
        lens: Lens,
        add: Callable[[Row], None],
        position: Position,
        prefix: str = "r0.main",
        objects: Objects | None = None,
    ) -> None:
        self._objects = objects
        self._patterns = tuple(patterns)
        self._lens = lens
        self._add = add
        self._position = position
        self._prefix = prefix
        self._chosen: set[int] = set()
        self._seen: set[int] = set()
        # Bound once, for the hot path.
        self._freeze = None if objects is None else objects.freeze
        self._show = lens.show
        self._tell = self.told
        self._next_number = count(1).__next__
        # All that run, by number. Single items are set and popped: atomic.
        self._running: dict[int, Begun] = {}
        # Thread → the calls that it is about to make, which have a number already.
        self._announced: dict[int, list[tuple[CodeType, Begun]]] = {}
        self._ours: dict[str, bool] = {}  # file → whether it is one of ours

    @property
    def wants_any(self) -> bool:
        """Whether functions were chosen by glob."""
        return bool(self._patterns)

    # --- what is recorded -------------------------------------------------------------------

    def consider(self, source: Source, root: CodeType, module: str) -> None:
        """Record the functions inside a code object (a module's, or one function's) that match."""
        if not self._lens.project.is_user(root.co_filename):
            return
        for code in _functions_in(root):
            name = f"{module}.{code.co_qualname.replace('.<locals>', '')}"
            if any(fnmatchcase(name, pattern) for pattern in self._patterns):
                self._chosen.add(id(code))
                self.record(source, code, f"{module}.{code.co_qualname}")

    def unrecord(self, source: Source, code: CodeType) -> None:
        """Record no more calls of a function that was not chosen by glob."""
        if id(code) not in self._chosen:
            source.stop_recording(code)
            self._seen.discard(id(code))

    def record(self, source: Source, code: CodeType, name: str) -> None:
        """Record the calls of one function from now on."""
        try:
            source.record_calls(code, self._starting(code, name), self._on_end)
            self._seen.add(id(code))  # the source keeps the code object
        except SourceUnavailable:
            return  # made by C: it has no Python calls to tell

    # --- on the calling threads -------------------------------------------------------------

    def begin(self, name: str, call_data: dict[str, Any], frame: FrameType) -> Begun:
        """A call that is intercepted, before it begins; then `announce` or `end` it.

        Args:
            name: Dotted path of the function.
            call_data: What a pause tells of it.
            frame: The trampoline's.
        """
        begun = Begun(
            self._next_number(),
            name,
            call_data["pretty_args"],
            call_data["pretty_kwargs"],
            self._caller(frame),
            self._position.nodeid,
        )
        self._running[begun.number] = begun
        return begun

    def sees(self, code: CodeType) -> bool:
        """Whether the event source tells the calls of a function."""
        return id(code) in self._seen

    def announce(self, begun: Begun, code: CodeType) -> None:
        """The next call of `code` on this thread is `begun`, if the event source tells it."""
        expected = self._announced.setdefault(get_ident(), [])
        expected.append((code, begun))
        del expected[:-_MOST_ANNOUNCED]  # of generators that never start

    def end(self, begun: Begun, result: object, error: BaseException | None) -> None:
        """An intercepted call ended; unless the event source has told it already."""
        if self._running.pop(begun.number, None) is not None:
            announced = self._announced.get(get_ident(), [])
            announced[:] = [each for each in announced if each[1] is not begun]
            self._finish(begun, result, error)

    def amend(
        self, begun: Begun, altered: str, result: object, error: BaseException | None
    ) -> None:
        """A client changed how a call ended: `altered` is `result` or `exception`."""
        begun.altered = altered
        self._finish(begun, result, error)

    def tell_running(self) -> None:
        """Have the log know the calls under way; before something stops."""
        for begun in list(self._running.values()):
            if not begun.is_told:
                begun.is_told = True
                self._add((self._tell, begun, "running", None, None, None, None))

    def id_of(self, begun: Begun) -> str:
        """The contract's `call_id`."""
        return f"{self._prefix}.c{begun.number}"

    def _starting(self, code: CodeType, name: str) -> OnStart:
        parameters = Parameters(code, self._lens)
        generates = code.co_flags & _GENERATES
        next_number, running, announced = self._next_number, self._running, self._announced
        freeze, position, caller_of = self._freeze, self._position, self._caller

        def on_start(frame: FrameType) -> object:
            begun = _expected(announced, code) if announced else None
            if begun is None:
                args, kwargs = parameters.shown(frame)
                caller = caller_of(frame)
                begun = Begun(next_number(), name, args, kwargs, caller, position.nodeid)
                if freeze is not None:
                    begun.frozen = parameters.frozen(frame, freeze)
                running[begun.number] = begun
            if not generates:  # a generator is left at a yield, and others run meanwhile
                current.set(begun.number)
            return begun

        return on_start

    def _caller(self, frame: FrameType) -> tuple[CodeType, int] | None:
        """Where a call came from, our own frames left out."""
        caller = frame.f_back
        while caller is not None:
            code = caller.f_code
            is_ours = self._ours.get(code.co_filename)
            if is_ours is None:
                is_ours = self._lens.project.is_ours(code.co_filename)
                self._ours[code.co_filename] = is_ours
            if not is_ours and not is_trampoline(code):
                return code, caller.f_lasti
            caller = caller.f_back
        return None

    def _on_end(
        self, token: object, frame: FrameType, result: object, error: BaseException | None
    ) -> None:
        assert type(token) is Begun
        self._running.pop(token.number, None)
        if not frame.f_code.co_flags & _GENERATES:
            current.set(token.parent)
        if error is not None:
            self._finish(token, result, error)
            return
        freeze = self._freeze
        frozen = None if freeze is None else freeze(result)
        self._add((self._tell, token, "success", wall(), self._show(result), None, frozen))

    def _finish(self, begun: Begun, result: object, error: BaseException | None) -> None:
        ended_at = wall()
        if error is None:
            frozen = None if self._freeze is None else self._freeze(result)
            self._add((self._tell, begun, "success", ended_at, self._show(result), None, frozen))
        else:
            told = raised(error, self._lens)
            self._add((self._tell, begun, "exception", ended_at, None, told, None))

    # --- on the I/O thread ------------------------------------------------------------------

    def told(self, row: Row) -> dict[str, Any]:
        """An event of type `call` (contract, section 2, Records) from a row.

        A row is `(told, Begun, status, completed at, result, exception, frozen result)`. A call
        that was told as running is told again, under its id, when it ended.
        """
        _, begun, status, completed_at, result, exception, frozen = row
        values: dict[str, Any] = {
            "type": "call",
            "ts": begun.started_at,
            "call_id": self.id_of(begun),
            "method_name": begun.name.rpartition(".")[2],
            "qualified_name": begun.name,
            "status": status,
            "pretty_args": list(begun.args),
            "pretty_kwargs": dict(begun.kwargs),
            "started_at": begun.started_at,
            "completed_at": completed_at,
            "parent_id": None if begun.parent is None else f"{self._prefix}.c{begun.parent}",
            "nodeid": begun.nodeid,
            "thread": begun.thread,
            "call_site": self._site(begun),
            "cids": self._cids(begun, frozen),
        }
        if result is not None:
            values["pretty_result"] = result
        if exception is not None:
            message = self._lens.text(exception["message"])
            values["exception"] = {**exception, "message": message}
        for name in ("altered", "replaced_by"):
            if getattr(begun, name) is not None:
                values[name] = getattr(begun, name)
        return values

    def _cids(self, begun: Begun, result: Frozen | None) -> dict[str, Any] | None:
        if self._objects is None:
            return None
        identify = self._objects.identify
        args, kwargs = begun.frozen
        return {
            "args": [identify(each).cid for each in args],
            "kwargs": {name: identify(each).cid for name, each in kwargs.items()},
            "result": None if result is None else identify(result).cid,
        }

    def _site(self, begun: Begun) -> dict[str, Any] | None:
        if begun.caller is None:
            return None
        code, place = begun.caller
        for start, end, line in code.co_lines():
            if start <= place < end:
                return {"file": self._lens.project.relative(code.co_filename), "line": line}
        return None


def _expected(announced: dict[int, list[tuple[CodeType, Begun]]], code: CodeType) -> Begun | None:
    """The oldest announced call of `code` on this thread."""
    mine = announced.get(get_ident(), [])
    for index, (expected, begun) in enumerate(mine):
        if expected is code:
            del mine[index]
            return begun
    return None


def _functions_in(root: CodeType) -> Iterator[CodeType]:
    """The code of functions and methods, nested ones too; no class bodies, no lambdas."""
    if root.co_flags & 0x02 and not root.co_name.startswith("<"):  # CO_NEWLOCALS: no class body
        yield root
    for constant in root.co_consts:
        if type(constant) is CodeType:
            yield from _functions_in(constant)
