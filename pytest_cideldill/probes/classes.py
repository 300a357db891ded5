"""Exception breakpoints in this process, and which classes their names mean.

Names are resolved without importing anything, and matched with real classes by identity or by their
own names; a class's own code never runs. Any thread.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from inspect import getattr_static
from typing import Any, Final

from pytest_cideldill.interpreter.loaded_names import loaded_prefixes, mro_of
from pytest_cideldill.probes.counting import Counter, Watching
from pytest_cideldill.protocol import AddException, Bound
from pytest_cideldill.rendering.layout import class_name
from pytest_cideldill.sourcecode.names import builtin_exception

_CONTROL: Final = frozenset(
    {
        "StopIteration",
        "StopAsyncIteration",
        "GeneratorExit",
        "asyncio.exceptions.CancelledError",
        "concurrent.futures._base.CancelledError",
        "_pytest.outcomes.OutcomeException",
        "unittest.case.SkipTest",
    }
)
"""Not errors but the way in which programs, tests and loops end: a breakpoint means them only if it
names them or a subclass of theirs."""


class RaiseProbe:
    """An exception breakpoint in this process.

    Attributes:
        hits: How often it stopped.
        classes: What its name means, as far as that is known; kept alive by the program only.
        message: Why its name can mean no class.
        watching: In how much of the run it was enabled.
    """

    __slots__ = ("classes", "hits", "message", "spec", "watching")

    def __init__(self, spec: AddException, *, from_start: bool = True) -> None:
        self.spec = spec
        self.hits = Counter()
        self.watching = Watching(spec.enabled, from_start=from_start)
        self.classes: tuple[weakref.ref[type], ...] = ()
        self.message: str | None = None

    @property
    def known(self) -> list[type]:
        """The classes that are there."""
        return [cls for each in self.classes if (cls := each()) is not None]

    @property
    def bound(self) -> Bound:
        """What its name means now."""
        names = sorted({class_name(cls) for cls in self.known})
        return Bound(self.spec.id, names, bool(names), self.message)

    def add(self, cls: type) -> bool:
        """Note what the name means; whether that is new."""
        if any(each is cls for each in self.known):
            return False
        self.classes = (*self.classes, weakref.ref(cls))
        return True

    def distance(self, cls: type) -> int | None:
        """How far a class is from the one that is meant; None: it is not meant."""
        mro = mro_of(cls)
        for place, base in enumerate(mro if self.spec.include_subtypes else mro[:1]):
            if self._names(base):
                return place
            if class_name(base) in _CONTROL:
                return None
        return None

    def resolve(self) -> bool:
        """Find the class without importing anything; whether that is new."""
        name = self.spec.exception_type
        builtin = builtin_exception(name)
        if builtin is not None:
            return self.add(builtin)
        found = _find(name.split("."))
        if found is None:
            return False
        # Not isinstance: it would run a `__class__` property.
        if not (issubclass(type(found), type) and issubclass(found, BaseException)):
            self.message = f"{name} is no exception class"
            return False
        self.message = None
        return self.add(found)

    def _names(self, cls: type) -> bool:
        if any(each is cls for each in self.known):
            return True
        name, its_name = self.spec.exception_type, class_name(cls)
        is_bare = "." not in name and builtin_exception(name) is None
        return name == its_name or (is_bare and name == its_name.rpartition(".")[2])


class Verdicts:
    """Which classes are meant, remembered by id for as long as a class lives."""

    __slots__ = ("_decide", "_kept", "_known")

    def __init__(self, decide: Callable[[type], bool]) -> None:
        self._decide = decide
        self._known: dict[int, bool] = {}
        self._kept: dict[int, weakref.ref[type]] = {}

    def of(self, cls: type) -> bool:
        """Whether a class is meant; the hot path of every exception that is raised."""
        try:
            return self._known[id(cls)]
        except KeyError:
            return self._look(cls)

    def _look(self, cls: type) -> bool:
        key = id(cls)
        known, kept = self._known, self._kept

        def forget(_: object) -> None:
            known.pop(key, None)
            kept.pop(key, None)

        kept[key] = weakref.ref(cls, forget)
        verdict = known[key] = self._decide(cls)
        return verdict


def _find(parts: list[str]) -> Any:
    """What a dotted path leads to in the modules that are imported; no user code runs."""
    for module, rest in loaded_prefixes(parts):
        found: Any = module
        for part in rest:
            # Not `walk`: a registry of exceptions may be an instance, or stand in sys.modules.
            found = None if found is None else getattr_static(found, part, None)
        if found is not None:
            return found
    return None
