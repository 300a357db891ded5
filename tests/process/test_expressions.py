"""Expressions at a line: which names they see, what they may do, and that nothing of it shows.

Whatever stands at a line of the program means the same in an expression there (any
Python expression).
"""

from __future__ import annotations

import ast
import builtins
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from types import FrameType, FunctionType
from typing import Any

import pytest

from pytest_cideldill.evaluation.compiled import (
    Expressions,
    Substitutes,
    our_statements,
    parse_expression,
)
from pytest_cideldill.evaluation.guard import EvaluationGuard
from pytest_cideldill.evaluation.time_limit import Overtime
from tests.each_case import for_each

NUMBER = 5
hidden = "a global"

UNBOUND = "<error: UnboundLocalError>"
UNKNOWN = "<error: NameError>"


def bound(overtime: Overtime, frame: FrameType, *sources: str) -> Expressions:
    """Expressions that give a tuple of their values."""
    names = "".join(f"v{index}, " for index in range(len(sources)))
    return Expressions(
        [parse_expression(source) for source in sources],
        frame.f_code,
        overtime,
        ending=our_statements(f"return ({names})"),
        substitutes=Substitutes(overtime.failed, "late"),
    )


@pytest.fixture
def overtime() -> Iterator[Overtime]:
    """Leaves no signal handler behind."""
    limits = Overtime(EvaluationGuard())
    yield limits
    limits.close()


At = Callable[..., Any]


@pytest.fixture
def at(overtime: Overtime) -> At:
    """`at(frame, source, …)`: one value, or a tuple of several."""

    def evaluate(frame: FrameType, *sources: str) -> Any:
        found = bound(overtime, frame, *sources).value(frame)
        return found[0] if len(sources) == 1 else found

    return evaluate


# --- names


def test_all_kinds_of_names_are_seen(at: At) -> None:
    free = 3

    def paused(argument: int, *rest: int, **options: int) -> Any:
        local, cell = 1, 2
        assert free + (lambda: cell)() == 5 * local
        names = ("argument", "rest", "options", "local", "cell", "free", "NUMBER", "len")
        return at(sys._getframe(), *names)

    assert paused(0, 7, key=8) == (0, (7,), {"key": 8}, 1, 2, 3, 5, len)


@for_each(
    ("source", "value"),
    [
        ("[local + item for item in items if argument]", [6, 7]),
        ("{local: item for item in items}", {5: 2}),
        ("{item + cell for item in items}", {10, 11}),
        ("sum(local * item for item in items)", 15),
        ("[[x + y + local for x in items] for y in items]", [[7, 8], [8, 9]]),
        ("(lambda: local + NUMBER)()", 10),
        ("(lambda local: local)(9)", 9),
        ("(lambda x=local: x)()", 5),
        ("(lambda: (lambda: cell)())()", 9),
        ("list(map(lambda item: item + argument, items))", [3, 4]),
        ("sorted(items, key=lambda item: -item * local)", [2, 1]),
        ("[local for local in items]", [1, 2]),
        ("any(item is local for item in items)", False),
        ("local if cell else argument", 5),
        ("f'{local}{items!r:>7}'", "5 [1, 2]"),
        ("*items, local", (1, 2, 5)),
        ("local,", (5,)),
        ("[*items, *[local]]", [1, 2, 5]),
        ("items[0:local]", [1, 2]),
        ("(yes := local) + yes", 10),
        ("[(last := item) for item in items] and last", 2),
        ("inner()", 9),
        ("0 < local < 6", True),
        ("not items", False),
        ("...", ...),
        ("globals() is __import__('sys').modules[__name__].__dict__", True),
    ],
)
def test_every_nested_scope_sees_the_frame(at: At, source: str, value: object) -> None:
    def paused(argument: int) -> Any:
        local, cell, items = 5, 9, [1, 2]

        def inner() -> int:
            return cell

        assert (local, items, inner()) == (5, [1, 2], 9)
        return at(sys._getframe(), source)

    assert paused(2) == value


def test_an_unbound_local_is_no_global_of_that_name(at: At) -> None:
    def paused() -> Any:
        early = at(sys._getframe(), "hidden", "[hidden for _ in 'x']", "(lambda: hidden)()")
        hidden = "a local"
        bound = at(sys._getframe(), "hidden")
        del hidden
        return early, bound, at(sys._getframe(), "hidden", "NUMBER")

    early, now, late = paused()
    assert early[0] == UNBOUND
    # For a nested scope it is a variable of the function around it.
    assert {*early[1:]} <= {UNBOUND, UNKNOWN}
    assert (now, late) == ("a local", (UNBOUND, 5))


