"""What the tests of event sources share: checks run in a plain interpreter of their own.

A file of checks is a test module and a script: the script runs every function whose name starts
with `check_` and prints what became of it; the test module runs the script and reports what failed.
Neither imports pytest where a script can do without, as that takes longer than most scripts.
After each check the interpreter must look as if no source had ever been there.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import re
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FrameType
from typing import Any

from pytest_cideldill.tracing.interface import Handlers, Source, Watch, open_source

ROOT = Path(__file__).resolve().parent.parent.parent
MONITORING = sys.version_info >= (3, 12)
OUR_IDS = (4, 5, 2)


class Skipped(Exception):
    """A check that does not apply here; the message says why."""


class Consumer:
    """Collects what a source tells. Lines are told as the comment at their end, `# like this`."""

    def __init__(self) -> None:
        self.hits: list[str] = []
        self.codes: list[CodeType] = []
        self.ended: list[str] = []
        self.failures: list[str] = []
        self.quiet: set[int] = set()
        self.on_hit: Callable[[FrameType, int], None] = lambda frame, line: None
        self.on_found: Callable[[CodeType, FrameType], Watch] = lambda code, frame: Watch.NOTHING
        self.ours: tuple[str, ...] = (__file__,)
        self.source: Source | None = None

    def handlers(self) -> Handlers:
        return Handlers(
            on_code=self._on_code,
            on_module_end=lambda code, frame: self.ended.append(frame.f_globals["__name__"]),
            on_line=self._on_line,
            on_failure=self.failures.append,
            is_ours=lambda file: file in self.ours,
            quiet=self.quiet,
        )

    def _on_code(self, code: CodeType, frame: FrameType) -> Watch:
        self.codes.append(code)
        return self.on_found(code, frame)

    def _on_line(self, frame: FrameType, line: int) -> None:
        self.hits.append(name_of_line(frame.f_code.co_filename, line))
        self.on_hit(frame, line)


@contextmanager
def opened(consumer: Consumer) -> Iterator[Source]:
    source = consumer.source = open_source(consumer.handlers())
    watched: dict[int, CodeType] = {}
    _remember(source, watched)
    try:
        yield source
    finally:
        source.close()
        source.close()
        assert armed(watched.values()) == []


def _remember(source: Source, watched: dict[int, CodeType]) -> None:
    """Let the source tell which code objects it was asked to arm."""
    for name in ("watch_lines", "record_calls"):
        method = getattr(source, name)

        def call(code: CodeType, *args: Any, _method: Any = method) -> Any:
            watched[id(code)] = code
            return _method(code, *args)

        setattr(source, name, call)


def armed(codes: Iterable[CodeType]) -> list[str]:
    """The code objects with local events of any tool id that may be ours."""
    if sys.version_info < (3, 12):
        return []
    get = sys.monitoring.get_local_events
    claimed = [tool for tool in OUR_IDS if sys.monitoring.get_tool(tool)]
    free = [tool for tool in OUR_IDS if tool not in claimed]
    for tool in free:
        sys.monitoring.use_tool_id(tool, "look")
    found = [code.co_qualname for code in codes if any(get(tool, code) for tool in free)]
    for tool in free:
        sys.monitoring.free_tool_id(tool)
    return found


def assert_clean() -> None:
    """No tracer, no claimed tool id, no callback and no global event."""
    assert sys.gettrace() is None, sys.gettrace()
    assert threading.gettrace() is None
    assert sys.getprofile() is None
    if sys.version_info >= (3, 12):
        monitoring = sys.monitoring
        for name in ("use_tool_id", "free_tool_id"):
            assert type(getattr(monitoring, name)) is BuiltinFunctionType
        for tool in OUR_IDS:
            assert monitoring.get_tool(tool) is None, monitoring.get_tool(tool)
            monitoring.use_tool_id(tool, "look")
            assert monitoring.get_events(tool) == 0
            for event in (1 << number for number in range(17)):
                assert monitoring.register_callback(tool, event, None) is None
            monitoring.free_tool_id(tool)


# --- places in the source -------------------------------------------------------------------------


@functools.cache
def _names(file: str) -> dict[int, str]:
    if not os.path.exists(file):
        return {}
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    marked = {number: line for number, line in enumerate(lines, 1) if "# " in line}
    return {number: line.rpartition("# ")[2].strip() for number, line in marked.items()}


def name_of_line(file: str, line: int) -> str:
    return _names(file).get(line, f"line {line}")


def lines(code: CodeType, *names: str) -> frozenset[int]:
    """The lines of a code object, or of the code inside it, that end with these comments."""
    first = code.co_firstlineno
    last = max(line for each in tree(code) for _, _, line in each.co_lines() if line)
    found = {name: line for line, name in _names(code.co_filename).items() if first <= line <= last}
    return frozenset(found[name] for name in names)


def code_of(function: Any) -> CodeType:
    code = inspect.unwrap(function).__code__
    assert isinstance(code, CodeType)
    return code


def tree(code: CodeType) -> Iterator[CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from tree(const)


def inner(function: Any, name: str) -> CodeType:
    """The code object called `name` inside a function."""
    return next(code for code in tree(code_of(function)) if code.co_name == name)


class Caught:
    """What `expected_error` caught."""

    value: BaseException


@contextmanager
def expected_error(*kinds: type[BaseException], match: str = "") -> Iterator[Caught]:
    """As `pytest.raises`."""
    caught = Caught()
    try:
        yield caught
    except kinds as error:
        caught.value = error
    else:
        raise AssertionError(f"no {kinds}")
    assert re.search(match, str(caught.value)), caught.value


def in_thread(function: Callable[[], object]) -> None:
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


# --- running --------------------------------------------------------------------------------------


def run_as_script(namespace: dict[str, Any]) -> None:
    """Run the checks of a script, or the ones named on the command line; print JSON."""
    results = {}
    for name in sys.argv[1:] or checks(namespace):
        try:
            namespace[name]()
            assert_clean()
        except Skipped as reason:
            results[name] = f"skipped: {reason}"
        except BaseException:  # noqa: BLE001 - a border: every outcome is told
            results[name] = traceback.format_exc()
        else:
            results[name] = "passed"
    print(json.dumps(results))


def checks(namespace: dict[str, Any]) -> list[str]:
    return [name for name in namespace if name.startswith("check_")]


def report(script: str) -> None:
    """Run the checks of a script; a test fails with what the failing ones say."""
    done = subprocess.run(
        [sys.executable, "-W", "error", script],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COVERAGE_CORE": ""},
    )
    assert done.stdout, done.stderr
    outcomes: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    assert outcomes
    failed = {
        name: outcome
        for name, outcome in outcomes.items()
        if outcome != "passed" and not outcome.startswith("skipped: ")
    }
    assert not failed, "".join(f"\n{name}: {outcome}" for name, outcome in failed.items())
