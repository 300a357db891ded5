"""Exception breakpoints without a run: which classes their names mean, and what is counted."""

from __future__ import annotations

import gc
import sys
import threading
import types
import weakref
from typing import Any

import pytest

from pytest_cideldill.evaluation.guard import EvaluationGuard
from pytest_cideldill.frames.causes import inner_exceptions
from pytest_cideldill.probes.raises import RaiseProbes
from pytest_cideldill.probes.uncaught import Uncaught
from pytest_cideldill.project import Project
from pytest_cideldill.protocol import AddException, Bound, Event, LinesPassed
from pytest_cideldill.redaction.redactor import Redactor
from pytest_cideldill.rendering.display import Lens
from pytest_cideldill.sourcecode.names import check_exception_name
from tests.each_case import for_each


class Lab:
    """Probes whose neighbours are played."""

    def __init__(self, exception_type: str = "", **asked: Any) -> None:
        self.sent: list[Event] = []
        self.probes = RaiseProbes(
            Project("."),
            EvaluationGuard(),
            lambda *stop: None,
            lambda *stop: None,
            self.sent.append,
        )
        self.set("ex-1", exception_type, **asked)

    def set(self, id: str, exception_type: str, **asked: Any) -> Bound:
        asked = {"second_chance": False} | asked
        return self.probes.want(AddException(0, id, exception_type, **asked))

    @property
    def bound(self) -> list[Bound]:
        """What was told of names, but that they mean nothing yet."""
        return [each for each in self.sent if isinstance(each, Bound) and each.verified]

    def wants(self, cls: type) -> bool:
        raises = self.probes.raises
        return raises is not None and bool(raises.wants(cls))


class Stop(StopIteration):
    pass


HERE = __name__


@for_each(
    ("name", "cls", "meant"),
    [
        ("KeyError", KeyError, True),
        ("LookupError", KeyError, True),
        ("KeyError", LookupError, False),
        ("IOError", OSError, True),  # an alias
        ("BaseException", KeyboardInterrupt, True),
        ("BaseException", GeneratorExit, False),
        ("Exception", StopIteration, False),
        ("Exception", Stop, False),
        ("StopIteration", Stop, True),
        ("Stop", Stop, True),  # a bare name: each class that is called so
        (f"{HERE}.Stop", Stop, True),
        ("nowhere.Stop", Stop, False),
        ("BaseException", pytest.fail.Exception, False),
        ("Failed", pytest.fail.Exception, True),
        ("pytest.fail.Exception", pytest.fail.Exception, True),
        ("_pytest.outcomes.OutcomeException", pytest.skip.Exception, True),
    ],
)
def test_a_name_means_a_class_by_its_real_bases(name: str, cls: type, meant: bool) -> None:
    """Matching is by real class; control flow only when it is named."""
    assert Lab(name).wants(cls) is meant


class Meta(type):
    """Lies about everything that Python code may lie about."""

    def __eq__(cls, other: object) -> bool:
        raise AssertionError

    def __hash__(cls) -> int:
        raise AssertionError

    def __subclasscheck__(cls, other: type) -> bool:
        raise AssertionError

    @property
    def __mro__(cls) -> Any:
        raise AssertionError

    def __getattribute__(cls, name: str) -> Any:
        raise AssertionError


def test_a_class_that_lies_is_met_by_its_data() -> None:
    """No code of a metaclass runs."""

    class Odd(LookupError, metaclass=Meta):
        pass

    for name in ("LookupError", "Odd"):
        assert Lab(name).wants(Odd)
    assert not Lab("KeyError").wants(Odd)


def test_without_subtypes_the_class_alone_is_meant() -> None:
    """`include_subtypes`=false."""
    lab = Lab("LookupError", include_subtypes=False)
    assert (lab.wants(LookupError), lab.wants(KeyError)) == (True, False)


def test_a_dotted_name_waits_until_its_class_is_there_and_imports_nothing() -> None:
    """By a look at what is imported, or when the class is raised; told once each."""
    lab = Lab("late_shop.errors.Gone")
    lab.set("ex-2", "late_shop.Alias")
    assert "late_shop" not in sys.modules
    lab.probes.refresh()
    assert lab.bound == []
    gone = type("Gone", (Exception,), {"__module__": "late_shop.errors"})
    assert lab.wants(gone)
    assert lab.bound == [Bound("ex-1", ["late_shop.errors.Gone"], verified=True)]
    module = types.ModuleType("late_shop")
    module.Alias = gone  # type: ignore[attr-defined]
    sys.modules["late_shop"] = module
    try:
        lab.probes.refresh()
        lab.probes.refresh()
    finally:
        del sys.modules["late_shop"]
    assert [each.id for each in lab.bound] == ["ex-1", "ex-2"]


def test_what_is_no_exception_class_is_reported() -> None:
    """It may become one: a module may be reloaded."""
    bound = Lab().set("ex-9", "threading.Thread")
    assert (bound.verified, bound.message) == (False, "threading.Thread is no exception class")