def test_an_unbound_cell_is_no_global_of_that_name(at: At) -> None:
    def paused() -> Any:
        found = at(sys._getframe(), "hidden")
        hidden = "a local"
        assert (lambda: hidden)() == "a local"
        return found

    assert paused() == UNBOUND


def test_an_unbound_name_is_bound_at_a_later_pass(overtime: Overtime) -> None:
    """One object serves all passes of a line."""
    expressions = bound(overtime, sys._getframe(), "number", "late")
    found = []
    late = None
    del late
    for number in range(3):
        found.append(expressions.value(sys._getframe()))
        late = number
    assert found == [(0, UNBOUND), (1, 0), (2, 1)]
    assert late == 2


def test_generators_and_their_kin_are_functions_too(at: At) -> None:
    def generator(local: int) -> Iterator[Any]:
        yield at(sys._getframe(), "local + NUMBER")

    async def coroutine(local: int) -> Any:
        return at(sys._getframe(), "local + NUMBER")

    assert next(generator(1)) == 6
    running = coroutine(2)
    with pytest.raises(StopIteration) as end:
        running.send(None)
    assert end.value.value == 7
    free = 3
    found = list(at(sys._getframe(), "item + free") for item in (4,) if free)  # noqa: C400
    assert found == [7]


class Mapping:
    """A namespace of a class body as a metaclass may give it."""

    def __init__(self) -> None:
        self.held: dict[str, Any] = {}

    def __setitem__(self, name: str, value: object) -> None:
        self.held[name] = value

    def __getitem__(self, name: str) -> Any:
        if name == "hostile":
            raise ValueError(name)
        return self.held[name]


class Prepared(type):
    @classmethod
    def __prepare__(cls, name: str, bases: Any, /, **options: Any) -> Any:
        return Mapping()

    def __new__(cls, name: str, bases: Any, namespace: Any, **options: Any) -> Prepared:
        return super().__new__(cls, name, bases, namespace.held)


def test_class_bodies_see_their_own_names_and_globals(at: At) -> None:
    class Body:
        before = at(sys._getframe(), "hidden", "own")
        own = 1
        hidden = "the class's"
        after = at(sys._getframe(), "hidden", "own", "NUMBER", "__qualname__.split('.')[-1]")

    assert Body.before == ("a global", UNKNOWN)
    assert Body.after == ("the class's", 1, 5, "Body")


def test_class_bodies_with_a_namespace_of_the_users_making(at: At) -> None:
    class Body(metaclass=Prepared):
        own = 1
        hostile = 2
        found = at(sys._getframe(), "own", "NUMBER", "hostile", "len")

    assert Body.found == (1, 5, UNKNOWN, len)


def test_modules_see_their_globals(at: At) -> None:
    code = "found = at(getframe(), 'own', 'unknown', 'len', '[own for _ in (1,)]'); own = 2"
    names: dict[str, Any] = {"at": at, "getframe": sys._getframe, "own": 1}
    exec(compile(code, "module.py", "exec"), names)
    assert names["found"] == (1, UNKNOWN, len, [1])


def test_executed_text_may_have_locals_apart_from_its_globals(at: At) -> None:
    code = "found = at(getframe(), 'own', 'there', 'len')"
    names: dict[str, Any] = {"own": 1, "there": "global"}
    exec(code, {"at": at, "getframe": sys._getframe, "there": "global"}, names)
    assert names["found"] == (1, "global", len)


def test_an_assignment_expression_stays_among_the_expressions(at: At) -> None:
    local = 1
    sources = ("(local := 2)", "local", "(new := 3)", "new", "NUMBER", "(NUMBER := 4)", "NUMBER")
    assert at(sys._getframe(), *sources) == (2, 2, 3, 3, 5, 4, 4)
    assert at(sys._getframe(), "(len := 6) and len", "max", "(max := 7)") == (6, max, 7)
    assert (local, NUMBER) == (1, 5)
    assert "new" not in globals()


def test_builtins_that_look_at_a_frame_see_the_one_of_the_line(at: At) -> None:
    def paused(argument: int) -> Any:
        local = 1
        frame = sys._getframe()
        found = at(frame, "'local' in locals()", "sorted(vars())", "dir()", "'later' in locals()")
        later = local + argument
        return (*found, later)

    names = ["argument", "at", "frame", "local"]
    assert paused(2) == (True, names, names, False, 3)
    assert at(sys._getframe(), "vars(NUMBER.__class__)['real'] is int.real", "len(dir(3)) > 9") == (
        (True, True)
    )

    class Body:
        own = 1
        found = at(sys._getframe(), "locals()['own']")

    assert Body.found == 1


