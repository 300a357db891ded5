"""The questions that work now: their ids, their processes and files, and how they are ended.

They work beside the runs and are none of them. On the event loop.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from cideldill_mcp.processes.launch import HASH_SEED, Recipe, Start, launch
from cideldill_mcp.processes.reaper import Reaper
from cideldill_mcp.questions.asking.ledger import OF_RECORD, Ledger, file_of_project
from cideldill_mcp.questions.asking.side_process import Cut, SideProcess, Slots, cores
from cideldill_mcp.runs.nodeids import relative
from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.project import Project
from pytest_cideldill.protocol.trace_rows import VARIABLE, TraceRequest

if TYPE_CHECKING:
    from cideldill_mcp.questions.patches.whole_texts import PatchedFile
    from pytest_cideldill.redaction.redactor import Redactor

MAX_TIMEOUT_S = 3_600.0
"""Seconds of a question, at most."""

RESERVE_S = 5.0
"""Seconds of a question's time, at most, in which its processes end and its text is made."""

_PLUGIN = ("-p", "cideldill")
"""First arguments of pytest: where the plugin is not installed nothing runs, instead of all."""

PROGRESS_S = 0.5
"""Seconds between two reports of progress."""

Progress = Callable[[float, float | None, str], Awaitable[None]]
"""Takes the seconds since the question began, those that it has, and a sentence."""


async def no_progress(_seconds: float, _total: float | None, _text: str) -> None:
    """Progress that nobody asked for."""


@dataclass(frozen=True, slots=True)
class Home:
    """What the processes of all questions share.

    Attributes:
        recipe: How the user's pytest is started, by the time of the call.
        directory: Private; for files and streams.
        reaper: Ends processes when this one is gone.
        key: Of the tags of secrets, hex.
        no_redact: Whether secrets are shown.
        hash_seed: PYTHONHASHSEED of all processes; None: the user has set it.
        redactor: Hides secrets in what this process reads itself.
        workers: Whether processes may use workers of xdist.
        record: The folder in which the session is recorded; empty: it is not.
    """

    recipe: Callable[[], Recipe]
    directory: str
    reaper: Reaper
    key: str
    no_redact: bool
    hash_seed: str | None
    redactor: Callable[[], Redactor]
    workers: bool = False
    record: str = ""


@dataclass(frozen=True, slots=True)
class Variation:
    """In what a process differs from others of its question.

    Attributes:
        variables: Of its environment; None: it is not set.
        arguments: Further ones of pytest.
        patches: Files with other texts; None: pytest is started as without us, so that what starts
            it in the place of the user's is a difference too.
    """

    variables: Mapping[str, str | None] = field(default_factory=dict)
    arguments: Sequence[str] = ()
    patches: Sequence[PatchedFile] | None = None


PLAIN = Variation()


@dataclass(frozen=True, slots=True)
class SideRun:
    """What is left of a process of a question.

    Attributes:
        file: Its rows; there as long as the question works.
        cut: Why it was ended; None: it ended by itself.
        returncode: None: it was never started.
        out: The end of what it printed; there may be secrets in it.
        err: The same of stderr.
    """

    file: str
    cut: Cut | None
    returncode: int | None
    out: str = ""
    err: str = ""


