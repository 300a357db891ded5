"""The resources of the newest run: its processes, breakpoints, threads and sources.

They are listed while the run is active (docs/resources.md); afterwards they have its last state. A
process that does not reply delays no reader: its earlier reply is shown again, as stale. Runs
on the event loop.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, TypeVar

import mcp_types as types

from cideldill_mcp.processes.process import MAIN, Look, Target
from cideldill_mcp.replies.render import MAX_MAX_CHARS, fit
from cideldill_mcp.runs.registry import Runs
from cideldill_mcp.runs.run import Run
from cideldill_mcp.sources import files
from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.project import Project

T = TypeVar("T")

SESSION = "debugger://session"
BREAKPOINTS = "debugger://breakpoints"
THREADS = "debugger://threads"

LOOK_S = 0.3
"""How long a process may take to reply; a read takes 0.5 s at most."""

_TEXTS = {
    SESSION: (
        "debugger-session",
        "The run's processes",
        "Process id, interpreter, command line and folder of the tests; their state, and where "
        "they are paused.",
    ),
    BREAKPOINTS: (
        "debugger-breakpoints",
        "Breakpoints of every kind",
        "On functions, lines and exceptions, and tracepoints: where they are, whether they are "
        "bound, how often they were hit.",
    ),
    THREADS: (
        "debugger-threads",
        "Threads",
        "Every thread of the tests: its state, and where it is.",
    ),
}
"""URI → name, title and description."""

_TEMPLATE = types.ResourceTemplate(
    uri_template=files.TEMPLATE,
    name="debugger-source",
    title="Source file",
    description="A source file of the project, or of other code that the tests have loaded. Paths "
    "are relative to the rootdir, or absolute.",
    mime_type="text/plain",
)

_BREAKPOINT_KEYS = {
    "id": "id",
    "type": "type",
    "file": "file",
    "line": "line",
    "column": "column",
    "enabled": "enabled",
    "verified": "verified",
    "state": "state",
    "hitCount": "hit_count",
    "condition": "condition",
    "logMessage": "logMessage",
}
"""Key of the resource → key of `breakpoint_list`; `_FURTHER_KEYS` only where they apply."""

_FURTHER_KEYS = {"functionName": "function_name", "exceptionType": "exceptionType"}

Read = Callable[[str, dict[str, Any]], Awaitable[str]]
"""Returns the reply of a tool as text, by its name and arguments."""


def is_of_run(uri: str) -> bool:
    """Whether a URI is one of these resources, listed or not."""
    return uri in _TEXTS or uri.startswith(files.PREFIX)


class DebugResources:
    """The resources of the newest run. `read`: calls any tool, offered to the client or not."""

    def __init__(self, read: Read, runs: Runs) -> None:
        self._read = read
        self._runs = runs

    def definitions(self) -> list[types.Resource]:
        """The list for `resources/list`."""
        if self._runs.active is None:
            return []
        return [
            types.Resource(
                uri=uri, name=name, title=title, description=about, mime_type="application/json"
            )
            for uri, (name, title, about) in _TEXTS.items()
        ]

    def templates(self) -> list[types.ResourceTemplate]:
        """The list for `resources/templates/list`."""
        return [] if self._runs.active is None else [_TEMPLATE]

    async def read(self, uri: str) -> types.TextResourceContents:
        """The contents of a resource that `is_of_run`; at most 200,000 characters.

        Raises:
            Refusal: There was no run yet; the file may not be shown.
        """
        if uri not in _TEXTS:
            return await self._source(uri)
        run = self._runs.get(None)
        body, lists = _session(run, self._runs.recipe.rootdir), ["processes"]
        if uri == BREAKPOINTS:
            body, lists = await self._breakpoints(run), ["breakpoints"]
        elif uri == THREADS:
            body, lists = await _threads(run), ["threads"]
        text = fit(body, MAX_MAX_CHARS, lists=lists)
        return types.TextResourceContents(uri=uri, mime_type="application/json", text=text)

    async def _breakpoints(self, run: Run) -> dict[str, Any]:
        reply = json.loads(await self._read("breakpoint_list", {"max_chars": MAX_MAX_CHARS}))
        breakpoints = [
            {key: breakpoint.get(name) for key, name in _BREAKPOINT_KEYS.items()}
            | {key: breakpoint[name] for key, name in _FURTHER_KEYS.items() if name in breakpoint}
            for breakpoint in reply.pop("breakpoints")
        ]
        return {"breakpoints": breakpoints, **reply, "stale": run.is_over}

    async def _source(self, uri: str) -> types.TextResourceContents:
        run, name = self._runs.get(None), files.name_in(uri)
        recipe = self._runs.recipe
        root = _rootdir(run, recipe.rootdir) or os.getcwd()
        project = Project(root, recipe.user_paths)
        path = files.real_path(project, name)
        if not files.is_of_project(project, path):
            await _check_loaded(run, project, path, name)
        text = await files.text_of(path, name, run.redactor.redact_source)
        meta = {"stale": True} if run.is_over else None
        return types.TextResourceContents(uri=uri, mime_type="text/plain", text=text, _meta=meta)


# --- processes ----------------------------------------------------------------------------------


def _session(run: Run, rootdir: str | None) -> dict[str, Any]:
    body = {
        **_process(run, run.main, list(run.pauses.values())),
        "state": run.state,
        "rootdir": _rootdir(run, rootdir),
        "processes": [
            _process(
                run, target, [pause for pause in run.pauses.values() if pause["worker"] == name]
            )
            for name, target in run.workers.items()
        ],
        "stale": run.is_over,
    }
    if run.main is None and run.child is not None:
        body |= {"processId": run.child.pid, "message": f"run {run.id} is starting"}
    return body


def _process(run: Run, target: Target | None, pauses: list[dict[str, Any]]) -> dict[str, Any]:
    """One process, None before it has connected; of its pauses the newest one counts."""
    hello = None if target is None else target.hello
    pause: dict[str, Any] = pauses[-1] if pauses else {}
    return {
        "worker": hello and hello.worker,
        "processId": hello and hello.pid,
        "processName": hello and os.path.basename(hello.executable),
        "executablePath": hello and hello.executable,
        "runtimeVersion": hello and hello.python,
        "state": _state(run, target, is_paused=bool(pauses)),
        "launchMode": "launch",
        "attachedAt": target and target.attached_at,
        "currentLocation": pause.get("location"),
        "pauseReason": pause.get("pause_reason"),
        "activeThreadId": pause["thread"]["id"] if pause else None,
        "pauseId": pause.get("id"),
        "commandLineArgs": hello and run.redactor.redact_arguments(hello.argv),
        "workingDirectory": hello and hello.cwd,
        "runId": run.id,
        "rootdir": hello and hello.rootdir,
    }


def _state(run: Run, target: Target | None, *, is_paused: bool) -> str:
    """The state of one process: that of the run, except where it differs, and `ended`."""
    if target is not None and not target.is_alive:
        return "ended"
    if is_paused:
        return "paused"
    return "running" if run.state == "paused" else run.state


def _rootdir(run: Run, rootdir: str | None) -> str | None:
    return rootdir if run.main is None else run.main.hello.rootdir


# --- threads ------------------------------------------------------------------------------------


async def _threads(run: Run) -> dict[str, Any]:
    """The threads of live processes; when the run is over, those of their last replies."""
    alive = list(run.targets.values())
    replies = await _answers(target.look(LOOK_S) for target in alive)
    messages = [reply.message for reply in replies if isinstance(reply, Refusal)]
    looks = [target.last_look for target in alive or run.workers.values() if target.last_look]
    if not alive:
        messages.append(f"run {run.id} is {run.state}: no process of it is connected")
    body: dict[str, Any] = {
        "threads": list(_shown_threads(run, looks)),
        "stale": bool(messages),
        "capturedAt": min((target.at for target in looks), default=None),
    }
    return body | ({"message": "; ".join(messages)} if messages else {})


def _shown_threads(run: Run, looks: list[Look]) -> Iterator[dict[str, Any]]:
    """The threads of the tests. Current is that of the newest pause, else pytest's main thread."""
    pauses = list(run.pauses.values())
    current = pauses[-1]["worker"] if pauses else MAIN
    for thread in (thread for look in looks for thread in look.threads if not thread["is_ours"]):
        yield {
            "id": thread["id"],
            "name": thread["name"],
            "state": thread["state"],
            "isCurrent": thread["is_current"] and thread["worker"] == current,
            "worker": thread["worker"],
            "location": thread["location"],
        }