def test_names_of_the_programs_may_be_any(at: At) -> None:
    """Such as those that stand in generated code."""
    names = "v0 failed thread threads overtime value held template secrets helper0 _cideldill_0"
    body = "; ".join(f"{name} = {name!r}" for name in names.split())
    shown = ", ".join(f"'{name}'" for name in names.split())
    code = f"def paused():\n    {body}\n    return at(getframe(), {shown}, '(lambda: v0)()')"
    namespace: dict[str, Any] = {"at": at, "getframe": sys._getframe}
    exec(code, namespace)
    assert namespace["paused"]() == (*names.split(), "v0")


def test_a_module_may_have_names_of_builtins(at: At) -> None:
    names = [name for name in dir(builtins) if name.isidentifier() and name[0] != "_"]
    shadowed = {name: f"not {name}" for name in names if name not in ("None", "True", "False")}
    code = "def paused(d):\n    return at(getframe(), 'str', 'd[1]', 'BaseException', 'type')"
    namespace: dict[str, Any] = {**shadowed, "at": at, "getframe": sys._getframe}
    exec(code, namespace)
    shown = ("not str", "<error: KeyError>", "not BaseException", "not type")
    assert namespace["paused"]({}) == shown


class _Account:
    __limit = 10

    def __init__(self) -> None:
        self.__balance = 5

    def look(self, at: At) -> Any:
        __local = 1

        def inner() -> Any:
            return self and at(sys._getframe(), "self.__balance", "self.__class__.__name__")

        sources = ("self.__balance", "self._Account__balance", "self.__limit", "__local")
        return (*at(sys._getframe(), *sources), inner())


def test_private_names_are_those_of_the_class(at: At) -> None:
    """`self.__x` in a method means `self._Class__x`."""
    assert _Account().look(at) == (5, 5, 10, 1, (5, "_Account"))


def test_futures_of_the_module_hold(at: At) -> None:
    code = "from __future__ import barry_as_FLUFL, annotations\ndef paused(): return at(getframe())"
    namespace: dict[str, Any] = {"at": lambda frame: at(frame, "3"), "getframe": sys._getframe}
    exec(compile(code, "module.py", "exec", dont_inherit=True), namespace)
    assert namespace["paused"]() == 3


def test_a_function_with_very_many_locals(at: At) -> None:
    names = [f"n{number}" for number in range(400)]
    code = f"def paused({', '.join(names)}): return at(getframe(), '{' + '.join(names)}')"
    namespace: dict[str, Any] = {"at": at, "getframe": sys._getframe}
    exec(code, namespace)
    assert namespace["paused"](*range(400)) == sum(range(400))


def test_what_can_t_be_compiled_is_refused_when_it_is_set(overtime: Overtime) -> None:
    deep: ast.expr = ast.Constant(1)
    for _ in range(3_000):
        deep = ast.UnaryOp(ast.Not(), deep)
    with pytest.raises(ValueError, match="can't be compiled"):
        Expressions(
            [deep],
            sys._getframe().f_code,
            overtime,
            ending=our_statements("return v0"),
            substitutes=Substitutes(overtime.failed),
        )


# --- one code object


def test_one_code_object_may_run_with_different_globals(overtime: Overtime) -> None:
    """As with a module that is imported twice; the threads disturb each other not at all."""

    def paused(expressions: Expressions | None) -> Any:
        frame = sys._getframe()
        return (expressions or bound(overtime, frame, "NUMBER")).value(frame)

    shared = bound(overtime, _frame_of(paused), "NUMBER")
    copies = [
        FunctionType(paused.__code__, {**globals(), "NUMBER": n}, closure=paused.__closure__)
        for n in range(4)
    ]
    wrong: list[object] = []

    def insist(number: int) -> None:
        for _ in range(5_000):
            (found,) = copies[number](shared)
            if found != number:
                wrong.append((found, number))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=insist, args=(number,)) for number in range(4)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert wrong == []


def _frame_of(function: FunctionType | Callable[..., Any]) -> Any:
    """What `Expressions` asks of a frame before there is one."""

    class Frame:
        f_code = function.__code__

    return Frame


# --- failures


def fails(error: type[BaseException]) -> None:
    raise error("in vain")


class Own(Exception):
    pass


