"""Watched lines: where they work, when they work, and how often they count."""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

from pytest_cideldill.interpreter.code_files import frame_file
from pytest_cideldill.tracing.interface import Trail, Watch, existing_code, existing_functions
from tests.process.sources_checks import (
    MONITORING,
    Consumer,
    armed,
    code_of,
    expected_error,
    in_thread,
    inner,
    lines,
    opened,
    report,
    run_as_script,
    tree,
)


def total(numbers: list[int]) -> int:
    result = 0  # before
    for number in numbers:
        result += number  # body
    return result  # after


def check_a_line_hits_at_every_pass() -> None:
    consumer = Consumer()
    with opened(consumer) as source:
        wanted = lines(code_of(total), "before", "body")
        assert source.watch_lines(code_of(total), wanted) == wanted
        assert total([1, 2]) == 3
        source.watch_lines(code_of(total), frozenset())
        total([1])
    assert consumer.hits == ["before", "body", "body"]


def check_nothing_is_reported_after_closing() -> None:
    consumer = Consumer()
    with opened(consumer) as source:
        source.watch_lines(code_of(total), lines(code_of(total), "body"))
        source.record_calls(code_of(total), lambda *_: 1, lambda *end: None)
        source.discover(True)
    found = len(consumer.codes)
    total([1])
    assert source.watch_lines(code_of(total), lines(code_of(total), "body")) == frozenset()
    source.discover(True)
    source.record_calls(code_of(total), lambda *_: 1, lambda *end: None)
    total([1])
    assert consumer.hits == []
    assert len(consumer.codes) == found


def check_a_line_that_is_added_later_hits_although_it_ran_before() -> None:
    """Trap B: its event was disabled, and only a reset of the code's events brings it back."""
    consumer = Consumer()
    with opened(consumer) as source:
        source.watch_lines(code_of(total), lines(code_of(total), "before"))
        total([1])
        source.watch_lines(code_of(total), lines(code_of(total), "before", "after"))
        total([1])
    assert consumer.hits == ["before", "before", "after"]


def check_the_other_lines_that_ran_are_known() -> None:
    """Also while a thread is followed; not what evaluations ran, nor what ran before."""
    consumer = Consumer()
    code = code_of(total)
    loop = {line - 1 for line in lines(code, "body")}
    with opened(consumer) as source:
        source.watch_lines(code, lines(code, "after"))
        consumer.quiet.add(threading.get_ident())
        total([1])
        assert source.ran(code) == set()
        in_thread(lambda: total([]))
        assert source.ran(code) == lines(code, "before") | loop
        consumer.quiet.clear()
        total([1])
        first = source.ran(code)
        assert first == lines(code, "before", "body") | loop
        source.watch_lines(code, lines(code, "before", "after"))
        assert source.ran(code) == set()
        source.follow(threading.get_ident(), Trail(anywhere=True))
        total([])
        source.follow(threading.get_ident(), None)
        assert source.ran(code) == loop
        total([1])
        assert source.ran(code) == lines(code, "body") | loop
        assert first == lines(code, "before", "body") | loop
        source.watch_lines(code, frozenset())
        total([1])
        assert source.ran(code) == set()


def check_lines_set_inside_a_hit_work_in_the_very_frame_that_stands_there() -> None:
    """Set by another thread while the handler blocks, as at a pause."""
    consumer = Consumer()
    code = code_of(total)
    with opened(consumer) as source:

        def pause(frame: FrameType, line: int) -> None:
            if len(consumer.hits) == 1:
                names = ("body", "after")
                in_thread(lambda: source.watch_lines(code, lines(code, *names)))

        consumer.on_hit = pause
        source.watch_lines(code, lines(code, "before"))
        total([1, 2])
    assert consumer.hits == ["before", "body", "body", "after"]


def check_lines_set_in_a_frame_that_runs_work_in_its_loop() -> None:
    consumer = Consumer()
    with opened(consumer) as source:

        def running() -> None:
            for number in range(4):
                if number == 2:
                    source.watch_lines(code_of(running), lines(code_of(running), "live"))
                number += 1  # live

        running()
    assert consumer.hits == ["live", "live"]


