"""Switches the plugin on in a process that the front end (or xdist's controller) started.

Before any conftest is loaded: dial out, shake hands, receive every breakpoint, register the hooks.
When that fails the tests run as without the plugin, after one line on stderr.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from functools import partial

import _pytest
import pytest

from pytest_cideldill.capture.lens import Lens
from pytest_cideldill.capture.overtime import Overtime
from pytest_cideldill.capture.pickles import Pickled
from pytest_cideldill.framing import FrameDecoder
from pytest_cideldill.framing import FrameError
from pytest_cideldill.guard import EvaluationGuard
from pytest_cideldill.keeping import Keeping
from pytest_cideldill.link import ThreadedLink
from pytest_cideldill.log import RowLog
from pytest_cideldill.manager import BreakpointManager
from pytest_cideldill.observing import Observers
from pytest_cideldill.options import NOT_IN_RUNS
from pytest_cideldill.options import conflict
from pytest_cideldill.outlets import Outlet
from pytest_cideldill.outlets import SocketOutlet
from pytest_cideldill.pausing import Pauses
from pytest_cideldill.position import PositionFile
from pytest_cideldill.probes.functiontraces import FunctionTraces
from pytest_cideldill.probes.functiontraces import function_trace
from pytest_cideldill.probes.position import Position
from pytest_cideldill.probes.recording import Recording
from pytest_cideldill.project import Project
from pytest_cideldill.redact import Redactor
from pytest_cideldill.rows import Batch
from pytest_cideldill.run.assertions import Assertions
from pytest_cideldill.run.autopsies import Autopsies
from pytest_cideldill.run.breakpoints import UserBreakpoints
from pytest_cideldill.run.declared import declared
from pytest_cideldill.run.files import objects_path
from pytest_cideldill.run.files import position_file
from pytest_cideldill.run.invitation import Invitation
from pytest_cideldill.run.invitation import connect
from pytest_cideldill.run.invitation import shake_hands
from pytest_cideldill.run.postmortem import PostMortem
from pytest_cideldill.run.recorder import finish
from pytest_cideldill.run.recorder import part_of_record
from pytest_cideldill.run.redaction import Redaction
from pytest_cideldill.run.redaction import make_redactor
from pytest_cideldill.run.reporting import Reporting
from pytest_cideldill.run.selection import Selection
from pytest_cideldill.run.selection import Wanted
from pytest_cideldill.run.stackfile import StackFile
from pytest_cideldill.run.timeline import Timeline
from pytest_cideldill.run.verdict import Verdict
from pytest_cideldill.run.watchdogs import Watchdogs
from pytest_cideldill.run.workers import Controller
from pytest_cideldill.run.workers import Worker
from pytest_cideldill.settings import Settings
from pytest_cideldill.settings import read as read_settings
from pytest_cideldill.sources.events import engine
from pytest_cideldill.telling import Identity
from pytest_cideldill.values import dataclass
from pytest_cideldill.wire import PROTOCOL
from pytest_cideldill.wire import AddTrace
from pytest_cideldill.wire import Changed
from pytest_cideldill.wire import Command
from pytest_cideldill.wire import Configure
from pytest_cideldill.wire import Departed
from pytest_cideldill.wire import Event
from pytest_cideldill.wire import Hello
from pytest_cideldill.wire import MalformedMessage

GOODBYE_S = 20.0
"""How long the last events may take to leave: a thread may have left 200,000 calls to tell. Without
them, and the goodbye behind them, the run would look like a crash."""

RESUME_S = 0.2
"""How long a thread that goes on may wait until the front end can know it."""

MAIN = "main"
"""Name of the process that is no xdist worker."""


def activate(config: pytest.Config, text: str, variable: str) -> None:
    """Connect and register; on any failure say so on stderr and leave the run alone.

    Raises:
        pytest.UsageError: Something that the front end could not see (PYTEST_ADDOPTS, arguments of
            one run) would have the run wait for a terminal.
    """
    if (reason := conflict(config.known_args_namespace, NOT_IN_RUNS)) is not None:
        raise pytest.UsageError(reason)
    plain = json.loads(text)
    try:
        invitation = Invitation(**plain)
        if invitation.address is not None or invitation.record is not None:
            worker = os.environ.get("PYTEST_XDIST_WORKER", MAIN)
            switch_on(config, invitation, variable, worker)
            return
    except (OSError, FrameError, MalformedMessage, EOFError, TypeError) as error:
        sys.stderr.write(f"pytest-cideldill: not connected, tests run undebugged: {error}\n")
    if (wanted := plain.get("wanted")) is not None:  # all workers must choose the same tests
        config.pluginmanager.register(Wanted(wanted), "cideldill-wanted")


def switch_on(
    config: pytest.Config, invitation: Invitation, variable: str, worker: str = MAIN
) -> None:
    """Debug this process for the front end, record it, or both.

    Raises:
        OSError, FrameError, MalformedMessage, EOFError: The front end can't be reached, or the
            record not be written.
        pytest.UsageError: What is declared up front is malformed.
    """
    position = position_file(invitation, worker)
    stacks = StackFile(invitation.file(worker, "stacks"))
    hello = _hello(config, invitation, worker, position, stacks)
    settings = read_settings(config)
    outlets, (configure, *commands) = _join(config, invitation, hello, settings)
    if not isinstance(configure, Configure):
        raise EOFError(f"the front end refused this process: {configure}")

    listing = configure.list_nodeids
    controls = worker == MAIN and not listing and _uses_xdist(config)  # no workers only to collect
    redactor = make_redactor(settings, configure)
    if invitation.record is not None and not listing:
        recorded = part_of_record(invitation.record, hello, commands, redactor, settings)
        outlets.append(recorded)
        if worker == MAIN:
            config.add_cleanup(partial(finish, config, invitation.record, recorded, settings))
    identity, passive = Identity(invitation.run_id, worker), controls or listing
    objects = objects_path(config, invitation, identity)
    shared = (configure, settings, redactor, outlets)
    engine = _engine(config, identity, objects, *shared, passive=passive)
    manager, link = engine.manager, engine.link
    for command in commands:
        _obey(engine, (), command)
    manager.begin()
    link.start()

    has_client = invitation.address is not None
    plugins: list[object] = [
        Redaction(config, manager, link, redactor, settings),
        Verdict(manager, link),
    ]
    if controls:
        plugins.append(Controller(manager, link, variable, invitation, configure.wanted))
    else:
        wanted = Wanted(configure.wanted)
        plugins += [wanted, Selection(manager, link, wanted, list_nodeids=listing)]
        plugins += _around_tests(engine, position, stacks, has_client=has_client)
    if worker != MAIN:
        plugins.append(Worker(manager, link, GOODBYE_S))
    for plugin in plugins:
        config.pluginmanager.register(plugin, f"cideldill-{type(plugin).__name__.lower()}")
    undo = [stacks.close]
    if has_client:
        asked = UserBreakpoints(manager, passes=listing)
        asked.install()
        undo += [asked.restore, manager.control.hear_signals()]
    config.add_cleanup(lambda: _leave(engine, position, undo))


def _join(
    config: pytest.Config, invitation: Invitation, hello: Hello, settings: Settings
) -> tuple[list[Outlet], list[Command | Event]]:
    """Who listens, and what this process is to do: as the front end says, or as was declared."""
    if invitation.address is None:
        return [], [*declared(config, settings, invitation.token)]
    connected, decoder = connect(invitation), FrameDecoder()
    commands = shake_hands(connected, hello, decoder)
    return [SocketOutlet(connected, decoder)], commands


def _around_tests(
    engine: _Engine, position: PositionFile | None, stacks: StackFile, *, has_client: bool
) -> list[object]:
    """The plugins that tell what becomes of the tests; and pause them, for a client."""
    manager, watchdogs = engine.manager, engine.watchdogs
    assertions = Assertions(manager.lens)
    autopsies = Autopsies(manager.lens, assertions)
    reporting = Reporting(manager, engine.link, watchdogs.pauses, position, stacks, autopsies)
    pausing = [PostMortem(manager, autopsies), watchdogs] if has_client else []
    return [assertions, reporting, engine.timeline, *pausing]


@dataclass(frozen=True, slots=True)
class _Engine:
    """The parts that plugins need."""

    manager: BreakpointManager
    link: ThreadedLink
    keeping: Keeping
    watchdogs: Watchdogs
    timeline: Timeline
    traces: FunctionTraces


def _engine(
    config: pytest.Config,
    identity: Identity,
    objects: str,
    configure: Configure,
    settings: Settings,
    redactor: Redactor,
    outlets: Sequence[Outlet],
    *,
    passive: bool,
) -> _Engine:
    """Everything that debugs, put together."""
    project = Project(
        str(config.rootpath), settings.user_paths, configure.rootdir, _copied_by_xdist()
    )
    lens = Lens(project, redactor, settings.limits)
    link = ThreadedLink(
        outlets,
        on_command=lambda command: _obey(engine, outlets, command),
        on_lost=lambda: manager.release("disconnect"),
        is_awaited=lambda: pauses.are_waiting,
        mark=lambda item: rows.mark(item),
        collect=lambda until, is_late: _collect(rows.batches(until, is_late), observers, manager),
        collects_every_s=lambda: manager.looks_around_s,
    )
    rows = RowLog(link.nudge, lambda row: recording.loses(row), link.has_room)
    observers = Observers(link.send)
    guard = EvaluationGuard()
    watchdogs = Watchdogs(config, guard)
    position = Position()
    overtime = Overtime(guard)
    limited = overtime.limited(_call, late=None)
    flush = partial(_flush, link)
    key = bytes.fromhex(configure.tag_key)
    keeping = Keeping(objects, redactor, key, guard, settings.limits, limited, flush)
    pauses = Pauses(
        identity,
        position,
        lens,
        guard,
        observers.send,
        configure.lease_s,
        watchdogs.paused,
        keeping,
        before_stop=lambda: recording.tell_running(),
        flush=flush,
    )
    pauses.pause_on = configure.pause_on
    recorded = () if passive else configure.record_calls
    traces = FunctionTraces(lens, overtime, position, rows)
    shown = (lens, rows.add, position, identity.prefix, keeping.objects)
    recording = Recording(recorded, *shown, None if passive else traces)
    shared = (lens, guard, pauses, recording, overtime, keeping, observers)
    manager = BreakpointManager(*shared, rows, passive=passive)
    timeline = Timeline(lens, position, rows.add)
    engine = _Engine(manager, link, keeping, watchdogs, timeline, traces)
    return engine


def _obey(engine: _Engine, outlets: Sequence[Outlet], command: Command | Event) -> None:
    """Carry out a command, but for those that are for the record only."""
    for each in outlets:
        each.note(command)
    if isinstance(command, AddTrace):
        engine.traces.add(function_trace(command))
    elif not isinstance(command, Changed):
        engine.manager.apply(command)  # type: ignore[arg-type]  # it refuses events by name


def _collect(
    batches: Iterable[Batch | Event], observers: Observers, manager: BreakpointManager
) -> Iterator[Event | Batch]:
    """In this order: an object is written before the event that names it leaves."""
    for each in batches:
        if observers.are_any:
            observers.tell(each.told() if isinstance(each, Batch) else each)
        yield each
    yield from manager.look_around()


def _flush(link: ThreadedLink) -> None:
    link.flush(RESUME_S)


def _call(work: Callable[[], Pickled]) -> Pickled | None:
    return work()


def _leave(
    engine: _Engine, position: PositionFile | None, undo: Iterable[Callable[[], None]]
) -> None:
    engine.manager.release("stop")
    for each in undo:
        each()
    engine.link.send(Departed())
    engine.link.close(GOODBYE_S)
    engine.keeping.close()
    if position is not None:
        position.close()


def _hello(
    config: pytest.Config,
    invitation: Invitation,
    worker: str,
    position: PositionFile | None,
    stacks: StackFile,
) -> Hello:
    return Hello(
        protocol=PROTOCOL,
        run_id=invitation.run_id,
        pid=os.getpid(),
        worker=worker,
        python=platform.python_version(),
        executable=sys.executable,
        pytest=pytest.__version__,
        rootdir=str(config.rootpath),
        cwd=os.getcwd(),
        argv=sys.orig_argv[1:],  # the workers of xdist have no others
        engine=engine(),
        position_file=position.path if position is not None else None,
        stacks_file=stacks.path,
    )


def _uses_xdist(config: pytest.Config) -> bool:
    """As xdist will decide."""
    known = config.known_args_namespace
    if (number := getattr(known, "numprocesses", None)) is not None:
        return bool(number)
    is_on = getattr(known, "distload", False) or getattr(known, "dist", "no") != "no"
    return is_on and bool(getattr(known, "tx", None))


def _copied_by_xdist() -> list[str]:
    """Where xdist has put a copy of pytest, for a worker that has its own folder; not user code."""
    files = [os.path.realpath(str(each.__file__)) for each in (pytest, _pytest)]
    folders = [os.path.dirname(file) for file in files]
    return [each for each in folders if os.path.dirname(each) == os.path.realpath(os.getcwd())]
