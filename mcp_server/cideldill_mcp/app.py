"""The life of the front end: it serves until the client leaves, then it ends all its processes.

Over HTTP alone clients come and go, and only a signal ends it.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from cideldill_mcp.breakpoints.collection import Desired
from cideldill_mcp.breakpoints.inspection import find_places, path_of
from cideldill_mcp.clients.outbox import Notifier
from cideldill_mcp.clients.sessions import Clients
from cideldill_mcp.events.log import EventLog
from cideldill_mcp.processes.launch import Recipe
from cideldill_mcp.questions.asking.beside_runs import questions_beside
from cideldill_mcp.questions.asking.registry import Questions
from cideldill_mcp.resources.resource_changes import Updates
from cideldill_mcp.runs.registry import Runs
from cideldill_mcp.runs.replay import open_records
from cideldill_mcp.runs.run import RunOrder
from cideldill_mcp.server import build_server, build_stdio_server
from cideldill_mcp.transports.listening import listen
from cideldill_mcp.transports.stdio import claim_stdio, stdio_streams
from pytest_cideldill.config.settings import Settings
from pytest_cideldill.errors import Refusal
from pytest_cideldill.sourcecode.tracespec import parse_spec

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

SHUTDOWN_S = 1.0
"""Seconds for runs to end by themselves: clients kill a server 2 s after they close its stdin."""

_OF_QUESTIONS = 0.3
"""The part of this time that questions have, of which nothing is kept."""

HTTP_SHUTDOWN_S = 4.0
"""The same where only a signal ends the front end: senders of signals wait longer."""


def run_server(recipe: Recipe, settings: Settings) -> int:
    """Serve until end of file on stdin, or until a signal.

    Returns:
        The exit status: 0.

    Raises:
        CannotListen: The address for HTTP is not available.
        NoScratch: No directory for temporary files is writable.
    """
    listener = listen(settings.http_address) if settings.http else None
    pipes = claim_stdio() if settings.stdio else None
    if pipes is None:
        with suppress(OSError):  # no client is there: all output goes to stderr
            for fd in claim_stdio():
                os.close(fd)
    anyio.run(_serve, recipe, settings, pipes, listener)
    return 0


async def _serve(
    recipe: Recipe,
    settings: Settings,
    pipes: tuple[int, int] | None,
    listener: socket.socket | None,
) -> None:
    runs = Runs(recipe, Desired(), EventLog(settings.limits.max_log_bytes), settings)
    runs.are_opened = bool(settings.open)
    questions = questions_beside(runs)
    async with anyio.create_task_group() as group:
        group.start_soon(_cancel_at_signal, group.cancel_scope)
        # At the same time as the transports end: each of both may take a second.
        within_s = HTTP_SHUTDOWN_S if pipes is None else SHUTDOWN_S
        group.start_soon(_close_at_end, runs, questions, within_s)
        notifier = Notifier(runs.log, partial(_pause, runs))
        Updates(runs, notifier.changed)

        def server_for(transport: str) -> tuple[Server, Clients]:
            clients = Clients(transport, notifier, group)
            return build_server(runs, questions, settings, clients), clients

        runs.ready.clear()
        if settings.open:
            group.start_soon(_open, runs, settings.open)
        else:
            group.start_soon(_begin, runs, settings)
        if listener is not None:
            from cideldill_mcp.transports.http import serve_http

            group.start_soon(serve_http, listener, runs.directory, server_for)
        if pipes is not None:
            clients = Clients("stdio", notifier, group)
            stdio_server = build_stdio_server(runs, questions, settings, clients)
            async with stdio_streams(*pipes) as (incoming, outgoing):
                clients.write = outgoing.write
                await stdio_server.run(incoming, outgoing)
            if listener is None:
                group.cancel_scope.cancel()


async def _close_at_end(runs: Runs, questions: Questions, within_s: float) -> None:
    """When cancelled, release every pause and end every process, those of questions first."""
    try:
        await anyio.sleep_forever()
    finally:
        with anyio.CancelScope(shield=True):
            began = anyio.current_time()
            await questions.close(within_s * _OF_QUESTIONS)
            left = within_s - (anyio.current_time() - began)
            await runs.close("disconnect", max(left, within_s / 2))


async def _open(runs: Runs, records: Sequence[str]) -> None:
    try:
        await open_records(runs, [Path(folder) for folder in records])
    except OSError as error:  # the runs that were read until then are served
        sys.stderr.write(f"pytest-cideldill: a record can't be read to its end: {error}\n")
    finally:
        runs.ready.set()


async def _begin(runs: Runs, settings: Settings) -> None:
    """Set the tracepoints of the settings, and start a run if the settings ask for one."""
    for text in settings.trace:
        spec = parse_spec(text)
        try:
            path = path_of(runs.recipe, spec.file or "")
            checked = {"condition": spec.condition, "template": spec.template}
            place, *_ = await find_places(runs.recipe, path, line=spec.line, **checked)
            asked = replace(place.spec, condition=spec.condition, message=spec.template)
            runs.desired.add_line(place, asked)
        except Refusal as refusal:
            sys.stderr.write(f"pytest-cideldill: --cideldill-trace: {text!r}: {refusal.message}\n")
    runs.ready.set()
    if settings.start == "run":
        try:
            await runs.start(RunOrder())
        except Refusal as refusal:  # the server goes on: test_run will refuse for the same reason
            sys.stderr.write(f"pytest-cideldill: {refusal.message}\n")


def _pause(runs: Runs, run_id: str, pause_id: str) -> dict[str, Any] | None:
    return next((run.pauses.get(pause_id) for run in runs if run.id == run_id), None)


async def _cancel_at_signal(scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            scope.cancel()
            return