# --- sources ------------------------------------------------------------------------------------


async def _check_loaded(run: Run, project: Project, path: str, name: str) -> None:
    """Check that a file outside of the project may be shown: its code is loaded or in a stack.

    Raises:
        Refusal: `file_not_found`, whether the file exists or not.
    """
    shown = (project.real(os.path.join(project.rootdir, file)) for file in _files_in_stacks(run))
    if path in shown or any(path in target.loaded for target in run.workers.values()):
        return
    replies = await _answers(target.has_loaded(path, LOOK_S) for target in run.targets.values())
    if True in replies:
        return
    why = "".join(f"; {reply.message}" for reply in replies if isinstance(reply, Refusal))
    raise Refusal(
        ErrorCode.FILE_NOT_FOUND,
        f"{name!r} is neither a file of the project nor of code that the tests have loaded{why}",
    )


def _files_in_stacks(run: Run) -> Iterator[str]:
    """The files in the stacks of pauses and of failed tests."""
    autopsies = [failure.autopsy for failure in run.results.failures]
    autopsies += [pause.get("autopsy") for pause in run.pauses.values()]
    frames = [frame for autopsy in autopsies if autopsy for frame in autopsy.get("frames", ())]
    places = [frame["location"] for frame in frames]
    places += [place for pause in run.pauses.values() for place in pause.get("frames") or ()]
    yield from {place["file"] for place in places if place}


async def _answers(questions: Iterable[Awaitable[T]]) -> list[T | Refusal]:
    """The replies of processes to concurrent requests; a refusal is a reply."""
    answers = await asyncio.gather(*questions, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException) and not isinstance(answer, Refusal):
            raise answer
    return answers  # type: ignore[return-value]
