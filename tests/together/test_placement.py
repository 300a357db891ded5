"""Where a line may be: every kind of code, in any file, however it came.

All places are set before anything is imported. Lines are named by the comment at their end.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.together.driver import only_stop
from tests.together.workbench import Bench

full = pytest.mark.full

KINDS = '''
    """No code of its own."""
    import functools
    RATE = 2  # module

    def traced(function):
        @functools.wraps(function)
        def wrapper(*args):
            return function(*args)  # wrapper
        return wrapper

    class Cart:
        """Neither."""
        size = RATE + 1  # class body
        class Inner:
            deep = 1  # inner class body

        @property
        def total(self):
            return self.size * RATE  # property

        @staticmethod
        @traced  # decorator
        def twice(n):
            return n * 2  # decorated

    def outer(n):
        def inner():
            return n + 1  # nested
        return inner()

    def counting(n):
        for i in range(n):
            got = yield i  # generator
        return got

    async def waiting(n):
        n += 1  # coroutine
        return n

    async def streaming(n):
        for i in range(n):
            yield i  # async generator

    def one(n): return n * 10  # one line

    def either(a, b):
        return (  # header
            a  # left
            or b
        )

    def far(n):
        {rows}
        return n  # far
'''

ROWS = "\n        ".join(f"n += {number}" for number in range(300))

TEST = """
    import asyncio
    import sys

    sys.path.append(OUTSIDE)

    def test_kinds():
        import kinds
        from kinds import Cart
        assert Cart().total == 6
        assert Cart.twice(4) == 8
        assert kinds.outer(1) == 2
        assert list(kinds.counting(2)) == [0, 1]
        assert asyncio.run(kinds.waiting(1)) == 2
        assert kinds.one(3) == 30
        assert kinds.either(0, 5) == 5
        assert kinds.far(1) > 0

        async def all():
            return [i async for i in kinds.streaming(2)]

        assert asyncio.run(all()) == [0, 1]

    def test_outside():
        import outside
        assert (
            outside.away(1) == 2  # rewritten
            and outside.away(2) == 3
        )
"""

OUTSIDE = """
    def away(n):
        return n + 1  # outside
"""

CONFTEST = """
    import pytest

    @pytest.fixture(autouse=True)
    def shop():
        made = kept = None
        made = "made"
        yield made  # set up
        kept = "kept"
        made = None  # torn down
"""

SEEN = {
    "module": ("<module>", ["2"], "RATE * 2 if 'RATE' in globals() else 2"),
    "class body": ("Cart", ["Cart"], "__qualname__"),
    "inner class body": ("Cart.Inner", ["Cart.Inner"], "__qualname__"),
    "decorator": ("Cart", ["3"], "size"),
    "property": ("Cart.total", ["3"], "self.size"),
    "wrapper": ("traced.<locals>.wrapper", ["(4,)"], "args"),
    "decorated": ("Cart.twice", ["4"], "n"),
    "nested": ("outer.<locals>.inner", ["1"], "n"),
    "generator": ("counting", ["0", "1"], "i"),
    "coroutine": ("waiting", ["1"], "n"),
    "async generator": ("streaming", ["0", "1"], "i"),
    "one line": ("<module>", ["no"], "'one' in globals() and 'yes' or 'no'"),
    "header": ("either", ["0"], "a"),
    "left": ("either", ["0 5"], "a} {b"),
    "far": ("far", ["44851"], "n"),
}
"""Name of a line: the function it is in, what an expression shows at each pass, which one."""


def at(text: str, name: str) -> int:
    """The line that ends with this comment."""
    lines = textwrap.dedent(text).splitlines()
    (found,) = (number for number, line in enumerate(lines, 1) if line.endswith(f"# {name}"))
    return found


def passes(bench: Bench) -> dict[tuple[str, int], list[tuple[str, str]]]:
    """File and line: function and message at each pass in the newest run, in order."""
    seen: dict[tuple[str, int], list[tuple[str, str]]] = {}
    for hit in bench.events("hit"):
        where = hit["location"]
        reported = (where["function"], hit["message"])
        seen.setdefault((where["file"], where["line"]), []).append(reported)
    return seen


def messages(bench: Bench, file: str, line: int) -> list[str]:
    """What was told of one line."""
    return [message for _, message in passes(bench).get((file, line), [])]


@pytest.mark.full
def test_lines_of_every_kind_of_code_are_passed(bench: Bench, tmp_path: Path) -> None:
    """Modules, class bodies, generators, coroutines, decorated and nested code, other folders."""
    kinds = KINDS.replace("{rows}", ROWS)
    outside = tmp_path / "outside.py"
    outside.write_text(textwrap.dedent(OUTSIDE), encoding="utf-8")
    test = TEST.replace("OUTSIDE", repr(str(tmp_path)))
    bench.write(kinds=kinds, test_it=test, conftest=CONFTEST)
    tracepoints = [
        {"file": "kinds.py", "line": at(kinds, name), "log_message": f"{{{expression}}}"}
        for name, (_, _, expression) in SEEN.items()
    ]
    tracepoints += [
        {"file": "kinds.py", "line": at(kinds, "one line"), "column": 14, "log_message": "{n}"},
        {"file": str(outside), "line": at(OUTSIDE, "outside"), "log_message": "{n}"},
        {"file": "test_it.py", "line": at(test, "rewritten"), "log_message": "asserts"},
    ]
    tracepoints += [
        {"file": "conftest.py", "line": at(CONFTEST, name), "log_message": message}
        for name, message in (("set up", "{made}"), ("torn down", "{kept}"))
    ]
    reply = bench.run(tracepoints=tracepoints)
    assert (reply["exit_code"], reply["outcomes"]) == (0, {"passed": 2, "failed": 0})
    expected = {
        ("kinds.py", at(kinds, name)): [(function, message) for message in shown]
        for name, (function, shown, _) in SEEN.items()
    }
    expected["kinds.py", at(kinds, "one line")].append(("one", "3"))
    expected[str(outside), at(OUTSIDE, "outside")] = [("away", "1"), ("away", "2")]
    expected["test_it.py", at(test, "rewritten")] = [("test_outside", "asserts")]
    expected["conftest.py", at(CONFTEST, "set up")] = [("shop", "made")] * 2
    expected["conftest.py", at(CONFTEST, "torn down")] = [("shop", "kept")] * 2
    assert passes(bench) == expected


LAMBDAS = """
    def calls(numbers):
        pair = [(lambda n: n + 1), (lambda n: n - 1)]  # lambdas
        some = sum(n * 2 for n in numbers)  # generator
        listed = [n * 3 for n in numbers]  # list
        return [each(numbers[0]) for each in pair], some, listed