class Question:
    """One question that works. Its `run` may be called several times, also at once.

    Attributes:
        id: `q1`.
        name: The tool's.
        nodeid: The test that it is about; None: it runs none.
        timeout_s: Bounds the whole question.
        cut: Why it was ended before it was done.
        files: Those that are removed with it, beside what its processes have.
    """

    def __init__(
        self, id: str, name: str, nodeid: str | None, timeout_s: float, home: Home, slots: Slots
    ) -> None:
        self.id = id
        self.name = name
        self.nodeid = nodeid
        self.timeout_s = timeout_s
        self.cut: Cut | None = None
        self._home = home
        self._slots = slots
        self._began = time.monotonic()
        self._until = self._began + timeout_s - min(RESERVE_S, timeout_s / 10)
        self._count = self._waiting = 0
        self._reported_at = self._began
        self._stopped = asyncio.get_running_loop().create_future()
        self.progress: Progress = no_progress
        self.processes: list[SideProcess] = []
        self._folder: str | None = None
        self.files: list[str] = []

    @property
    def seconds(self) -> float:
        """Since it began."""
        return round(time.monotonic() - self._began, 2)

    @property
    def doing(self) -> str:
        """What it does now, in words."""
        working = [process for process in self.processes if not process.is_gone]
        if not working:
            return "waits for other questions" if self._waiting else "makes the answer"
        if self.cut is not None or all(process.cut is not None for process in working):
            return "its processes are ended"
        tests = [process.position.test for process in working if process.position.test is not None]
        return f"tests run: {', '.join(tests[:3])}" if tests else "pytest starts"

    def to_plain(self) -> dict[str, Any]:
        """An item of `debug_state.questions`."""
        return {
            "id": self.id,
            "question": self.name,
            "nodeid": self.nodeid,
            "seconds": self.seconds,
            "doing": self.doing,
        }

    async def run(
        self,
        request: TraceRequest,
        variation: Variation = PLAIN,
        within_s: float | None = None,
    ) -> SideRun:
        """Run tests in a process of its own, to its end or to that of the question's time.

        Args:
            request: Its `file` and what the processes share are filled in.
            variation: In what it differs from others.
            within_s: Seconds that the process has, where that is less; the question goes on then.

        Raises:
            Refusal: `internal_error`: the interpreter can't be started.
        """
        place = self._slots.take()
        try:
            self._waiting += 1
            await self._until_done(place)
            self._waiting -= 1
            if not place.done():
                self.cut = self.cut or "timeout"
            if self.cut is not None:
                self._slots.give(place)
                return SideRun("", self.cut, None)
            until = self._until
            if within_s is not None:
                until = min(until, time.monotonic() + within_s)
            process = self._start(request, variation, until, lambda: self._slots.give(place))
        except BaseException:
            self._slots.give(place)
            raise
        await self._until_done(process.gone)
        if until == self._until:
            self.cut = self.cut or process.cut
        child = process.child
        return SideRun(
            process.file, process.cut, child.returncode, child.out.text(), child.err.text()
        )

    def new_file(self) -> str:
        """A private file for rows of a fork.

        Raises:
            OSError: It can't be made.
        """
        path = os.path.join(self._home.directory, f"{self.id}.fork{len(self.files) + 1}.rows")
        _make_private(path)
        self.files.append(path)
        return path

    def new_folder(self) -> str:
        """A private folder, which is removed with the question.

        Raises:
            OSError: It can't be made.
        """
        if self._folder is None:
            self._folder = mkdtemp(prefix=f"{self.id}-", dir=self._home.directory)
        return mkdtemp(dir=self._folder)

    @property
    def uses_workers(self) -> bool:
        """Whether its processes may use workers of xdist."""
        return self._home.workers

    @property
    def redactor(self) -> Redactor:
        """Hides secrets in what this process reads itself."""
        return self._home.redactor()

    @property
    def python(self) -> str:
        """The interpreter of the tests."""
        return self._home.recipe().command[0]

    def stop(self, *, kill: bool = False) -> None:
        """Let it reply what it has. Asked again, its processes have less time."""
        self.end("stopped", hurry=self.cut is not None, kill=kill)

    def end(self, cut: Cut, *, hurry: bool = False, kill: bool = False) -> None:
        """End its processes; it starts no further ones."""
        self.cut = self.cut or cut
        if not self._stopped.done():
            self._stopped.set_result(None)
        for process in self.processes:
            process.end(cut, hurry=hurry, kill=kill)

    async def _until_done(self, awaited: asyncio.Future[None]) -> None:
        """Wait for a process or a place; report what happens meanwhile."""
        is_place = not isinstance(awaited, asyncio.Task)
        while not awaited.done():
            left = self._until - time.monotonic()
            if is_place and (left <= 0 or self.cut is not None):
                return
            both = {awaited, self._stopped} if is_place else {awaited}
            pause = min(PROGRESS_S, max(left, 0.01)) if is_place else PROGRESS_S
            await asyncio.wait(both, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            await self._report(time.monotonic())

    async def _report(self, now: float) -> None:
        if now - self._reported_at >= PROGRESS_S:  # several processes report as one
            self._reported_at = now
            seconds = now - self._began
            verb, _, test = self.doing.partition(": ")
            text = f"{verb} {seconds:.0f} s" + (f": {test}" if test else "")
            await self.progress(seconds, self.timeout_s, text)

    def _start(
        self,
        request: TraceRequest,
        variation: Variation,
        until: float,
        on_gone: Callable[[], None],
    ) -> SideProcess:
        recipe = self._home.recipe()
        self._count += 1
        name = f"{self.id}.{self._count}"
        file = os.path.join(self._home.directory, f"{name}.rows")
        try:
            _make_private(file)
            variables = self._variables(request, variation, file)
            if variation.patches is not None:
                from cideldill_mcp.questions.patches.whole_texts import patched_start

                recipe, more = patched_start(recipe, variation.patches, self.new_folder())
                variables |= more
            command = recipe.command_line(variation.arguments)
            command[len(recipe.command) : len(recipe.command)] = _PLUGIN
            start = Start(name, self._home.directory, variables)
            child = launch(command, start, self._home.reaper)
        except OSError as error:
            with suppress(OSError):
                os.unlink(file)
            message = f"{recipe.command[0]} can't be started: {error}"
            raise Refusal(ErrorCode.INTERNAL_ERROR, message) from error
        process = SideProcess(child, file, until, on_gone)
        self.processes.append(process)
        return process

    def forget(self) -> None:
        """Remove its files; it is over."""
        for path in (*(process.file for process in self.processes), *self.files):
            with suppress(OSError):
                os.unlink(path)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _variables(
        self, request: TraceRequest, variation: Variation, file: str
    ) -> dict[str, str | None]:
        """What a process has in its environment beside what it inherits."""
        home = self._home
        seed = None if HASH_SEED in variation.variables else home.hash_seed
        whole = replace(
            request,
            file=file,
            key=home.key,
            no_redact=home.no_redact,
            hash_seed=seed,
            workers=home.workers,
            pinned=len(home.recipe().pinned) + len(_PLUGIN),
        )
        ours = {VARIABLE: json.dumps(asdict(whole)), **({} if seed is None else {HASH_SEED: seed})}
        return {**variation.variables, **ours}


def _make_private(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


class Questions:
    """All questions of a server, or the one of a command.

    Args:
        home: For their processes.
        most: How many processes work at a time; default: as many as there are cores.

    Attributes:
        ledger: What was tried.
    """

    def __init__(self, home: Home, most: int | None = None) -> None:
        self._home = home
        self.ledger = Ledger(self._ledgers, lambda text: home.redactor().redact_text(text))
        self._slots = Slots(most or cores())
        self._count = 0
        self._working: dict[str, Question] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[Question]:
        return iter(list(self._working.values()))

    @property
    def rootdir(self) -> str:
        """What node ids are relative to, as far as it is known."""
        return self._home.recipe().rootdir or os.getcwd()

    def nodeid(self, text: str) -> str:
        """A node id as pytest writes it, of one whose path may be absolute or begin elsewhere."""
        return relative(text, self.rootdir)

    @property
    def project(self) -> Project:
        """What is the user's code, as far as it is known."""
        return Project(self.rootdir, self._home.recipe().user_paths)

    def redactor(self) -> Redactor:
        """Hides secrets in what this process reads itself."""
        return self._home.redactor()

    def _ledgers(self) -> list[Path]:
        record = self._home.record
        return [file_of_project(self.rootdir), *([Path(record) / OF_RECORD] if record else [])]

    @contextmanager
    def begin(
        self, name: str, nodeid: str | None, timeout_s: float, progress: Progress = no_progress
    ) -> Iterator[Question]:
        """A question that works until the context is left; nothing of it remains."""
        self._count += 1
        id = f"q{self._count}"
        question = Question(id, name, nodeid, timeout_s, self._home, self._slots)
        question.progress = progress
        self._working[id] = question
        try:
            yield question
        finally:
            self._leave(question)

    def stop(self, id: str, *, kill: bool = False) -> Question | None:
        """Stop a question; None: it is over already.

        Raises:
            Refusal: `run_not_found`: there was none with this id.
        """
        if (question := self._working.get(id)) is not None:
            question.stop(kill=kill)
            return question
        if id[1:].isdecimal() and 0 < int(id[1:]) <= self._count:
            return None
        there = ", ".join(self._working) or "none works now"
        raise Refusal(ErrorCode.RUN_NOT_FOUND, f"no question {id!r}; known: {there}", run_id=id)

    async def close(self, within_s: float) -> None:
        """End all of them within a time; what lives then is killed."""
        await self.ledger.save()
        for question in self:
            question.end("stopped")
            self._leave(question)
        for last in (False, True):
            tasks = {process.gone for question in self for process in question.processes}
            if last:
                for question in self:
                    question.end("stopped", kill=True)
            if tasks:
                await asyncio.wait(tasks, timeout=within_s)
        if self._ending:
            await asyncio.wait(self._ending, timeout=within_s)

    def _leave(self, question: Question) -> None:
        if question.id not in self._working:
            return
        living = [process for process in question.processes if not process.gone.done()]
        if not living:
            self._forget(question)
            return
        # The request was cancelled, and with it each await here: a task of its own goes on.
        question.end("stopped")
        task = asyncio.create_task(self._forget_later(question), name=f"the end of {question.id}")
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _forget_later(self, question: Question) -> None:
        try:
            await asyncio.wait([process.gone for process in question.processes])
        finally:
            self._forget(question)

    def _forget(self, question: Question) -> None:
        self._working.pop(question.id, None)
        question.forget()
