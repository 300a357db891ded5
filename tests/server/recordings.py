"""Recordings of questions for tests: made row by row, or of real code by a small tracer.

The product's recorder lives in the process under test; here only its format counts.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from cideldill_mcp.questions.recordings.recorded import Recorded
from cideldill_mcp.questions.recordings.row_reader import read_recorded

NODEID = "tests/test_shop.py::test_total"


class Rows:
    """Builds the rows of one process."""

    def __init__(self, rootdir: str = "/projects/shop") -> None:
        self.rows: list[list[Any]] = [["process", "3.12.1", rootdir]]
        self._codes: dict[Any, int] = {}
        self._calls = 0

    def add(self, *row: Any) -> None:
        self.rows.append(list(row))

    def test(self, nodeid: str = NODEID) -> None:
        self.add("test", nodeid)
        self.add("phase", "call")

    def code(
        self,
        qualname: str,
        module: str = "shop.cart",
        first: int = 1,
        last: int = 9,
        kind: str = "function",
        file: str = "",
    ) -> int:
        key = (module, qualname)
        if key not in self._codes:
            self._codes[key] = len(self._codes) + 1
            file = file or module.replace(".", "/") + ".py"
            self.add("code", self._codes[key], module, qualname, file, first, last, kind)
        return self._codes[key]

    def begin(
        self,
        code: int | str,
        parent: int = 0,
        line: int = 0,
        args: dict[str, str] | None = None,
        thread: str = "",
        via: str = "",
    ) -> int:
        code = self.code(code) if isinstance(code, str) else code
        self._calls += 1
        pairs = [list(each) for each in (args or {}).items()]
        self.add("call", self._calls, parent, code, line, thread, pairs, via)
        return self._calls

    def call(
        self,
        code: int | str,
        parent: int = 0,
        line: int = 0,
        *,
        result: str = "None",
        error: str = "",
        args: dict[str, str] | None = None,
        inside: Callable[[int], object] = lambda call: None,
    ) -> int:
        """A whole call."""
        call = self.begin(code, parent, line, args)
        inside(call)
        self.add("unwind", call, error) if error else self.add("return", call, result)
        return call

    def end(
        self, outcome: str = "passed", text: str | None = None, line: int | None = None
    ) -> None:
        file = None if text is None else "tests/test_shop.py"
        self.add("outcome", "call", outcome, text, file, line)
        self.add("end")

    def write(self, path: Path, a_line: int = 500) -> Path:
        with path.open("w", encoding="utf-8") as file:
            for at in range(0, len(self.rows), a_line):
                file.write(json.dumps(self.rows[at : at + a_line]) + "\n")
        return path

    def read(self, folder: Path) -> Recorded:
        return read_recorded(self.write(folder / "rows"))


_KINDS = {
    inspect.CO_ASYNC_GENERATOR: "async_generator",
    inspect.CO_COROUTINE: "coroutine",
    inspect.CO_GENERATOR: "generator",
}


def _text(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - code of a test, and the object may be half made
        return object.__repr__(value)


class _Tracer:
    """Writes the rows of what runs in the files of a folder."""

    def __init__(self, rows: Rows, folder: Path, focus: str, count: int) -> None:
        self._rows, self._folder = rows, folder
        self._focus, self._wanted, self._count = focus, count, 0
        self._numbers: dict[FrameType, int] = {}
        self._chosen: FrameType | None = None
        self._before: dict[str, str] = {}
        self._raised: dict[FrameType, str] = {}
        self._returns: dict[FrameType, list[Any]] = {}
        self.counts: dict[CodeType, dict[int, int]] = {}

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        if not frame.f_code.co_filename.startswith(str(self._folder)):
            return None
        getattr(self, f"_{event}", lambda *_: None)(frame, arg)
        return self

    def code(self, code: CodeType) -> int:
        file = Path(code.co_filename).relative_to(self._folder)
        last = max((line for *_, line in code.co_lines() if line), default=code.co_firstlineno)
        kind = next((kind for flag, kind in _KINDS.items() if code.co_flags & flag), "function")
        module = ".".join(file.with_suffix("").parts)
        if code.co_name == "<module>":
            kind = "module"
        return self._rows.code(
            code.co_qualname, module, code.co_firstlineno, last, kind, file.as_posix()
        )

    def _call(self, frame: FrameType, _arg: Any) -> None:
        if frame in self._numbers:
            # It goes on, so what looked like its return was none.
            paused = self._returns[frame]
            if frame.f_code.co_flags & inspect.CO_COROUTINE:
                paused[:] = ["wait", paused[1]]
            else:
                paused[0] = "yield"
            self._rows.add("resume", self._numbers[frame], "")
            return
        above = frame.f_back
        while above is not None and above not in self._numbers:
            above = above.f_back
        code = frame.f_code
        names = code.co_varnames[: code.co_argcount]
        self._numbers[frame] = call = self._rows.begin(
            self.code(code),
            self._numbers[above] if above else 0,
            above.f_lineno if above else 0,
            {name: _text(frame.f_locals[name]) for name in names if name in frame.f_locals},
        )
        if code.co_qualname == self._focus:
            self._count += 1
            if self._count == self._wanted:
                self._chosen, self._before = frame, self._locals(frame)
                self._rows.add("focus", call, self._count)

    def _locals(self, frame: FrameType) -> dict[str, str]:
        return {name: _text(value) for name, value in frame.f_locals.items()}

    def _changes(self, frame: FrameType) -> None:
        if frame is self._chosen:
            now = self._locals(frame)
            for name in {**self._before, **now}:
                if now.get(name) != self._before.get(name):
                    self._rows.add("change", name, now.get(name))
            self._before = now

    def _line(self, frame: FrameType, _arg: Any) -> None:
        counts = self.counts.setdefault(frame.f_code, {})
        counts[frame.f_lineno] = counts.get(frame.f_lineno, 0) + 1
        self._raised.pop(frame, None)
        if frame is self._chosen:
            self._changes(frame)
            self._rows.add("line", frame.f_lineno)

    def _exception(self, frame: FrameType, arg: Any) -> None:
        if not issubclass(arg[0], StopIteration | GeneratorExit):
            self._raised[frame] = f"{arg[0].__name__}: {arg[1]}"
            if frame is self._chosen:
                self._rows.add("raise", self._raised[frame])

    def _return(self, frame: FrameType, arg: Any) -> None:
        self._changes(frame)
        call = self._numbers[frame]
        if frame in self._raised:
            self._rows.add("unwind", call, self._raised[frame])
        else:
            self._rows.add("return", call, _text(arg))
            self._returns[frame] = self._rows.rows[-1]


@contextmanager
def _traced(tracer: Any) -> Iterator[None]:
    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        yield
    finally:
        sys.settrace(before)


def recorded_run(
    folder: Path, source: str, function: str, *, focus: str = "", count: int = 1
) -> Recorded:
    """What a function of `shop.py` with this text does, as a test that passes or fails.

    Args:
        folder: Empty; where the file goes.
        source: Text of `shop.py`.
        function: Is called without arguments.
        focus: Qualified name of the chosen call's function.
        count: The how-manieth call of it.
    """
    file = folder / "shop.py"
    file.write_text(source, encoding="utf-8")
    namespace: dict[str, Any] = {"__name__": "shop"}
    exec(compile(source, str(file), "exec"), namespace)
    rows = Rows(str(folder))
    rows.test()
    tracer = _Tracer(rows, folder, focus, count)
    failure: BaseException | None = None
    with _traced(tracer):
        try:
            namespace[function]()
        except BaseException as error:  # noqa: BLE001 - whatever the test raises is its failure
            failure = error
    for code, counts in tracer.counts.items():
        rows.add("lines", tracer.code(code), [list(each) for each in counts.items()])
    if focus:
        rows.add("matches", tracer._count)
    if failure is None:
        rows.end()
    else:
        rows.end("failed", f"{type(failure).__name__}: {failure}", 1)
    return rows.read(folder)