"""


@full
def test_a_column_means_the_lambda_or_the_comprehension_at_it(bench: Bench) -> None:
    """Without one it is the statement; list comprehensions have no code since 3.12."""
    bench.write(
        lists=LAMBDAS,
        test_it="""
            from lists import calls
            def test_calls(): assert calls([4, 5]) == ([5, 3], 18, [12, 15])
        """,
    )
    lambdas, generator, listed = (at(LAMBDAS, name) for name in ("lambdas", "generator", "list"))
    wanted = [(lambdas, None), (lambdas, 14), (lambdas, 33), (generator, None), (generator, 16)]
    wanted += [(listed, None), (listed, 15)]
    bench.run(
        tracepoints=[
            {"file": "lists.py", "line": line, "log_message": f"{column}"}
            | ({} if column is None else {"column": column})
            for line, column in wanted
        ]
    )
    seen = passes(bench)
    inner = "calls.<locals>.<lambda>"
    assert seen["lists.py", lambdas] == [("calls", "None"), (inner, "14"), (inner, "33")]
    reported = seen["lists.py", generator]
    assert reported[0] == ("calls", "None")
    assert set(reported[1:]) == {("calls.<locals>.<genexpr>", "16")}
    reported = seen["lists.py", listed]
    assert ("calls", "None") in reported
    own = "calls" if sys.version_info >= (3, 12) else "calls.<locals>.<listcomp>"
    assert (own, "15") in reported
    refused = bench.agent.refused("breakpoint_set", file="lists.py", line=lambdas, column=2)
    assert refused["error"] == "invalid_column"
    assert refused["candidates"] == [
        {"column": 5, "function": "calls"},
        {"column": 14, "function": inner},
        {"column": 33, "function": inner},
    ]


SPARSE = """
import os

A = 1
# about f
def f(a, b=(
        1)):
    "f"
    x = (
        a,
    )
    if x:
        # nothing
        return b