@for_each(
    ("source", "shown"),
    [
        ("{}['key']", "<error: KeyError>"),
        ("unknown", UNKNOWN),
        ("1 / 0", "<error: ZeroDivisionError>"),
        ("NUMBER.nothing", "<error: AttributeError>"),
        ("__import__('sys').exit(1)", "<error: SystemExit>"),
        ("fails(SystemExit)", "<error: SystemExit>"),
        ("fails(GeneratorExit)", "<error: GeneratorExit>"),
        ("fails(StopIteration)", "<error: StopIteration>"),
        ("fails(RecursionError)", "<error: RecursionError>"),
        ("fails(MemoryError)", "<error: MemoryError>"),
        ("fails(BaseExceptionGroup)", "<error: TypeError>"),
        ("fails(Own)", f"<error: {__name__}.Own>"),
        ("(lambda f: f(f))(lambda f: f(f))", "<error: RecursionError>"),
        ("next(iter(()))", "<error: StopIteration>"),
        ("super().method()", "<error: RuntimeError>"),
        ("[item for item in 5]", "<error: TypeError>"),
    ],
)
def test_a_failing_expression_fails_alone(at: At, source: str, shown: str) -> None:
    assert at(sys._getframe(), "NUMBER", source, "NUMBER + 1") == (5, shown, 6)
    assert sys.exc_info() == (None, None, None)


def test_a_keyboard_interrupt_is_the_programs(at: At) -> None:
    with pytest.raises(KeyboardInterrupt):
        at(sys._getframe(), "fails(KeyboardInterrupt)")


class Liar(Exception):
    """Says nothing true about itself, and can't be asked."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(name)

    @property
    def args(self) -> Any:  # type: ignore[override]
        raise AssertionError

    def __str__(self) -> str:
        raise AssertionError


def test_an_exception_is_not_asked_for_anything(at: At) -> None:
    assert at(sys._getframe(), "fails(Liar)") == f"<error: {__name__}.Liar>"


def test_a_failure_leaves_no_exception_behind(at: At) -> None:
    """In a frame that handles one, that one is still the current one."""
    found, after = None, False
    try:
        fails(Own)
    except Own as error:
        found = at(sys._getframe(), "1 / 0", "__import__('sys').exc_info()[0] is Own")
        after = sys.exc_info()[1] is error and error.__context__ is None
    assert found == ("<error: ZeroDivisionError>", True)
    assert after


# --- quiet


def test_only_what_may_run_user_code_is_quiet(overtime: Overtime) -> None:
    guard = EvaluationGuard()
    limits = Overtime(guard)
    seen: list[bool] = []

    def look() -> bool:
        seen.append(guard.is_quiet())
        return True

    frame = sys._getframe()
    assert bound(limits, frame, "look()", "seen").value(frame) == (True, [True])
    assert not guard.is_quiet()
    assert bound(limits, frame, "fails(Own)").value(frame) == (f"<error: {__name__}.Own>",)
    assert guard.depths == {}
    assert bound(limits, frame, "seen", "frame", "3").value(frame) == ([True], frame, 3)
    limits.close()
    assert look()


class Compared:
    """Looks who compares it."""

    def __init__(self, look: Callable[[], bool]) -> None:
        self.look = look

    def __lt__(self, other: object) -> bool:
        return self.look()

    def __bool__(self) -> bool:
        return self.look()


def test_comparisons_of_plain_values_take_no_time_limit() -> None:
    """A condition's usual case, where no user code can run; the others are under the limit."""
    guard = EvaluationGuard()
    limits = Overtime(guard)

    def paused(value: Any, other: Any = 3) -> FrameType:
        return sys._getframe()

    source = "not not (value < other and value != -1 or value in (None, 5))"
    expressions = bound(limits, paused(1), source)
    assert expressions.value(paused(1)) == (True,)
    assert expressions.value(paused("b", "a")) == (False,)
    assert expressions.value(paused("a")) == ("<error: TypeError>",)
    assert limits.threads == {}

    seen: list[bool] = []

    def look() -> bool:
        seen.append(guard.is_quiet())
        return True

    assert expressions.value(paused(Compared(look))) == (True,)
    assert bound(limits, paused(1), "not value").value(paused(Compared(look))) == (False,)
    assert seen == [True, True]
    assert (guard.depths, len(limits.threads)) == ({}, 1)
    limits.close()


@pytest.mark.skipif(sys.version_info < (3, 12), reason="a trace function keeps them all anyway")
def test_a_value_that_is_not_plain_is_kept_by_no_copy_of_the_locals(overtime: Overtime) -> None:
    def paused(value: Any) -> weakref.ref[Any]:
        frame = sys._getframe()
        assert bound(overtime, frame, "value != 3").value(frame) == (True,)
        reference = weakref.ref(value)
        del value
        return reference

    reference = paused(Compared(bool))
    assert reference() is None