def check_suspended_generators_and_coroutines_are_reached() -> None:
    consumer = Consumer()

    def generator() -> Iterator[int]:
        yield 1
        yield 2  # generator

    async def coroutine() -> int:
        await asyncio.sleep(0)
        return 1  # coroutine

    async def main() -> None:
        task = asyncio.ensure_future(coroutine())
        await asyncio.sleep(0)
        source.watch_lines(code_of(coroutine), lines(code_of(coroutine), "coroutine"))
        await task

    with opened(consumer) as source:
        suspended = generator()
        next(suspended)
        source.watch_lines(code_of(generator), lines(code_of(generator), "generator"))
        next(suspended)
        asyncio.run(main())
    assert consumer.hits == ["generator", "coroutine"]


def check_code_without_a_name_and_class_bodies_are_reached() -> None:
    consumer = Consumer()

    def outer() -> list[int]:
        double: Any = lambda value: (  # noqa: E731
            value * 2  # lambda
        )

        class Local:
            attribute = 1  # class

        return [
            *(
                double(each)  # generator expression
                for each in (1, Local.attribute)
            )
        ]

    with opened(consumer) as source:
        for name in ("<lambda>", "Local", "<genexpr>"):
            code = inner(outer, name)
            marks = {"<lambda>": "lambda", "Local": "class", "<genexpr>": "generator expression"}
            assert source.watch_lines(code, lines(code_of(outer), marks[name]))
        assert outer() == [2, 2]
    assert consumer.hits == ["class", *["generator expression", "lambda"] * 2]


def check_a_definition_on_one_line_hits() -> None:
    """Trap C: 3.13 has no line event there without PY_START on the same tool."""
    consumer = Consumer()

    # fmt: off
    def one(value: int) -> int: return value  # one line

    many = [lambda value: value + 1]  # lambda on one line
    # fmt: on

    def calls() -> tuple[int, int, int]:
        return one(1), one(2), many[0](1)

    with opened(consumer) as source:
        for code, name in ((code_of(one), "one line"), (code_of(many[0]), "lambda on one line")):
            assert source.watch_lines(code, lines(code, name))
        assert calls() == (1, 2, 2)
        source.record_calls(code_of(one), lambda *_: None, lambda *end: None)
        assert calls() == (1, 2, 2)
        source.stop_recording(code_of(one))
        assert calls() == (1, 2, 2)
    assert consumer.hits == ["one line", "one line", "lambda on one line"] * 3


def check_only_the_code_that_holds_a_line_is_armed() -> None:
    """Trap D: far from the first line of its code a line event costs microseconds."""
    consumer = Consumer()

    def outer() -> Callable[[], int]:
        def held() -> int:
            return 1  # held

        return held

    with opened(consumer) as source:
        wanted = lines(code_of(outer), "held")
        assert source.watch_lines(code_of(outer), wanted) == frozenset()
        assert armed([code_of(outer)]) == []
        assert source.watch_lines(inner(outer, "held"), wanted) == wanted
        outer()()
    assert consumer.hits == ["held"]


def check_equal_code_objects_are_distinguished() -> None:
    """Trap A: two imports of one file compare equal and are armed separately."""
    consumer = Consumer()
    text = "def function():\n    return 1\n"
    first, second = ({}, {})  # type: ignore[var-annotated]
    for namespace in (first, second):
        exec(compile(text, __file__, "exec"), namespace)
    assert first["function"].__code__ == second["function"].__code__
    with opened(consumer) as source:
        source.watch_lines(first["function"].__code__, frozenset({2}))
        second["function"]()
        assert consumer.hits == []
        first["function"]()
    assert len(consumer.hits) == 1


