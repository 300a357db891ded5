"""Who wants events, and when: what the owner of the source does with wishes, refusals and forks."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType, SimpleNamespace
from typing import Any

from pytest_cideldill.discovery import Discovery
from pytest_cideldill.probes.nesting import Root
from pytest_cideldill.project import Project
from pytest_cideldill.protocol import Event
from pytest_cideldill.redaction.redactor import Redactor
from pytest_cideldill.rendering.display import Lens
from tests.process.contexts import made_context
from tests.process.sources_checks import (
    MONITORING,
    OUR_IDS,
    ROOT,
    Skipped,
    code_of,
    in_thread,
    report,
    run_as_script,
)


def played(**attributes: Any) -> Any:
    return SimpleNamespace(**attributes)


class Owner:
    """A discovery whose neighbours are played by the check."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.sent: list[Event] = []
        self.bindings = 0
        self.meant: set[str] = set()
        self.seen: list[CodeType] = []
        self.recorded: list[CodeType] = []
        self.armed: list[str | None] = []
        self.recording = played(wants_any=False, consider=self._consider)
        self.lines = played(
            are_any=False,
            probes=[],
            seen=self._see,
            passed=None,
            takes={},
            arm=lambda file=None: self.armed.append(file),
        )
        lens = Lens(Project(str(ROOT)), Redactor(environ={}))
        self.discovery = Discovery(
            made_context(lens, take=self.sent.append, warn=self.warnings.append),
            self.recording,
            self.lines,
            played(raises=None),
            played(
                mean_any_in=lambda code, module: code.co_name in self.meant,
                mean_any_of=lambda module: module in self.meant,
            ),
            self._bind,
        )

    def _bind(self, _started: Root | None) -> None:
        self.bindings += 1

    def _see(self, code: CodeType, frame: FrameType) -> None:
        self.seen.append(code)

    def _consider(self, source: object, code: CodeType, module: str) -> None:
        self.recorded.append(code)


@contextmanager
def owner() -> Iterator[Owner]:
    made = Owner()
    try:
        yield made
    finally:
        made.discovery.close()
        made.discovery.close()


def is_watching() -> bool:
    """Whether a source is installed in this process."""
    if sys.version_info < (3, 12):
        return sys.gettrace() is not None or threading.gettrace() is not None
    return any(
        sys.monitoring.get_tool(tool) and sys.monitoring.get_events(tool) for tool in OUR_IDS
    )


def meant() -> int:
    return 1


def check_nothing_is_opened_before_it_is_wanted() -> None:
    with owner() as made:
        made.discovery.want(False)
        made.discovery.refresh()
        assert made.discovery.source is None
        assert not is_watching()


def check_before_3_12_only_names_that_wait_are_worth_it() -> None:
    with owner() as made:
        made.discovery.want(True, pending=True)
        assert is_watching()
        made.discovery.want(True, pending=False)
        assert is_watching() is MONITORING
        made.lines.are_any = True
        made.discovery.want(True, pending=False)
        assert is_watching()
        made.lines.are_any = False
        made.recording.wants_any = True
        made.discovery.want(True, pending=False)
        assert is_watching()
        made.recording.wants_any = False
        made.discovery.want(False)
        assert not is_watching()
        made.discovery.refresh()
        assert not is_watching()


def check_a_name_that_is_bound_in_a_callback_ends_the_watch_there() -> None:
    with owner() as made:
        made.meant.add("meant")
        bind = made.discovery._bind

        def bind_and_be_done(started: Root | None) -> None:
            bind(started)
            made.discovery.want(True, pending=False)

        made.discovery._bind = bind_and_be_done
        made.discovery.want(True)
        assert meant() == 1
        assert made.bindings == 1
        assert is_watching() is MONITORING
        assert made.warnings == []


def check_what_came_while_we_were_removed_is_looked_at() -> None:
    if MONITORING:
        raise Skipped("nobody removes us")
    with owner() as made:
        made.recording.wants_any = True
        made.discovery.want(True)
        assert made.armed == [None]  # whatever file
        assert code_of(meant) in made.recorded
        made.recorded.clear()
        made.discovery.refresh()
        assert (made.recorded, made.armed) == ([], [None])
        sys.settrace(None)
        made.discovery.refresh()
        assert code_of(meant) in made.recorded
        assert made.armed == [None] * 2


def check_a_refusal_is_reported_once_and_tried_again() -> None:
    if MONITORING:
        raise Skipped("tracers are not in the way of sys.monitoring")

    def tracer(frame: FrameType, event: str, arg: object) -> None:
        return None

    with owner() as made:
        for began in (False, True):
            made.recording.wants_any = True
            made.recorded.clear()
            made.warnings.clear()
            sys.settrace(tracer)
            try:
                made.discovery.want(True)
                made.discovery.refresh()
            finally:
                sys.settrace(None)
            assert (made.discovery.source is not None) is began
            assert len(set(made.warnings)) == 1
            assert "tracer traces this program" in made.warnings[0]
            assert "calls are not recorded" in made.warnings[0]
            assert made.recorded == []
            made.discovery.refresh()
            assert code_of(meant) in made.recorded
            assert is_watching()


def check_threads_that_want_at_once_open_one_source() -> None:
    switching = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(30):
            with owner() as made:
                go = threading.Barrier(3)

                def want(made: Owner = made, go: threading.Barrier = go) -> None:
                    go.wait()
                    made.discovery.want(True)

                threads = [threading.Thread(target=want) for _ in range(3)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                assert made.warnings == []
                assert is_watching()
            assert not is_watching()
            if sys.version_info >= (3, 12):
                assert [sys.monitoring.get_tool(tool) for tool in OUR_IDS] == [None] * 3
    finally:
        sys.setswitchinterval(switching)


def check_nothing_comes_back_after_closing() -> None:
    with owner() as made:
        made.discovery.close()
        made.discovery.want(True)
        made.discovery.refresh()
        in_thread(lambda: made.discovery.want(True))
        assert not is_watching()


def check_nothing_comes_back_in_a_forked_child() -> None:
    """Not even what could not be had before the fork."""
    for wanted in (True, False):
        with owner() as made:
            made.discovery.want(wanted)
            pid = os.fork()
            if pid == 0:
                made.discovery.refresh()
                made.discovery.want(True)
                os._exit(1 if is_watching() else 0)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
            assert is_watching() is wanted


def test_discovery() -> None:
    report(__file__)


if __name__ == "__main__":
    run_as_script(globals())
