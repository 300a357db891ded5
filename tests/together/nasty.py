"""A small project that does what is hard for a recorder, and coverage that measures it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

NASTY = '''
    import asyncio, contextlib, gc, inspect, os, signal, sys, threading, traceback, types, weakref
    from _thread import start_new_thread

    class Thing:
        """Something that dies when nobody holds it."""
        def __init__(self): self.name = "thing"
        def __getattribute__(self, name):
            return object.__getattribute__(self, name)

    class Failure(Exception):
        pass

    def deleting(thing, *things, other=None, **more):
        references = [weakref.ref(each) for each in (thing, *things, *more.values())]
        del thing, things, more
        return [reference() for reference in references]

    def handling():
        references = []
        for number in range(3):
            try:
                raise Failure(number)
            except Failure as failure:
                references.append(weakref.ref(failure))
        return [reference() for reference in references]

    def cleaning(log):
        try:
            try:
                raise KeyError("inner")
            finally:
                with contextlib.suppress(ValueError):
                    raise ValueError("gone")
        except KeyError as error:
            log.append((type(error.__context__), sys.exc_info()[1] is error))
            try:
                raise
            finally:
                log.append(len(traceback.extract_tb(error.__traceback__)))

    def numbers(n):
        got = []
        try:
            for number in range(n):
                try:
                    got.append((yield number))
                except KeyError:
                    got.append((yield "handled"))
        finally:
            got.append("end")
        return got

    def delegating(n):
        result = yield from numbers(n)
        return ["delegated", *result]

    @contextlib.contextmanager
    def managed(log):
        log.append("enter")
        try:
            yield len(log)
        except LookupError as error:
            log.append(type(error).__name__)
        else:
            log.append("no error")
        finally:
            log.append("exit")

    async def ticks(n):
        try:
            for number in range(n):
                await asyncio.sleep(0)
                yield number
        finally:
            await asyncio.sleep(0)

    class Session:
        async def __aenter__(self): return self
        async def __aexit__(self, *error):
            await asyncio.sleep(0)
            return error[0] is Failure

    async def added(n):
        async with Session():
            total = sum([number async for number in ticks(n)])
            raise Failure
        return total

    async def waiting(): await asyncio.sleep(60)

    async def everything():
        task = asyncio.ensure_future(waiting())
        sums = await asyncio.gather(added(3), added(4), *(added(2) for _ in range(3)))
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        try:
            await asyncio.wait_for(waiting(), 0.01)
        except asyncio.TimeoutError:
            sums.append("timeout")
        async for number in ticks(3):
            break
        return sums

    def factorial(n): return 1 if n == 0 else n * factorial(n - 1)

    def shared():
        count = 0
        def add(n):
            nonlocal count
            for _ in range(n):
                count += 1
        def look():
            before = count
            inner = threading.Thread(target=add, args=(10,))
            inner.start(); inner.join()
            return count - before, locals()["count"] - before
        return add, look

    def frames(first, *rest, named=2):
        frame = inspect.currentframe()
        names = sorted(frame.f_locals), sorted(locals())
        first = "changed"
        return names, frame.f_lineno - frame.f_code.co_firstlineno, locals()["first"]

    class Meta(type):
        def __call__(cls, *args):
            made = super().__call__(*args)
            made.by = cls.__name__
            return made

    class Made(metaclass=Meta):
        __slots__ = ("by", "value")
        def __init__(self, value): self.value = value
        @property
        def twice(self): return self.value * 2
        @classmethod
        def of(cls, value): return cls(value)
        def __eq__(self, other): raise Failure("not comparable")
        __hash__ = None
        def __repr__(self): raise Failure("no repr")

    class Dying:
        log = []
        def __del__(self): self.log.append(numbers.__name__)

    def chained():
        try:
            factorial("no number")
        except TypeError as error:
            raise Failure("outer") from error
'''

TESTS = """
    from nasty import *
    import pytest

    def test_lifetimes():
        left = deleting(Thing(), Thing(), a=Thing())
        assert left == [None] * 3
        left = handling()
        assert left == [None] * 3

    def test_exceptions():
        log = []
        with pytest.raises(KeyError) as raised:
            cleaning(log)
        assert raised.value.__context__ is None
        assert log == [(type(None), True), 1]
        with pytest.raises(Failure) as raised:
            chained()
        assert isinstance(raised.value.__cause__, TypeError)
        assert [each.name for each in raised.traceback] == ["test_exceptions", "chained"]
        inner = traceback.extract_tb(raised.value.__cause__.__traceback__)
        assert [each.name for each in inner] == ["chained", "factorial"]

    def test_generators():
        for make in (numbers, delegating):
            running = make(3)
            assert next(running) == 0
            assert running.throw(KeyError) == "handled"
            assert running.send("sent") == 1
            with pytest.raises(ValueError, match="thrown"):
                running.throw(ValueError("thrown"))
            assert running.gi_frame is None
            running = make(3)
            next(running); running.close()
            assert list(make(2)) == [0, 1]
        log = []
        with managed(log) as size:
            assert size == 1
            raise LookupError
        with managed(log): pass
        with pytest.raises(TypeError), managed(log): raise TypeError
        assert log == [
            "enter", "LookupError", "exit", "enter", "no error", "exit", "enter", "exit",
        ]

    def test_coroutines():
        assert asyncio.run(everything()) == [3, 6, 1, 1, 1, "timeout"]

    def test_recursion(): assert factorial(200) % 7 == 0

    def test_threads():
        add, look = shared()
        threads = [threading.Thread(target=add, args=(500,)) for _ in range(4)]
        done = threading.Event()
        def raw():
            list(numbers(50)); done.set()
        start_new_thread(raw, ())
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert look() == (10, 10)
        assert done.wait(20)

    def test_frames():
        names = ["first", "frame", "named", "rest"]
        assert frames(1, 2) == ((names, names), 4, "changed")

    def test_objects():
        made = Made.of(3)
        assert (made.by, made.twice) == ("Made", 6)
        with pytest.raises(Failure, match="not comparable"): made == made
        with pytest.raises(Failure, match="no repr"): repr(made)
        Dying()
        assert Dying.log == ["numbers"]

    def test_fork():
        pid = os.fork()
        if not pid: os._exit(factorial(3))
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 6

    def test_text_that_is_run():
        names = {"__name__": "made"}
        exec("def f(n=1):\\n    return n + 1\\nclass C:\\n    x = f()\\n", names)
        assert (names["f"](2), names["C"].x) == (3, 2)

    def test_tracers():
        seen = []
        before = sys.gettrace()
        sys.settrace(lambda frame, event, arg: seen.append(frame.f_code.co_name))
        factorial(1)
        sys.settrace(before)
        assert seen[:2] == ["factorial", "factorial"]

    def test_after_tracers(): assert list(numbers(1)) == [0]

    @pytest.mark.parametrize("n", range(3))
    def test_failing(n):
        assert factorial(n) == n, f"{n} is special"

    def test_error(missing): pass

    @pytest.mark.xfail(strict=True)
    def test_known(): cleaning([])