def check_threads_that_run_already_and_new_ones_are_reached() -> None:
    consumer = Consumer()
    turn, ready, done = threading.Event(), threading.Event(), threading.Event()

    def worker() -> None:
        ready.set()
        turn.wait()
        tick()
        here = 1  # existing frame
        assert here
        done.set()

    def tick() -> int:
        return 1  # tick

    with opened(consumer) as source:
        thread = threading.Thread(target=worker)
        thread.start()
        ready.wait()
        source.watch_lines(code_of(tick), lines(code_of(tick), "tick"))
        source.watch_lines(code_of(worker), lines(code_of(worker), "existing frame"))
        turn.set()
        thread.join()
        assert consumer.hits == ["tick", "existing frame"]
        in_thread(tick)
    assert consumer.hits == ["tick", "existing frame", "tick"]
    in_thread(tick)
    assert len(consumer.hits) == 3


def check_threads_that_live_on_are_left_without_a_tracer() -> None:
    consumer = Consumer()
    turn, seen = threading.Event(), []
    started = threading.Event()

    def worker() -> None:
        started.set()
        turn.wait()
        seen.append((sys.gettrace(), sys._getframe().f_trace))

    with opened(consumer) as source:
        source.watch_lines(code_of(total), lines(code_of(total), "body"))
        source.watch_lines(code_of(worker), frozenset())
        thread = threading.Thread(target=worker)
        thread.start()
        started.wait()
    turn.set()
    thread.join()
    assert seen == [(None, None)]


def check_quiet_threads_hit_nothing() -> None:
    consumer = Consumer()
    with opened(consumer) as source:
        source.watch_lines(code_of(total), lines(code_of(total), "after"))
        source.record_calls(code_of(total), lambda *_: consumer.hits.append("call"), print)
        consumer.quiet.add(threading.get_ident())
        total([])
        in_thread(lambda: total([]))
    assert consumer.hits == ["call", "after"]


def check_a_handler_may_write_locals_and_others_too() -> None:
    """On 3.11 reading `f_locals` in a trace function would undo what another thread wrote."""
    consumer = Consumer()

    def shared() -> int:
        value = 1

        def change() -> None:
            nonlocal value
            value = 2

        changes.append(change)
        return value  # locals

    def look(frame: FrameType, line: int) -> None:
        assert frame.f_locals["value"] == 1
        in_thread(changes[0])

    changes: list[Callable[[], None]] = []
    consumer.on_hit = look
    with opened(consumer) as source:
        source.watch_lines(code_of(shared), lines(code_of(shared), "locals"))
        assert shared() == 2


# --- late binding ---------------------------------------------------------------------------------

MODULE = """\
first = 1
def function():
    return first
class Class:
    def method(self):
        return function()
last = Class().method()
"""


def import_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check_a_module_is_bound_before_its_first_line_runs_and_reported_when_it_ends() -> None:
    consumer = Consumer()
    with tempfile.TemporaryDirectory() as folder, opened(consumer) as source:
        path = Path(folder, "late.py")
        path.write_text(MODULE, encoding="utf-8")

        def bind(code: CodeType, frame: FrameType) -> Watch:
            if code.co_filename != str(path) or code.co_name != "<module>":
                return Watch.NOTHING
            for each in tree(code):
                source.watch_lines(each, frozenset({1, 3, 6, 7}))
            return Watch.END

        consumer.on_found = bind
        source.discover(True)
        import_file(path)
        assert consumer.hits == ["line 1", "line 7", "line 6", "line 3"]
        assert consumer.ended == ["late"]
        # Another import makes other code objects, which are found again.
        import_file(path)
        assert len(consumer.hits) == 8
        assert consumer.ended == ["late", "late"]


def check_a_module_that_fails_does_not_end() -> None:
    consumer = Consumer()
    consumer.on_found = lambda code, frame: Watch.END
    with tempfile.TemporaryDirectory() as folder, opened(consumer) as source:
        path = Path(folder, "failing.py")
        path.write_text("x = 1\nraise KeyError\n", encoding="utf-8")
        source.discover(True)
        with expected_error(KeyError):
            import_file(path)
    assert "failing" not in consumer.ended


