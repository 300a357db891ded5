"""Raises: each frame that an exception passes, once; and what handlers may do to them."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from pytest_cideldill.tracing.interface import Deliberate, Raises, Source
from tests.process.sources_checks import (
    OUR_IDS,
    Consumer,
    code_of,
    in_thread,
    lines,
    opened,
    report,
    run_as_script,
)

Reported = list[tuple[str, str]]


class Listener(Consumer):
    """Collects `(function, exception)` of every raise in this file."""

    def __init__(self) -> None:
        super().__init__()
        self.ours = (*self.ours, __file__)
        self.reported: Reported = []
        self.act: Callable[[FrameType, BaseException], object] = lambda frame, error: None
        self.raises = Raises(lambda cls: True, __file__.__eq__, self._report)

    def _report(self, frame: FrameType, error: BaseException, traceback: TracebackType) -> None:
        assert traceback.tb_frame is frame
        assert error.__traceback__ is traceback
        self.reported.append((frame.f_code.co_name, type(error).__name__))
        self.act(frame, error)


@contextmanager
def listening() -> Iterator[tuple[Listener, Source]]:
    listener = Listener()
    with opened(listener) as source:
        source.watch_raises(listener.raises)
        yield listener, source


def in_c() -> None:
    empty: dict[str, int] = {}
    empty["x"]


def handled() -> str:
    try:
        in_c()
    except KeyError as error:
        return type(error.__context__).__name__
    return "nothing"


def check_every_frame_reports_and_a_second_raise_of_the_same_does_not() -> None:
    def again() -> None:
        try:
            in_c()
        finally:
            handled()

    with listening() as (listener, _):
        handled()
        assert listener.reported == [("in_c", "KeyError"), ("handled", "KeyError")]
        del listener.reported[:]
        try:
            again()
        except KeyError:
            pass
        assert listener.reported == [
            ("in_c", "KeyError"),
            ("again", "KeyError"),
            ("in_c", "KeyError"),
            ("handled", "KeyError"),
            ("check_every_frame_reports_and_a_second_raise_of_the_same_does_not", "KeyError"),
        ]


def check_loops_end_silently() -> None:
    class Numbers:
        def __iter__(self) -> Numbers:
            return self

        def __next__(self) -> int:
            raise StopIteration

    def generate() -> Iterator[int]:
        yield 1

    def loops() -> None:
        for _ in Numbers():
            pass
        for _ in generate():
            pass
        for _ in iter([1]):
            pass
        list(generate())

    with listening() as (listener, _):
        loops()
    assert listener.reported == [("__next__", "StopIteration")]


def check_only_wanted_classes_and_files_report() -> None:
    listener = Listener()
    asked: list[type] = []

    def wants(cls: type) -> bool:
        asked.append(cls)
        return cls is LookupError

    with opened(listener) as source:
        source.watch_raises(Raises(wants, __file__.__eq__, listener._report))
        handled()
        assert KeyError in asked
        source.watch_raises(Raises(lambda cls: True, lambda file: False, listener._report))
        handled()
        source.watch_raises(None)
        handled()
    assert listener.reported == []


def check_frames_that_run_already_and_other_threads_report() -> None:
    ready, go = threading.Event(), threading.Event()

    def waiting() -> None:
        ready.set()
        go.wait()
        try:
            raise OSError
        except OSError:
            pass

    def generate() -> Iterator[int]:
        yield 1
        raise LookupError

    generator = generate()
    next(generator)
    thread = threading.Thread(target=waiting)
    thread.start()
    ready.wait()
    with listening() as (listener, _):
        go.set()
        thread.join()
        try:
            next(generator)
        except LookupError:
            pass
        in_thread(handled)
        try:
            raise ValueError
        except ValueError:
            pass
    name = "check_frames_that_run_already_and_other_threads_report"
    assert listener.reported == [
        ("waiting", "OSError"),
        ("generate", "LookupError"),
        (name, "LookupError"),
        ("in_c", "KeyError"),
        ("handled", "KeyError"),
        (name, "ValueError"),
    ]


def check_lines_and_calls_of_the_same_code_go_on() -> None:
    """The generator stood still, with its lines switched off on 3.11, when they were wanted."""

    def generate() -> Iterator[int]:
        yield 1
        yield 2  # second
        raise LookupError

    ends: list[object] = []
    with listening() as (listener, source):
        generator = generate()
        next(generator)
        source.watch_lines(code_of(generate), lines(code_of(generate), "second"))
        source.record_calls(
            code_of(in_c), lambda frame, values: 1, lambda *end: ends.append(type(end[-1]))
        )
        next(generator)
        handled()
        source.watch_raises(None)
        handled()
    assert listener.hits == ["second"]
    assert listener.reported == [("in_c", "KeyError"), ("handled", "KeyError")]
    assert ends == [KeyError, KeyError]


def check_another_exception_takes_its_place_and_is_chained() -> None:
    def acting(frame: FrameType, error: BaseException) -> None:
        if type(error) is OSError:
            raise Deliberate(LookupError("instead"))

    def raising() -> None:
        try:
            raise ValueError("handled")
        except ValueError:
            raise OSError("gone")  # noqa: B904 # here

    def outer() -> BaseException:
        try:
            raising()
        except LookupError as error:
            return error
        raise AssertionError

    ends: list[object] = []
    with listening() as (listener, source):
        listener.act = acting
        source.record_calls(
            code_of(raising), lambda frame, values: 1, lambda *end: ends.append(end[-1])
        )
        error = outer()
        handled()
    assert [type(each) for each in chain(error)] == [LookupError, OSError, ValueError]
    assert ends == [error]
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    assert place is not None
    assert place.tb_frame.f_code is code_of(raising)
    assert frozenset({place.tb_lineno}) == lines(code_of(raising), "here")
    assert listener.reported == [
        ("raising", "ValueError"),
        ("raising", "OSError"),
        ("outer", "LookupError"),
        ("in_c", "KeyError"),
        ("handled", "KeyError"),
    ]


def chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__context__


def check_ctrl_c_passes_and_a_bug_of_ours_ends_it() -> None:
    def interrupted(frame: FrameType, error: BaseException) -> None:
        if type(error) is KeyError:
            signal.raise_signal(signal.SIGINT)

    def bug(frame: FrameType, error: BaseException) -> None:
        raise ZeroDivisionError("ours")

    with listening() as (listener, _):
        listener.act = interrupted
        try:
            in_c()
        except KeyboardInterrupt:
            pass
        assert listener.failures == []
        listener.act = bug
        assert handled() == "NoneType"
        assert handled() == "NoneType"
    assert len(listener.failures) == 1
    assert "ours" in listener.failures[0]


def check_a_class_filter_that_fails_is_reported_and_harmless() -> None:
    def wants(cls: type) -> bool:
        raise ZeroDivisionError("ours")

    listener = Listener()
    with opened(listener) as source:
        source.watch_raises(Raises(wants, __file__.__eq__, listener._report))
        assert handled() == "NoneType"
        assert handled() == "NoneType"
    assert len(listener.failures) == 1


def check_a_quiet_thread_reports_nothing() -> None:
    with listening() as (listener, _):
        listener.quiet.add(threading.get_ident())
        handled()
        listener.quiet.clear()
    assert listener.reported == []


def check_a_program_at_its_recursion_limit_goes_on() -> None:
    def deep() -> int:
        try:
            return deep() + 1
        except KeyError:
            return 0

    with listening() as (listener, _):
        try:
            deep()
        except RecursionError:
            pass
        else:
            raise AssertionError
        del listener.reported[:]
        if sys.version_info < (3, 12):
            assert listener.source is not None
            listener.source.refresh()
        handled()
    assert listener.reported == [("in_c", "KeyError"), ("handled", "KeyError")]
    removed = [each for each in listener.failures if "its recursion limit" in each]
    assert listener.failures == removed
    assert len(removed) <= (sys.version_info < (3, 12))


def check_what_a_closure_writes_meanwhile_is_kept() -> None:
    """On 3.11 a look at the locals of a frame would undo it."""

    def counting() -> int:
        count = 0

        def add() -> None:
            nonlocal count
            count += 1

        adders.append(add)
        try:
            raise LookupError
        except LookupError:
            return count

    def acting(frame: FrameType, error: BaseException) -> None:
        assert frame.f_locals["count"] == 0
        adders[0]()

    adders: list[Callable[[], None]] = []
    with listening() as (listener, _):
        listener.act = acting
        assert counting() == 1


def check_nothing_is_armed_in_a_forked_child() -> None:
    with listening() as (listener, _):
        child = os.fork()
        if not child:
            handled()
            clean = listener.reported == [] and sys.gettrace() is None
            if sys.version_info >= (3, 12):
                clean = clean and not any(sys.monitoring.get_tool(tool) for tool in OUR_IDS)
            os._exit(7 if clean else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        handled()
    assert len(listener.reported) == 2


def check_coverage_sees_the_same_beside_raises() -> None:
    import coverage

    text = Path(__file__).read_text(encoding="utf-8")
    source_text = text[text.index("def in_c()") : text.index("def check_every")]
    measured: list[Any] = []
    for watched in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "covered.py")
            path.write_text("from __future__ import annotations\n" + source_text, encoding="utf-8")
            measuring = coverage.Coverage(
                data_file=None, config_file=False, branch=True, include=[str(path)]
            )
            measuring.set_option("run:core", "ctrace")
            measuring.start()
            namespace: dict[str, Any] = {}
            exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), namespace)
            listener = Listener()
            with opened(listener) as source:
                if watched:
                    everywhere = Raises(lambda cls: True, str(path).__eq__, listener._report)
                    source.watch_raises(everywhere)
                namespace["handled"]()
            namespace["handled"]()
            measuring.stop()
            measured.append(sorted(measuring.get_data().arcs(str(path)) or ()))
            assert len(listener.reported) == 2 * watched
    assert measured[0] == measured[1]


def test_raises() -> None:
    report(__file__)


if __name__ == "__main__":
    run_as_script(globals())