"""


@full
def test_a_line_without_code_is_refused_with_the_nearest_that_has(bench: Bench) -> None:
    """Blank lines, comments, docstrings, the rest of a statement, the end of the file."""
    bench.write(sparse=SPARSE)
    for line in (1, 3, 5, 8, 11, 13, 15, 99):
        refused = bench.agent.refused("breakpoint_set", file="sparse.py", line=line)
        assert refused["error"] == "invalid_line"
        nearest = refused["nearestValidLine"]
        assert f"use line {nearest}" in refused["message"]
        added = bench.agent.call("breakpoint_set", file="sparse.py", line=nearest)
        assert added["location"]["line"] == nearest
        refused = bench.agent.refused("tracepoint_set", file="sparse.py", line=line)
        assert refused["nearestValidLine"] == nearest


LATE = """
    import importlib
    import importlib.util

    def copy():
        spec = importlib.util.spec_from_file_location("copy", "late.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def test_late():
        import late
        assert late.tell("import") == "import"
        before = late.tell
        importlib.reload(late)
        assert before("kept") + late.tell("reloaded") == "keptreloaded"
        first, second = copy(), copy()
        assert first.tell.__code__ == second.tell.__code__
        assert first.tell("first") + second.tell("second") == "firstsecond"
        exec(compile(open("late.py").read(), "late.py", "exec"), found := {})
        assert found["tell"]("executed") == "executed"
"""


@full
def test_code_that_comes_late_is_bound_before_its_first_line(bench: Bench) -> None:
    """In a test, anew by a reload, twice as equal code objects, by exec; kept functions stay."""
    late = """
        NAME = 1  # first
        def tell(how):
            return how  # told
    """
    bench.write(late=late, test_it=LATE)
    added = bench.agent.call(
        "tracepoint_set", file="late.py", line=at(late, "told"), log_message="{how}"
    )
    first = bench.agent.call(
        "tracepoint_set", file="late.py", line=at(late, "first"), log_message="!"
    )
    assert added["tracepoint"]["state"] == first["tracepoint"]["state"] == "pending"
    assert bench.run()["exit_code"] == 0
    assert messages(bench, "late.py", at(late, "first")) == ["!"] * 5
    assert messages(bench, "late.py", at(late, "told")) == [
        "import", "kept", "reloaded", "first", "second", "executed",
    ]  # fmt: skip


LIVE = """
    import pytest

    def items(n):
        for i in range(n):
            yield i  # yielded
            i += 1  # resumed

    def later(n):
        return n  # later

    def test_live():
        found = []
        for each in items(3):
            found.append(each)  # here
            mark = len(found)  # next
        found.append(later(7))
        assert found == [0, 1, 2, 7]  # end
"""


@full
def test_breakpoints_set_at_a_pause_work_in_frames_that_live(bench: Bench) -> None:
    """In the paused frame, in a suspended generator and in what is called later."""

    def lines(name: str) -> dict[str, Any]:
        return {"file": "test_it.py", "line": at(LIVE, name)}

    bench.write(test_it=LIVE)
    here = bench.agent.call("breakpoint_set", **lines("here"))
    stop = bench.stop_of(LIVE)
    following, resumed, later, end = (
        bench.agent.call("breakpoint_set", **lines(name))
        for name in ("next", "resumed", "later", "end")
    )
    for each in (following, resumed, later, end):
        assert (each["verified"], each["state"]) == (True, "bound")
    bench.agent.call("breakpoint_remove", id=here["id"])
    seen = []
    while (reply := bench.go_on(stop))["state"] == "paused":
        stop = only_stop(reply)
        seen.append((stop["breakpoint_id"], stop["location"]["line"]))
        if len(seen) == 2:
            bench.agent.call("breakpoint_enable", id=following["id"], enabled=False)
    expected = [following, resumed, resumed, resumed, later, end]
    assert [id for id, _ in seen] == [each["id"] for each in expected]
    assert [line for _, line in seen] == [each["location"]["line"] for each in expected]
    assert reply["exit_code"] == 0


MOVED = """
    import types

    def load():
        module = types.ModuleType("moved")
        module.__file__ = FILE
        text = open(FILE).read()
        exec(compile(text, "/before/it/moved.py", "exec"), module.__dict__)
        return module

    early = load()

    def test_moved():
        late = load()
        assert early.tell(1) == 1  # here
        assert late.tell(2) == 2
"""


@full
@pytest.mark.parametrize("at_a_pause", [False, True])
def test_code_with_a_stale_file_name_is_found(bench: Bench, *, at_a_pause: bool) -> None:
    """As cached code has that was moved; its module knows better. Before it is there, and after."""
    moved = bench.write(moved="def tell(n):\n    return n\n")
    text = MOVED.replace("FILE", repr(str(moved)))
    bench.write(test_it=text)
    tracepoint = {"file": "moved.py", "line": 2, "log_message": "{n}"}
    bench.agent.call("breakpoint_set", file="test_it.py", line=at(text, "here"))
    if not at_a_pause:
        bench.agent.call("tracepoint_set", **tracepoint)
    stop = only_stop(bench.run())
    if at_a_pause:
        added = bench.agent.call("tracepoint_set", **tracepoint)["tracepoint"]
        assert (added["verified"], added["state"]) == (True, "bound")
    assert bench.go_on(stop)["exit_code"] == 0
    assert messages(bench, "moved.py", 2) == ["1", "2"]