def check_a_function_is_bound_at_its_first_call() -> None:
    consumer = Consumer()

    def function() -> int:
        return 1  # first call

    def bind(code: CodeType, frame: FrameType) -> Watch:
        if code is code_of(function):
            assert frame.f_code is code
            source.watch_lines(code, lines(code, "first call"))
        return Watch.NOTHING

    with opened(consumer) as source:
        consumer.on_found = bind
        source.discover(True)
        function()
        function()
        assert [code for code in consumer.codes if code is code_of(function)] == [code_of(function)]
        assert code_of(check_a_function_is_bound_at_its_first_call) in consumer.codes
        source.discover(False)
        found = len(consumer.codes)
        total([])
        assert len(consumer.codes) == found
    assert consumer.hits == ["first call", "first call"]


def check_what_exists_already_is_found() -> None:
    def generator() -> Iterator[int]:
        yield 1

    first: Any = generator()
    second: Any = (each for each in [1])
    assert next(first) == next(second) == 1
    assert total in existing_functions()
    code = {id(each) for each, _ in existing_code()}
    assert {id(code_of(total)), id(code_of(generator))} <= code
    assert id(second.gi_code) in code


MOVED = "def function(): return 1\n\ndef generator():\n    yield 1\n"


def check_a_stale_file_name_is_recognised() -> None:
    with tempfile.TemporaryDirectory() as folder:
        old, new = Path(folder, "old", "stale.py"), Path(folder, "new", "stale.py")
        old.parent.mkdir()
        old.write_text(MOVED, encoding="utf-8")
        code = compile(old.read_text(encoding="utf-8"), str(old), "exec")
        shutil.copytree(old.parent, new.parent)
        consumer = Consumer()
        found: list[tuple[str, str]] = []

        def stale(code: CodeType) -> bool:
            return code.co_filename == str(old)

        def bind(code: CodeType, frame: FrameType) -> Watch:
            found.append((code.co_filename, frame_file(frame)))
            return Watch.NOTHING

        consumer.on_found = bind
        with opened(consumer) as source:
            source.discover(True)
            names: dict[str, Any] = {"__file__": str(new)}
            exec(code, names)
            names["function"]()
            names["kept"] = names["generator"]()
            next(names["kept"])
            known = {code.co_name: file for code, file in existing_code() if stale(code)}
            exec(compile("x = 1", "<text>", "exec"), {"__file__": str(new)})
            import_file(new)
    assert found.count((str(old), str(new))) == 3
    assert known == {"function": str(new), "generator": str(new)}
    assert ("<text>", "<text>") in found
    assert (str(new), str(new)) in found


# --- passes ---------------------------------------------------------------------------------------


def f(*args: Any, **kwargs: Any) -> Any:
    return args[0] if args else None


class Manager:
    def __enter__(self) -> int:
        return 1

    def __exit__(self, *exception: object) -> None:
        pass


def decorator(*args: Any) -> Callable[[Any], Any]:
    return lambda function: function


STATEMENTS = """\
def call():
    x = f(        # once
        1,        # argument
        f(2,      # inner call
          3))
    return x

def unpacked():
    a, b = (f(1), # once
            f(2)) # second
    return a, b

def either(flag=False):
    x = (f(0) or  # once
         f(1))    # right
    return x

def conditional():
    for flag in (True, False):
        x = f(    # twice
            1 if flag
            else 2)  # else
    return x

def chosen():
    for flag in (True, False):
        x = (f(1) # twice
             if flag
             else f(2))
    return x

def with_header():
    with Manager() as m:  # once
        x = 1
    with (
        Manager() as m,   # first manager
        Manager(),        # second manager
    ):
        x = 2
    return x

def with_return():
    with Manager():       # once
        return 1

def with_exception():
    try:
        with Manager():   # once
            raise KeyError
    except KeyError:
        return 1

def loop():
    for each in f(        # three times
            [1, 2]):
        x = each          # twice
    while f(              # three times
            x) < 4:
        x += 1            # twice
    return x

def decorated():
    @decorator(           # once
        1)
    @decorator(2)         # second decorator
    def inner():          # definition
        pass

def comprehension():
    return [
        f(each)           # twice
        for each in (1, 2)
    ]

def finally_():
    try:
        x = 1
    finally:
        y = (f(1),        # once
             f(2))
    return y

def asserted():
    a = 1
    assert (f(a) == 1 and    # once
            f(2) == 2 and    # second operand
            f(3) == f(       # third operand
                3))
    assert f(a,              # once more
             2) == 1, "message"

async def awaited():
    import asyncio
    x = await asyncio.sleep( # once
        0,
        1)
    return x
"""
"""Each function is called once; a comment says how often its line counts, once by default."""