"""

ROUGH = """
    import signal
    import threading
    import pytest

    def busy(alarm):
        while True:
            alarm.append(1)

    def endless(n): return endless(n + 1)

    def catching(n):
        try:
            return catching(n + 1)
        except RecursionError:
            return n

    def test_recursion():
        with pytest.raises(RecursionError):
            endless(0)
        assert catching(0) > 100

    def test_alarm():
        def ring(*_): raise OSError("alarm")
        before = signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        rounds = []
        try:
            with pytest.raises(OSError, match="alarm"): busy(rounds)
        finally:
            signal.signal(signal.SIGALRM, before)
        assert rounds

    def test_recursion_in_a_thread():
        depths = []
        thread = threading.Thread(target=lambda: depths.append(catching(0)))
        thread.start(); thread.join()
        assert depths[0] > 100
"""
"""Where exactly the limit or the alarm strikes differs: not measured."""

MEASURING = """
    import os
    import coverage

    measuring = coverage.Coverage(data_file="data", config_file=False, branch={branch},
                                  include=["*/nasty.py", "*/test_nasty.py"])
    measuring.set_option("run:core", "{core}")

    def start(where):
        if where == "{where}": measuring.start()
"""
STARTUP = "import measuring\nmeasuring.start('startup')\n"
CONFTEST = """
    import measuring
    measuring.start("conftest")

    def pytest_sessionstart(session): measuring.start("session")

    def pytest_sessionfinish(session):
        measuring.measuring.stop()
        measuring.measuring.save()
"""


def measured(project: Path, *, branch: bool) -> dict[str, list[Any]]:
    """What coverage saw of each file; the next run begins anew."""
    import coverage

    data = coverage.CoverageData(str(project / "data"))
    data.read()
    report = data.arcs if branch else data.lines
    found = {os.path.basename(file): sorted(report(file) or ()) for file in data.measured_files()}
    (project / "data").unlink()
    return found
