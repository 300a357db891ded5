"""Code of tests that is run here, for the lines that ran: as a question's process leaves them."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent
from types import CodeType, FrameType
from typing import Any

from cideldill_mcp.questions.recordings.listing import SourceFiles
from cideldill_mcp.questions.recordings.recorded import Code, Phase, RecordedTest
from pytest_cideldill.sourcecode.codes import lines_of, walk

FILE = "shop.py"
NODEID = "test_shop.py::test_it[here]"


class Runs:
    """Runs `main` of a source, and gives the lines that ran as a test.

    Args:
        folder: Gets the source.
        source: Defines `main(value)`; None: it is there already.
    """

    def __init__(self, folder: Path, source: str | None) -> None:
        path = folder / FILE
        if source is not None:
            path.write_text(dedent(source).lstrip(), encoding="utf-8")
        code = compile(path.read_text(encoding="utf-8"), str(path), "exec", dont_inherit=True)
        self.files = SourceFiles(str(folder))
        self._names: dict[str, Any] = {"__name__": "shop"}
        exec(code, self._names)
        self._codes: dict[CodeType, Code] = {}
        for at, (each, _, _) in enumerate(walk(code)):
            if each.co_flags & 1 and not each.co_name.startswith("<"):
                last = max(line for inner, _, _ in walk(each) for line in lines_of(inner))
                self._codes[each] = Code(
                    *(at, "shop", each.co_qualname, FILE, each.co_firstlineno, last, "function")
                )

    def test(self, value: object, nodeid: str = NODEID) -> RecordedTest:
        """The test that calls `main` with a value; it fails if that raises."""
        lines: dict[CodeType, set[int]] = {}
        frames: list[Code] = []

        def trace(frame: FrameType, event: str, arg: object) -> Any:
            if frame.f_code not in self._codes:
                return None
            if event in ("call", "line"):
                lines.setdefault(frame.f_code, set())
            if event == "line":
                lines[frame.f_code].add(frame.f_lineno)
            return trace

        before = sys.gettrace()
        outcome = "passed"
        sys.settrace(trace)
        try:
            self._names["main"](value)
        except Exception as error:  # noqa: BLE001 - of the code of a test
            outcome = "failed"
            place = error.__traceback__
            while place is not None:
                if place.tb_frame.f_code in self._codes:
                    frames.insert(0, self._codes[place.tb_frame.f_code])
                place = place.tb_next
        finally:
            sys.settrace(before)
        ran = [(self._codes[code], numbers) for code, numbers in lines.items()]
        call = Phase("call", outcome=outcome, ran=ran, frames=frames)
        return RecordedTest(nodeid, [Phase("setup", outcome="passed"), call])