# A list comprehension is a function of its own before 3.12.
OWN_CODE = {"comprehension": "<listcomp>"} if sys.version_info < (3, 12) else {}


def expected(number: int) -> int:
    name = STATEMENTS.splitlines()[number - 1].rpartition("# ")[2]
    return {"twice": 2, "three times": 3}.get(name, 1)


def passes(compiled: CodeType, path: Path, name: str) -> tuple[dict[int, int], dict[int, int]]:
    """How often each marked line of a function counted, and how often it should."""
    counted: dict[int, int] = {}

    def count(frame: FrameType, line: int) -> None:
        counted[line] = counted.get(line, 0) + 1

    namespace = {"f": f, "Manager": Manager, "decorator": decorator}
    exec(compiled, namespace)
    function: Any = namespace[name]
    consumer = Consumer()
    consumer.on_hit = count
    code = inner(function, OWN_CODE.get(name, name))
    marked = frozenset(n for n, text in enumerate(STATEMENTS.splitlines(), 1) if "# " in text)
    with opened(consumer) as source:
        watched = source.watch_lines(code, marked, str(path))
        result = function()
        if asyncio.iscoroutine(result):
            asyncio.run(result)
    assert watched
    return counted, {line: expected(line) for line in watched}


def check_a_statement_on_several_lines_counts_once_per_pass() -> None:
    """Trap E, for plain code and for assertions that pytest rewrote."""
    import ast

    from _pytest.assertion import rewrite

    wrong = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "statements.py")
        path.write_text(STATEMENTS, encoding="utf-8")
        rewritten = ast.parse(STATEMENTS)
        rewrite.rewrite_asserts(rewritten, STATEMENTS.encode())
        for kind, tree_ in (("plain", ast.parse(STATEMENTS)), ("rewritten", rewritten)):
            compiled = compile(tree_, str(path), "exec", dont_inherit=True)
            for each in compiled.co_consts:
                if isinstance(each, CodeType):
                    counted, should = passes(compiled, path, each.co_name)
                    if counted != should:
                        wrong[kind, each.co_name] = (counted, should)
    assert wrong == {}


def check_without_its_source_every_event_of_a_line_counts() -> None:
    compiled = compile(STATEMENTS, __file__ + ".gone", "exec", dont_inherit=True)
    counted, should = passes(compiled, Path(__file__ + ".gone"), "call")
    assert should == {2: 1, 3: 1, 4: 1}
    assert counted == {2: 2, 3: 1, 4: 2}


def check_a_loop_on_one_line_passes_once_with_monitoring() -> None:
    """Trap F: settrace tells every round. A known difference."""
    consumer = Consumer()

    # fmt: off
    def loop(n: int) -> int:
        while n: n -= 1  # noqa: E701  # one-line loop
        return n
    # fmt: on

    with opened(consumer) as source:
        source.watch_lines(code_of(loop), lines(code_of(loop), "one-line loop"))
        loop(3)
    assert len(consumer.hits) == (1 if MONITORING else 3)


def check_lines_beyond_the_short_offsets_hit() -> None:
    """Large code has EXTENDED_ARG before instructions; offsets must still be those of the line."""
    body = "".join(f"    v{n} = {1000 + n}\n" for n in range(600))
    text = f"def big():\n{body}    x = f(v599,\n          v598)\n    return x\n"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "big.py")
        path.write_text(text, encoding="utf-8")
        namespace: dict[str, Any] = {"f": f}
        exec(compile(text, str(path), "exec"), namespace)
        consumer = Consumer()
        with opened(consumer) as source:
            source.watch_lines(namespace["big"].__code__, frozenset({601, 602, 603}))
            assert namespace["big"]() == 1599
    assert len(consumer.hits) == 3


def test_lines() -> None:
    report(__file__)


if __name__ == "__main__":
    run_as_script(globals())
