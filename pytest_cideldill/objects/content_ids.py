"""Content ids (CIDs): names of objects, by which the store keeps their snapshots and pickles.

A CID is the SHA-512 of what dill makes of the object (protocol 4) where no user code is needed for
that, else of its snapshot. Equal CIDs mean equal content, different ones don't mean different
content: the same values in another order, or sharing strings otherwise, have another pickle.

Nothing here runs user code, but `copy`. A call that is recorded: `freeze` on the calling thread,
then `identify` on any thread. At a pause: `take`, which also holds the object, so that clients can
look into it. When one asks for it, `copy` lets dill try, and the pickle is stored under the CID
that the object has already. Others may have the same snapshot and another pickle; so at a pause the
CID of what is called by its snapshot is that of this object at this pause alone.

A secret's SHA-512 could be found by trying out passwords, and its pickle holds it. So objects with
secrets in them are called by a digest with the key of the run, and their pickle is not kept; what
has a sensitive name is called by its redacted snapshot.
"""

from __future__ import annotations

import hmac
import json
import pickle
import re
from collections.abc import Sequence
from hashlib import sha512
from itertools import count
from typing import Any, Final, Literal, NamedTuple
from weakref import ref

from pytest_cideldill.config.limits import DEFAULTS, Limits
from pytest_cideldill.evaluation.guard import EvaluationGuard
from pytest_cideldill.evaluation.interrupt import Interruption
from pytest_cideldill.interpreter.clock import Deadline
from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.objects.object_log import Budget, ObjectLog, Recent, sealed
from pytest_cideldill.objects.pickle_reader import plain_value, strings
from pytest_cideldill.objects.pickles import (
    FAST_MS,
    PROTOCOL,
    GivenUp,
    Pickled,
    dilled,
    fast,
    fast_digest,
)
from pytest_cideldill.patching.code_swap import original_code
from pytest_cideldill.redaction.redactor import Redactor
from pytest_cideldill.redaction.tags import TAGGED
from pytest_cideldill.rendering.layout import LARGE, NUMBERS
from pytest_cideldill.rendering.tree import describe

MAX_FROZEN_BYTES: Final = 32 * 1024 * 1024
"""Pickles that wait for `identify`; beyond it objects are called by their snapshots."""

MAX_HELD: Final = 200
"""Objects that a pause holds; beyond it those that were taken first are let go."""

COPY_MS: Final = 1_000
"""Milliseconds after which dill gives up, as soon as it comes to the next object."""

_LONGEST_KEY: Final = 256
"""Bytes of a pickle up to which it is remembered itself; of longer ones, the digest."""

_LEAST_MS: Final = 1.0
"""Milliseconds of a snapshot when pickling took the time of both."""

_NAME: Final = re.compile(r"[\w.-]+")
_LONGEST_NAME: Final = 200
_SOME_SECRET: Final = "q7Zk93x1"  # any value: what counts is the name before it

_ATOM_TYPES: Final = (int, str, float, bool, type(None))

LONGEST_FROZEN: Final = 2_000
"""Characters from which on a string is pickled by `freeze`."""

_MOST_ATOMS: Final = 8_192
"""Numbers, and as many strings, whose CIDs are known."""

_NOTHING: Final = '{"type":"unknown","repr":"<unrenderable>","attributes":{}}'

_to_json: Final = json.JSONEncoder(separators=(",", ":")).encode
_dumps: Final = pickle.dumps


class Identified(NamedTuple):
    """The CID of an object.

    Attributes:
        cid: 128 hexadecimal digits.
        kind: What was digested: the pickle, the pickle with the key of the run, the snapshot.
        data: The pickle, where it was made now and may be kept.
    """

    cid: str
    kind: Literal["dill", "secret", "snapshot"]
    data: bytes | None = None


class Taken:
    """An object as it was when `freeze` saw it, and counted as long as it waits for `identify`.

    Args:
        description: The snapshot, as JSON; None if it follows from the pickle.
        data: The pickle, if there is one.
        budget: Has room for both.
    """

    __slots__ = ("__weakref__", "_budget", "_size", "data", "description")

    def __init__(self, description: str | None, data: bytes | None, budget: Budget | None) -> None:
        self.description = description
        self.data = data
        self._budget = budget
        self._size = len(description or "") + len(data or b"")

    def __del__(self) -> None:
        if self._budget is not None:
            self._budget.give_back(self._size)


