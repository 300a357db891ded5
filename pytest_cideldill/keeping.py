"""The objects of this process that clients can inspect by their content id.

Taken on the threads of the program, written on the I/O thread, loaded again on a paused one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_cideldill.capture.objects import Objects
from pytest_cideldill.capture.paths import navigate
from pytest_cideldill.capture.pickles import Pickled
from pytest_cideldill.capture.structure import describe
from pytest_cideldill.errors import ErrorCode
from pytest_cideldill.errors import Refusal
from pytest_cideldill.guard import EvaluationGuard
from pytest_cideldill.limits import Limits
from pytest_cideldill.record.objectlog import ObjectLog
from pytest_cideldill.record.paths import Unreachable
from pytest_cideldill.record.store import CIDStore
from pytest_cideldill.redact import Redactor
from pytest_cideldill.sources.interpose import original_code


class Keeping:
    """See the module.

    Args:
        path: The file of the store.
        redactor: Knows secrets.
        key: Of the run, secret.
        guard: Marks threads that run user code for us.
        limits: Sizes and times.
        limited: Runs what may run user code; None when that takes too long.
        flush: Has the I/O thread write what waits.
    """

    def __init__(
        self,
        path: str,
        redactor: Redactor,
        key: bytes,
        guard: EvaluationGuard,
        limits: Limits,
        limited: Callable[[Callable[[], Pickled]], Pickled | None],
        flush: Callable[[], object],
    ) -> None:
        self._log = ObjectLog()
        self._store = CIDStore(path, max_object_bytes=limits.max_object_bytes)
        self._redactor = redactor
        self._guard = guard
        self._limits = limits
        self._flush = flush

        def within_limit(work: Callable[[], Pickled]) -> Pickled:
            pickled = limited(work)
            if pickled is None:
                raise TimeoutError("pickling takes too long")
            return pickled

        self.objects = Objects(self._log, redactor, key, guard, limits, original_code, within_limit)

    def write(self) -> None:
        """Write what waits; on the I/O thread, before the events that name it."""
        self._log.write(self._store.put_many)

    def close(self) -> None:
        """Close the file; the front end goes on reading it."""
        self._store.close()

    def forget(self) -> None:
        """In a forked child: what waits belongs to the parent."""
        self._log.forget()

    def load(self, cid: str) -> Any:
        """A copy of an object, on a paused thread; may run user code.

        Raises:
            Refusal: `cid_not_found`: unknown here, kept as a snapshot only, or not loadable.
        """
        self._flush()
        reader = CIDStore(self._store.path, is_reader=True)
        try:
            data = reader.get(cid)
        finally:
            reader.close()
        if data is None:
            raise Refusal(
                ErrorCode.CID_NOT_FOUND,
                f"no object {cid[:16]}… can be made anew in this process: it is unknown here, or "
                "only its snapshot was kept",
                cid=cid,
            )
        import dill  # late: most runs never need it

        try:
            with self._guard.evaluating():
                return dill.loads(data)
        except Exception as error:
            raise Refusal(
                ErrorCode.CID_NOT_FOUND,
                f"object {cid[:16]}… can't be made anew: {type(error).__name__}",
                cid=cid,
            ) from error

    def inspect(self, cid: str, path: str, depth: int) -> dict[str, Any]:
        """The description of an object, or of a part of it, deeper than the snapshot.

        Raises:
            Refusal: `cid_not_found`, `invalid_path`.
        """
        value = self.load(cid)
        try:
            found = navigate(value, path, self._redactor)
        except (ValueError, Unreachable) as error:
            raise Refusal(ErrorCode.INVALID_PATH, str(error), cid=cid, path=path) from error
        return describe(
            found.value, name=found.name, depth=depth, limits=self._limits, redactor=self._redactor
        )