def test_a_module_is_not_asked_by_its_own_code() -> None:
    """Nothing of the program runs on the thread that commands."""
    module = types.ModuleType("eager")

    def imports(name: str) -> Any:
        raise AssertionError

    module.__getattr__ = imports  # type: ignore[method-assign]
    sys.modules["eager"] = module
    try:
        assert Lab().set("ex-9", "eager.Error").verified is False
    finally:
        del sys.modules["eager"]


@pytest.mark.full
def test_classes_are_not_kept_alive() -> None:
    """Ids are used again by other classes: what was decided goes with the class."""
    lab = Lab("Exception")
    made = type("Made", (Exception,), {})
    assert lab.wants(made)
    reference = weakref.ref(made)
    lab.set("ex-2", "Made")
    assert lab.wants(made)
    del made
    gc.collect()
    assert reference() is None


def test_nothing_is_wanted_of_the_source_when_no_raise_can_stop() -> None:
    """No cost without a breakpoint, with one that is off, or that wants what escapes only."""
    lab = Lab("KeyError", enabled=False)
    assert lab.probes.raises is None
    lab.set("ex-2", "KeyError", first_chance=False, second_chance=True)
    try:
        assert lab.probes.raises is None
        lab.set("ex-1", "KeyError")  # the same id: on again
        assert lab.probes.raises is not None
    finally:
        lab.probes.disarm()
    assert lab.probes.raises is None


def test_the_most_exact_breakpoint_reports_and_all_count() -> None:
    """One stop for an exception."""
    lab = Lab("Exception", second_chance=True)
    try:
        lab.set("ex-2", "LookupError", second_chance=True)
        lab.set("ex-3", "KeyError", second_chance=True)
        lab.set("ex-4", "KeyError")
        hit = lab.probes.escaped(KeyError("x"))
    finally:
        lab.probes.disarm()
    assert hit is not None
    assert hit.spec.id == "ex-3"
    assert lab.sent[-1] == LinesPassed(
        {f"ex-{number}": {"passes": int(number < 4)} for number in range(1, 5)}
    )


def test_hooks_are_chained_and_leave_no_trace() -> None:
    """Also when someone replaced them meanwhile, as pytest does for each phase."""
    reported: list[Any] = []

    def before(args: Any) -> None:
        reported.append(("before", args.exc_type))

    found = threading.excepthook, sys.unraisablehook
    uncaught = Uncaught(lambda error, traceback, frame: reported.append(error))
    try:
        threading.excepthook = before
        uncaught.reach(True)
        uncaught.reach(True)
        _die(error := LookupError("x"))
        assert reported == [error, ("before", LookupError)]
        ours = threading.excepthook
        threading.excepthook = lambda args: ours(args)
        uncaught.reach(True)
        reported.clear()
        _die(error)
        assert reported == [error, error, ("before", LookupError)]
        uncaught.reach(False)
        assert type(threading.excepthook) is not type(ours)  # theirs; ours is silent beneath
        reported.clear()
        _die(error)
        assert reported == [("before", LookupError)]
        assert sys.unraisablehook is found[1]
    finally:
        threading.excepthook, sys.unraisablehook = found


def _die(error: BaseException) -> None:
    def work() -> None:
        raise error

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_what_is_behind_an_exception_is_reported_nearest_first() -> None:
    """Causes, contexts, members of groups; none twice, and not without end. What Python would not
    print comes last.
    """
    cause, context = KeyError("k"), OSError("o")
    error = ExceptionGroup("g", [ValueError("v"), ExceptionGroup("h", [TypeError("t")])])
    error.__cause__, error.__context__ = cause, context
    cause.__context__, context.__context__ = context, error
    reported = inner_exceptions(error, Lens(Project("."), Redactor(environ={})), 5)
    assert [
        (each["type"], each["relation"], each["depth"]) for each in reported["innerExceptions"]
    ] == [
        ("KeyError", "cause", 1),
        ("ValueError", "member", 1),
        ("ExceptionGroup", "member", 1),
        ("OSError", "suppressed", 1),
        ("TypeError", "member", 2),
    ]
    assert all(each["location"] is None for each in reported["innerExceptions"])
    assert reported["innerExceptionsTruncated"] is False
    reported = inner_exceptions(error, Lens(Project("."), Redactor(environ={})), 4)
    assert (len(reported["innerExceptions"]), reported["innerExceptionsTruncated"]) == (4, True)
    assert inner_exceptions(ValueError(), Lens(Project("."), Redactor(environ={}))) == {
        "innerExceptions": [],
        "innerExceptionsTruncated": False,
    }


@for_each("name", ["", ".", "a.", "a b", "1a", "class", "a.if", "int", "print"])
def test_malformed_names_are_refused(name: str) -> None:
    """Only those: an unknown one waits."""
    with pytest.raises(ValueError, match=r"class|name"):
        check_exception_name(name)


@pytest.mark.parametrize("name", ["KeyError", "Mine", "a.b.C", "t.test_x.<locals>.Local"])
def test_well_formed_names_are_taken(name: str) -> None:
    """Classes that a function makes too."""
    check_exception_name(name)
