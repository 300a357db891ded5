"""The objects of this process that clients can inspect by their content id.

Taken on the threads of the program, written on the I/O thread, loaded again on a paused one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.evaluation.guard import EvaluationGuard
from pytest_cideldill.evaluation.interrupt import EvaluationInterrupted, Interruption, Interruptor
from pytest_cideldill.interpreter.borders import at_fork
from pytest_cideldill.objects.content_ids import Held, Objects
from pytest_cideldill.objects.object_file import LOST, CorruptObject, ObjectFile
from pytest_cideldill.objects.object_log import ObjectLog
from pytest_cideldill.objects.pickles import undilled
from pytest_cideldill.protocol import Inspect
from pytest_cideldill.protocol.object_paths import Unreachable
from pytest_cideldill.rendering import layout
from pytest_cideldill.rendering.display import Lens
from pytest_cideldill.rendering.navigation import navigate
from pytest_cideldill.rendering.tree import describe

_CHANGED: Final = "it has changed since it was shown, and no copy was kept: this is how it is now"


class Keeping:
    """Takes, writes and loads the objects of this process.

    Args:
        key: Of the run, secret.
        lens: Knows secrets, sizes and times.
        guard: Marks threads that run user code for us.
        flush: Has the I/O thread write what waits.
        warn: Takes a sentence, once.
    """

    def __init__(
        self,
        path: str,
        key: bytes,
        lens: Lens,
        guard: EvaluationGuard,
        flush: Callable[[], object],
        warn: Callable[[str], object] = lambda _message: None,
    ) -> None:
        redactor, limits = lens.redactor, lens.limits
        self._log = ObjectLog()
        self._file = ObjectFile(path, max_object_bytes=limits.max_object_bytes)
        self._redactor = redactor
        self._guard = guard
        self._limits = limits
        self._flush = flush
        self._warn = warn
        self._is_ending = self._has_ended = False
        self.objects = Objects(self._log, redactor, key, guard, limits, path)
        at_fork(after_in_child=self.forget)

    def open(self) -> None:
        """Make the file, before a test could notice that."""
        self._file.open()

    def write(self) -> None:
        """Write what waits; on the I/O thread, before the events that name it."""
        self._log.write(self._file.put_many)
        if self._is_ending and not self._has_ended:
            self._has_ended = True
            self._file.settle()
            if lost := self._file.counts.lost:
                shown = "1 object" if lost == 1 else f"{lost} objects"
                self._warn(f"{shown} {LOST}: {self._file.problem}")
        elif self._file.counts.lost:
            self._warn(f"objects {LOST}: {self._file.problem}")

    def end(self) -> None:
        """Nothing is watched any more: the next write also warns how many objects were lost."""
        self._is_ending = True

    def close(self) -> None:
        """Close the file; the front end goes on reading it."""
        self._file.close()

    def forget(self) -> None:
        """In a forked child: what waits, and the file, belong to the parent."""
        self._log.forget()
        self._file.forget()

    def load(self, cid: str, held: Mapping[str, Held]) -> Any:
        """A copy of an object, on a paused thread; may run user code.

        Raises:
            Refusal: `cid_not_found`: unknown here, kept as a snapshot only, changed since, or not
                loadable.
            KeyboardInterrupt, Interruption: It was stopped.
        """
        try:
            self._flush()
            data = self._file.intact(cid)
        except CorruptObject as error:
            raise Refusal(
                ErrorCode.CID_NOT_FOUND, f"object {cid[:16]}… is damaged", cid=cid
            ) from error
        if data is None and (mine := held.get(cid)) is not None:
            self._copy(cid, mine)
            data = mine.copy
        if data is None:
            raise Refusal(
                ErrorCode.CID_NOT_FOUND,
                f"no object {cid[:16]}… can be made anew here: it is unknown, it has changed, or "
                "only its snapshot was kept. breakpoint_inspect_object has a copy kept, if one can "
                "be made, while the thread is paused that showed the object",
                cid=cid,
            )
        try:
            with self._guard.evaluating():
                return undilled(data)
        except (KeyboardInterrupt, Interruption):
            raise
        except BaseException as error:  # user code may raise anything, SystemExit too
            raise Refusal(
                ErrorCode.CID_NOT_FOUND,
                f"object {cid[:16]}… can't be made anew: {layout.type_name(error)}",
                cid=cid,
            ) from error

    def inspect(
        self, command: Inspect, held: Mapping[str, Held], interruptor: Interruptor
    ) -> dict[str, Any]:
        """The description of an object, or of a part of it, deeper than the snapshot.

        An object that is held is looked into as it is, which runs no user code. Then a copy of it
        is stored, if dill can make one, for clients that ask when the thread has gone on.

        Args:
            command: Names the object and the part.
            interruptor: Ends user code that takes too long.

        Raises:
            Refusal: `cid_not_found`, `invalid_path`, `eval_timeout`.
        """
        mine = held.get(command.cid)
        if mine is None or self.objects.unchanged(mine) is None:
            return self._inspect_copy(command, held, interruptor)
        try:
            return self._describe(mine.value, command)
        finally:
            if mine.content.kind == "snapshot":
                with suppress(EvaluationInterrupted):
                    interruptor.run(lambda: self._copy(command.cid, mine))

    def _inspect_copy(
        self, command: Inspect, held: Mapping[str, Held], interruptor: Interruptor
    ) -> dict[str, Any]:
        """Of what is not held, or not as it was any more: then as it is, if there is no copy."""
        try:
            value = interruptor.run(lambda: self.load(command.cid, held))
        except Refusal:
            if command.cid not in held:
                raise
            value = held[command.cid].value
            return self._describe(value, command) | {"message": _CHANGED}
        except EvaluationInterrupted as error:
            raise Refusal(
                ErrorCode.EVAL_TIMEOUT,
                f"making object {command.cid[:16]}… anew took too long and was interrupted",
                stopped=True,
            ) from error
        return self._describe(value, command)

    def _copy(self, cid: str, mine: Held) -> None:
        """Have a copy of a held object kept; it is tried once, as it was taken."""
        if not mine.is_asked and (description := self.objects.unchanged(mine)) is not None:
            self.objects.copy(cid, mine, description)

    def _describe(self, value: object, command: Inspect) -> dict[str, Any]:
        try:
            found = navigate(value, command.path, self._redactor)
        except (ValueError, Unreachable) as error:
            raise Refusal(
                ErrorCode.INVALID_PATH, str(error), cid=command.cid, path=command.path
            ) from error
        return describe(
            found.value,
            name=found.name,
            depth=command.depth,
            limits=self._limits,
            redactor=self._redactor,
        )
