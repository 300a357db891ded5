"""Switches the plugin on in a process that the front end (or xdist's controller) started.

Before any conftest is loaded: dial out, shake hands, receive every breakpoint, register the hooks.
When that fails the tests run as without the plugin, after one line on stderr.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Callable, Iterable
from functools import partial

import _pytest
import pytest

from pytest_cideldill.config.settings import Settings
from pytest_cideldill.config.settings import read as read_settings
from pytest_cideldill.hooks.assertions import Assertions, rewriting
from pytest_cideldill.hooks.exit_status import ExitStatus
from pytest_cideldill.hooks.failure_reports import Autopsies
from pytest_cideldill.hooks.guest import clean_up, say
from pytest_cideldill.hooks.host import Host, Unwatched
from pytest_cideldill.hooks.interactive_options import Unattended
from pytest_cideldill.hooks.reports import Reporting
from pytest_cideldill.hooks.secrets import Redaction, make_redactor
from pytest_cideldill.hooks.selection import Selection, Wanted
from pytest_cideldill.hooks.stack_file import StackFile
from pytest_cideldill.interpreter.borders import at_exit, every, passes, text_of
from pytest_cideldill.interpreter.running import holds_threads
from pytest_cideldill.link.handshake import HASH_SEED, Invitation, connect, rejoin, shake_hands
from pytest_cideldill.link.sinks import Outlet, SocketOutlet
from pytest_cideldill.project import Project
from pytest_cideldill.protocol import (
    PROTOCOL,
    Command,
    Configure,
    Departed,
    Event,
    Hello,
    MalformedMessage,
    to_plain,
)
from pytest_cideldill.protocol.current_test_file import PositionFile
from pytest_cideldill.protocol.framing import FrameDecoder, FrameError, encode_frame
from pytest_cideldill.redaction.redactor import Redactor
from pytest_cideldill.rendering.display import Lens
from pytest_cideldill.rendering.source_text import Texts
from pytest_cideldill.tracing.engine import engine

GOODBYE_S = 20.0
"""How long the last events may take to leave: a thread may have left 200,000 calls to send. Without
them, and the goodbye behind them, the run would look like a crash."""

_REFUSED = (OSError, FrameError, MalformedMessage, EOFError, TypeError)
"""Errors whose text says why there is no front end."""

MAIN = "main"
"""Name of the process that is no xdist worker."""


def activate(config: pytest.Config, text: str, variable: str) -> None:
    """Connect and register; on any failure say so on stderr and leave the run alone.

    Raises:
        pytest.UsageError: What is declared up front is malformed.
    """
    plain = json.loads(text)
    if plain.get("hash_seed") is not None:  # Python has read it; tests see what they see without us
        os.environ.pop(HASH_SEED, None)
    try:  # a border as well: whatever is wrong with us, the tests run
        invitation = Invitation(**plain)
        if invitation.address is not None or invitation.record is not None:
            worker = os.environ.get("PYTEST_XDIST_WORKER", MAIN)
            switch_on(config, invitation, variable, worker)
            return
    except pytest.UsageError:
        raise
    except Exception as error:
        if passes(error):
            raise
        why = error if isinstance(error, _REFUSED) else text_of(error)
        say(f"pytest-cideldill: not connected, tests run undebugged: {why}")
    config.pluginmanager.register(Unattended(), "cideldill-unattended")
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
    position = _position_file(invitation, worker)
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
        outlets.append(_record(config, invitation, hello, commands, redactor, settings))
    project = Project(
        str(config.rootpath), settings.user_paths, configure.rootdir, _copied_by_xdist()
    )
    lens = Lens(project, redactor, settings.limits, Texts(rewriting(config)))
    if invitation.address is None and not (commands or configure.record_calls):
        host: Host = Unwatched(lens, outlets)
    else:
        from pytest_cideldill.hooks.debugged_process import Debugged, options_of

        passive = controls or listing
        options = options_of(config, invitation, worker, configure, passive=passive)
        has_client = invitation.address is not None
        host = Debugged(config, lens, outlets, options, has_client=has_client, file=position)
    plugins: list[object] = [
        Redaction(config, host, redactor, settings),
        ExitStatus(host, position),
    ]
    plugins += [Unattended(host)] if invitation.address is not None else []
    if controls:
        from pytest_cideldill.hooks.xdist import Controller

        plugins.append(Controller(config, host, variable, invitation, configure.wanted))
    else:
        wanted = Wanted(configure.wanted, host)
        plugins += [wanted, Selection(host, wanted, list_nodeids=listing)]
        plugins += _of_tests(config, host, position, stacks)
    plugins += _of_worker(worker, host)
    undo: list[Callable[[], object]] = [stacks.close]
    leave = partial(_leave, host, position, undo)
    try:
        _enter(config, host, commands, plugins)
        undo += host.hear(passes=listing)
    except BaseException:
        every("giving up", [partial(_unregister, config, plugin) for plugin in plugins], say)
        leave()
        raise
    clean_up(config, "the end of the run", leave)


def _of_tests(
    config: pytest.Config, host: Host, position: PositionFile | None, stacks: StackFile
) -> list[object]:
    """The plugins of a process that runs tests."""
    assertions = Assertions(host.lens, host)
    autopsies = Autopsies(host.lens, assertions)
    reporting = Reporting(config, host, position, stacks, autopsies)
    return [assertions, reporting, host.timeline, *host.pausing(autopsies)]


def _of_worker(worker: str, host: Host) -> list[object]:
    """The plugins of a worker of xdist."""
    if worker == MAIN:
        return []
    from pytest_cideldill.hooks.xdist import Worker

    return [Worker(host, GOODBYE_S)]


def _enter(
    config: pytest.Config, host: Host, commands: list[Command | Event], plugins: list[object]
) -> None:
    """From here on this process is watched."""
    host.begin(commands)
    host.link.start()
    for plugin in plugins:
        config.pluginmanager.register(plugin, f"cideldill-{type(plugin).__name__.lower()}")


def _unregister(config: pytest.Config, plugin: object) -> None:
    if config.pluginmanager.is_registered(plugin):
        config.pluginmanager.unregister(plugin)


def _join(
    config: pytest.Config, invitation: Invitation, hello: Hello, settings: Settings
) -> tuple[list[Outlet], list[Command | Event]]:
    """Who listens, and what this process is to do: as the front end says, or as was declared."""
    if invitation.address is None:
        return [], [_configure(settings, invitation.token), *_declared(config, settings)]
    connected, decoder = connect(invitation), FrameDecoder()
    commands = shake_hands(connected, hello, decoder)
    is_here = invitation.directory is not None  # from elsewhere nobody may
    again = partial(rejoin, invitation, hello) if is_here else None
    return [SocketOutlet(connected, decoder, again, len(encode_frame(to_plain(hello))))], commands


def _record(
    config: pytest.Config,
    invitation: Invitation,
    hello: Hello,
    commands: list[Command | Event],
    redactor: Redactor,
    settings: Settings,
) -> Outlet:
    """Record this process; the main one puts the run together when it is over."""
    from pytest_cideldill.hooks.recording import finish, mark_recorded, part_of_record

    folder = str(invitation.record)
    recorded = part_of_record(folder, hello, commands, redactor, settings)
    if hello.worker == MAIN:
        why = None
        if settings.why and invitation.address is None:  # a client asks for itself
            from pytest_cideldill.hooks.why import asking

            why = asking(config, settings)
        end = partial(finish, config, folder, recorded, settings, why)
        clean_up(config, "the end of the record", end)
        mark_recorded(config, hello.run_id)
    return recorded


def _configure(settings: Settings, key: str) -> Configure:
    """As a front end would, of a run without one."""
    return Configure(
        "never",
        settings.lease_s,
        record_calls=list(settings.record_calls),
        tag_key=key,
        no_redact=settings.no_redact,
    )


def _declared(config: pytest.Config, settings: Settings) -> list[Command]:
    if not settings.trace:
        return []
    from pytest_cideldill.hooks.declared_tracepoints import declared

    return declared(config, settings)


def _leave(host: Host, position: PositionFile | None, undo: Iterable[Callable[[], object]]) -> None:
    """Whatever fails, the rest is done; what the link can't take any more is said here."""
    depart = partial(host.link.send, Departed())
    close = partial(host.link.close, GOODBYE_S)
    settle = partial(host.settle, GOODBYE_S)
    steps: list[Callable[[], object]] = [host.release, *undo, settle, depart, close, host.close]
    if position is not None:
        # Threads may never end; when they have, handlers of the exit begin with this one.
        at_exit("the position", partial(position.mark, ending=True))
        steps.insert(0, lambda: position.mark(ending=not holds_threads()))
    every("the end of the run", steps, host.warn)
    for message in host.warnings.unsent:
        say(message)


def _position_file(invitation: Invitation, worker: str) -> PositionFile | None:
    path = invitation.file(worker, "position")
    try:
        return None if path is None else PositionFile(path)
    except (OSError, ValueError):
        return None  # a full disk: only the place of a crash is lost


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
    options = config.known_args_namespace
    if (number := getattr(options, "numprocesses", None)) is not None:
        return bool(number)
    is_on = getattr(options, "distload", False) or getattr(options, "dist", "no") != "no"
    return is_on and bool(getattr(options, "tx", None))


def _copied_by_xdist() -> list[str]:
    """Where xdist has put a copy of pytest, for a worker that has its own folder; not user code."""
    files = [os.path.realpath(str(module.__file__)) for module in (pytest, _pytest)]
    folders = [os.path.dirname(file) for file in files]
    return [each for each in folders if os.path.dirname(each) == os.path.realpath(os.getcwd())]