Atom = int | str | float | bool | None
"""A value of exactly one of these types; of strings a short one."""

Frozen = Atom | bytes | Taken | Identified
"""What `freeze` makes. An atom is itself, for nobody can change it; bytes are the short pickle of
another built-in value."""


@dataclass(slots=True)
class Held:
    """An object of a pause, for clients that ask for it. Written by the parked thread only.

    Attributes:
        content: What it held when it was taken, whatever its CID is.
        is_asked: Whether a copy was tried.
        copy: The pickle, if that could be made and holds no secret.
    """

    value: object
    content: Identified
    is_asked: bool = False
    copy: bytes | None = None


class Objects:
    """Gives objects their content ids, and logs new ones.

    Args:
        key: Of the run, secret.
        guard: Marks this thread while dill runs user code.
        limits: Bytes per object, time, size of snapshots.
        origin: Names this process among those of the run.
    """

    def __init__(
        self,
        log: ObjectLog,
        redactor: Redactor,
        key: bytes,
        guard: EvaluationGuard,
        limits: Limits = DEFAULTS,
        origin: str = "",
    ) -> None:
        self._log = log
        self._redactor = redactor
        self._key = key
        self._guard = guard
        self._limits = limits
        self._origin = origin
        self._next_number = count(1).__next__
        self._is_sensitive = redactor.name_is_sensitive
        self._most = limits.max_object_bytes
        self._fast_ms = min(limits.capture_ms, FAST_MS)
        # A pickle, or the digest of a long one → what it is called.
        self._known: Recent[bytes, Identified] = Recent()
        # Atoms → their CIDs. By type, as True == 1 == 1.0; zeros are not there, as 0.0 == -0.0.
        self._atoms: dict[type, dict[Any, str]] = {kind: {} for kind in _ATOM_TYPES}
        self.longest_atom = min(LONGEST_FROZEN, limits.max_object_bytes + 1)
        self._budget = Budget(MAX_FROZEN_BYTES)
        # The same for what was taken and waits for `identify`. Items are set and popped: atomic.
        self._waiting: dict[bytes, ref[Taken]] = {}

    # --- without user code ------------------------------------------------------------------

    def freeze(self, value: object, name: str = "") -> Frozen:
        """Take an object as it is now, for `identify`; on the hot path, runs no user code.

        Args:
            name: What it is known as; decides whether it is secret as a whole.
        """
        if name and self._is_sensitive(name):
            return self._taken(value, name, None)
        kind = type(value)
        if len(value) < self.longest_atom if kind is str else id(kind) in NUMBERS:  # type: ignore[arg-type]
            return value  # type: ignore[return-value]
        deadline = Deadline(self._fast_ms / 1000)
        try:
            data, is_plain = fast(value, self._most, deadline)
        except Exception:  # noqa: BLE001 - a border: whatever can't be pickled has a snapshot
            return self._taken(value, "", None, deadline)
        if is_plain and len(data) <= _LONGEST_KEY:
            return data
        key = _key_of(data)
        if (known := self._known.get(key)) is not None:
            return known
        waiting = self._waiting.get(key)
        if waiting is not None and (taken := waiting()) is not None:
            return taken
        if is_plain and self._budget.take(len(data)):
            taken = Taken(None, data, self._budget)
        else:
            taken = self._taken(value, "", data, deadline)
        if taken.data is not None:
            self._waiting[key] = ref(taken, lambda _: self._waiting.pop(key, None))
        return taken

    def identify(self, frozen: Frozen) -> Identified:
        """The CID of a frozen object; a new one is added to the log. Any thread, no user code."""
        kind = type(frozen)
        if kind is Identified:
            return frozen  # type: ignore[return-value]
        description: str | None = None
        data: bytes | None
        if type(frozen) is Taken:
            description, data = frozen.description, frozen.data
        else:
            data = frozen if type(frozen) is bytes else _dumps(frozen, PROTOCOL)
        if data is None:
            assert description is not None
            called = _of_snapshot(description)
            self._log.add(called.cid, description, None)
            return called
        return self._known.get(_key_of(data)) or self._by_pickle(description, data)

    def cids(self, frozen: Sequence[Frozen]) -> list[str]:
        """The CIDs of many frozen objects, as `identify` gives them; those of atoms are known."""
        kinds = set(map(type, frozen))
        known = self._atoms.get(kinds.pop()) if len(kinds) == 1 else None
        if known is None:
            return list(map(self._cid, frozen))
        found = list(map(known.get, frozen))
        if None in found:
            return [one or self._cid(each) for each, one in zip(frozen, found, strict=True)]
        return found  # type: ignore[return-value]

    def _cid(self, frozen: Frozen) -> str:
        known = self._atoms.get(type(frozen))
        if known is None:
            return self.identify(frozen).cid
        return known.get(frozen) or self._cid_of_atom(frozen, known)  # type: ignore[arg-type]

    def _cid_of_atom(self, value: Atom, known: dict[Any, str]) -> str:
        """That of an atom which is not known."""
        description = _of_number(value)
        if description is not None:
            data = _dumps(value, PROTOCOL)
            cid = sha512(data).hexdigest()
            self._log.add(cid, description, data)
        else:
            cid = self.identify(value).cid
            if type(value) is not str or len(value) > _LONGEST_KEY:
                return cid
        if value or type(value) is not float:
            if len(known) >= _MOST_ATOMS:
                known.clear()
            known[value] = cid
        return cid

    def _taken(
        self, value: object, name: str, data: bytes | None, deadline: Deadline | None = None
    ) -> Taken:
        left = self._fast_ms if deadline is None else deadline.seconds_left() * 1000
        description = self._described(value, name, max(left, _LEAST_MS))
        if self._budget.take(len(description) + len(data or b"")):
            return Taken(description, data, self._budget)
        # Too much waits: the smallest snapshot.
        return Taken(self._described(value, name, _LEAST_MS, depth=0), None, None)

    def _described(
        self, value: object, name: str, milliseconds: float, depth: int | None = None
    ) -> str:
        try:
            description = describe(
                value,
                name=name,
                depth=depth,
                limits=self._limits,
                redactor=self._redactor,
                milliseconds=milliseconds,
            )
            return _to_json(description)
        except RecursionError:  # at the end of the stack
            return _NOTHING

    # --- at a pause -------------------------------------------------------------------------

    def take(self, held: dict[str, Held], value: object, name: str = "") -> Identified:
        """What an object is called, on a paused thread; runs no user code.

        Args:
            held: The objects of the pause, by CID. This one is added, unless all of it is secret.
            name: What it is known as; decides whether it is secret as a whole.
        """
        frozen = self.freeze(value, name)
        if name and self._is_sensitive(name):
            return self.identify(frozen)
        if type(frozen) is Taken and frozen.data is None:
            content, called = self._taken_by_snapshot(held, value)
        else:
            content = called = self.identify(frozen)
        before = held.get(called.cid)
        if before is None or before.value is not value:
            held[called.cid] = Held(value, content._replace(data=None))
        if len(held) > MAX_HELD:
            with self._guard.evaluating():  # it may end with that
                del held[next(iter(held))]
        return called

    def _taken_by_snapshot(
        self, held: dict[str, Held], value: object
    ) -> tuple[Identified, Identified]:
        """What an object holds that was not pickled by `freeze`, and what it is called."""
        content, description = self._look(value)
        called = content
        if content.kind == "snapshot":
            for cid, each in held.items():
                if each.value is value and each.content.cid == content.cid:
                    return content, content._replace(cid=cid)
            mark = f"{description}\n{self._origin} {self._next_number()}"
            called = content._replace(cid=sha512(mark.encode()).hexdigest())
        self._log.add(called.cid, description, called.data)
        return content, called

    def unchanged(self, held: Held) -> str | None:
        """The snapshot of an object if that is as it was taken, else None; runs no user code."""
        content, description = self._look(held.value)
        return description if content.cid == held.content.cid else None

    def copy(self, cid: str, held: Held, description: str) -> None:
        """Pickle a held object, by dill: runs any code that the object has for that.

        The pickle is stored, too, unless there is one; none is kept that holds a secret.

        Raises:
            KeyboardInterrupt, Interruption: It was stopped.
        """
        held.is_asked = True
        made = None if held.content.kind == "secret" else self._dilled(held.value)
        if made is None or made.data is None:
            return
        if self._are_sensitive(made.names) or self._holds_secrets(made.data):
            return
        held.copy = made.data
        if held.content.kind == "snapshot":
            self._log.add(cid, description, sealed(made.data), is_late=True)

    def _look(self, value: object) -> tuple[Identified, str]:
        """What an object holds, and its snapshot."""
        made = self._pickled(value)
        description = self._described(value, "", self._limits.capture_ms)
        if made is None:
            return _of_snapshot(description), description
        is_secret = made.data is not None and self._holds_secrets(made.data)
        return self._called(description, made.data, made.digest, is_secret=is_secret), description

    def _pickled(self, value: object) -> Pickled | None:
        """By C code, also of what is too large to be kept."""
        try:
            return fast_digest(value, self._most, self._limits.capture_ms)
        except (Exception, GivenUp):  # noqa: BLE001 - a border: whatever can't be pickled has a snapshot
            return None

    def _dilled(self, value: object) -> Pickled | None:
        try:
            with self._guard.evaluating():
                return dilled(value, self._most, COPY_MS, original_code)
        except (KeyboardInterrupt, Interruption):
            raise
        except BaseException:  # noqa: BLE001 - a border: user code may raise anything, SystemExit too
            return None

    # --- names and secrets ------------------------------------------------------------------

    def _by_pickle(self, description: str | None, data: bytes) -> Identified:
        """Of a pickle that was not made by dill; it is known from now on."""
        is_number = False
        if description is None:
            try:
                value = plain_value(data)
            except Exception:  # noqa: BLE001 - a border: on the I/O thread nothing may fail
                return self._logged(_NOTHING, None, sha512(data).hexdigest(), is_secret=True)
            number = _of_number(value)
            is_number = number is not None
            description = number or self._described(value, "", self._limits.capture_ms)
        is_secret = not is_number and self._holds_secrets(data)
        identified = self._logged(description, data, sha512(data).hexdigest(), is_secret=is_secret)
        self._known.put(_key_of(data), identified._replace(data=None))
        return identified

    def _logged(
        self, description: str, data: bytes | None, digest: str, *, is_secret: bool
    ) -> Identified:
        called = self._called(description, data, digest, is_secret=is_secret)
        self._log.add(called.cid, description, called.data)
        return called

    def _called(
        self, description: str, data: bytes | None, digest: str, *, is_secret: bool
    ) -> Identified:
        if is_secret or TAGGED in description:
            cid = hmac.digest(self._key, digest.encode(), "sha512").hex()
            return Identified(cid, "secret")
        return Identified(digest, "dill", data)

    def _holds_secrets(self, data: bytes) -> bool:
        """Whether there is a secret anywhere in a pickle, however deep; unsure counts as yes."""
        redactor = self._redactor
        if not redactor.enabled:
            return False
        names: set[str] = set()
        try:
            for text, may_be_name in strings(data):
                if redactor.redact_text(text) != text:
                    return True
                if may_be_name and len(text) <= _LONGEST_NAME:
                    names.add(text)
        except ValueError:
            return True
        return self._are_sensitive(names)

    def _are_sensitive(self, names: set[str] | frozenset[str]) -> bool:
        """Whether one of the names is; many cost little more than one."""
        if not self._redactor.enabled:
            return False
        odd = [name for name in names if not _NAME.fullmatch(name)]
        if any(map(self._is_sensitive, odd)):
            return True
        plain = [f"{name}={_SOME_SECRET}" for name in names.difference(odd)]
        text = "\n".join(plain)
        return self._redactor.redact_text(text) != text


def _of_snapshot(description: str) -> Identified:
    return Identified(sha512(description.encode()).hexdigest(), "snapshot")


def _key_of(data: bytes) -> bytes:
    return data if len(data) <= _LONGEST_KEY else sha512(data).digest()


def _of_number(value: object) -> str | None:
    """The snapshot of a number: nothing in it can be secret or too long; None for others."""
    kind = type(value)
    if id(kind) not in NUMBERS or (kind is int and not -LARGE < value < LARGE):  # type: ignore[operator]
        return None
    return f'{{"type":"{kind.__name__}","repr":"{value!r}","attributes":{{}}}}'
