"""Interception of calls: what the caller, the called function and the tools around see."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import sys
import threading
import traceback
import warnings
import weakref
from collections.abc import Callable
from types import FrameType, FunctionType
from typing import Any

import pytest

from pytest_cideldill.evaluation.guard import EvaluationGuard
from pytest_cideldill.evaluation.repl_eval import evaluate
from pytest_cideldill.patching.code_swap import (
    FRAMES,
    PASS,
    arguments_of,
    intercept,
    is_trampoline,
    original_code,
)
from pytest_cideldill.patching.function_code import code_of
from pytest_cideldill.patching.trampolines import CannotIntercept
from tests.each_case import for_each


class Calls:
    """Takes calls, remembers their arguments and lets them pass."""

    def __init__(self) -> None:
        self.seen: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def __call__(
        self,
        frame: FrameType,
        original: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        self.seen.append((args, kwargs))
        assert arguments_of(frame) == (args, kwargs)
        return original(*args, **kwargs)


def module_level(
    price: float, /, rate: float = 0.5, *rest: int, tax: float = 0.1, **more: int
) -> Any:
    """Some documentation."""
    return price, rate, rest, tax, more


def as_function(candidate: object) -> FunctionType:
    assert type(candidate) is FunctionType
    return candidate


def untyped(function: Callable[..., object]) -> Callable[..., object]:
    """The same function, for calls that a type checker would refuse."""
    return function


def no_parameters() -> Any:
    return "none"


def positional(a: int, b: int = 2) -> Any:
    return a, b


def positional_only(a: int, b: int = 2, /) -> Any:
    return a, b


def positional_only_then_others(a: int, /, b: int, c: int = 3) -> Any:
    return a, b, c


def keyword_only(*, a: int, b: int = 2) -> Any:
    return a, b


def variadic(*args: int, **kwargs: int) -> Any:
    return args, kwargs


def variadic_then_keyword(*args: int, a: int) -> Any:
    return args, a


SHAPES = [
    (no_parameters, (), {}),
    (positional, (1,), {}),
    (positional, (), {"b": 5, "a": 4}),
    (positional_only, (1,), {}),
    (positional_only_then_others, (1, 2), {}),
    (positional_only_then_others, (1,), {"b": 2, "c": 4}),
    (keyword_only, (), {"a": 1}),
    (variadic, (1, 2), {"x": 3}),
    (variadic, (), {}),
    (variadic_then_keyword, (1, 2), {"a": 3}),
    (lambda x, y=2: (x, y), (1,), {}),
    (module_level, (1.0, 2.0, 3), {"tax": 0.2, "z": 1}),
]


@for_each(("function", "args", "kwargs"), SHAPES)
def test_every_kind_of_parameter_arrives_bound(
    function: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    expected = function(*args, **kwargs)
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    calls = Calls()
    undo = intercept(function, calls)
    try:
        assert function(*args, **kwargs) == expected
    finally:
        undo()
    [(seen_args, seen_kwargs)] = calls.seen
    assert (seen_args, seen_kwargs) == (bound.args, bound.kwargs)


@for_each(
    "call",
    [
        lambda: untyped(positional)(),
        lambda: untyped(positional)(1, 2, 3),
        lambda: untyped(positional)(1, c=2),
        lambda: untyped(positional)(1, a=1),
        lambda: untyped(positional_only)(a=1),
        lambda: untyped(keyword_only)(1),
        lambda: untyped(keyword_only)(),
    ],
)
def test_wrong_arguments_give_the_error_they_always_gave(call: Callable[[], object]) -> None:
    with pytest.raises(TypeError) as before:
        call()
    calls = Calls()
    functions: list[object] = [positional, positional_only, keyword_only]
    undos = [intercept(as_function(each), calls) for each in functions]
    with pytest.raises(TypeError) as after:
        call()
    for undo in undos:
        undo()
    assert str(after.value) == str(before.value)
    assert calls.seen == []


def test_the_function_looks_the_same_to_inspection() -> None:
    looks: list[Callable[[], object]] = [
        lambda: inspect.signature(module_level),
        lambda: inspect.getsource(module_level),
        lambda: inspect.getdoc(module_level),
        lambda: inspect.getfullargspec(module_level),
        lambda: module_level.__code__.co_flags,
        lambda: module_level.__code__.co_qualname,
        lambda: module_level.__code__.co_firstlineno,
        lambda: module_level.__code__.co_filename,
        lambda: pickle.dumps(module_level),
        lambda: copy.deepcopy(module_level),
    ]
    before = [look() for look in looks]
    undo = intercept(as_function(module_level), Calls())
    after = [look() for look in looks]
    lines = {line for _start, _end, line in code_of(module_level).co_lines()}
    undo()
    assert after == before
    assert lines == {module_level.__code__.co_firstlineno}


def test_the_original_code_object_runs() -> None:
    def which() -> object:
        return sys._getframe().f_code

    code = which.__code__
    intercept(as_function(which), Calls())
    assert which() is code
    assert is_trampoline(code_of(which))
    assert original_code(code_of(which)) is code
    assert not is_trampoline(code)
    assert original_code(code) is code


def test_the_result_is_what_the_handler_returns() -> None:
    def double(x: int) -> int:
        return 2 * x

    intercept(
        as_function(double), lambda frame, original, args, kwargs: original(args[0] + 1) + 100
    )
    assert double(1) == 104


def test_the_handler_may_raise_instead() -> None:
    def fine() -> None: ...

    def refuse(*_: object) -> None:
        raise LookupError("not today")

    intercept(as_function(fine), refuse)
    with pytest.raises(LookupError, match="not today") as caught:
        fine()
    entries = [entry for entry in traceback.extract_tb(caught.tb) if entry.name == "fine"]
    assert [entry.lineno for entry in entries] == [original_code(code_of(fine)).co_firstlineno]


def test_frames_of_ours_are_hidden_from_pytest() -> None:
    def fails() -> None:
        raise LookupError

    def pass_on(frame: FrameType, original: Any, args: Any, kwargs: Any) -> Any:
        __tracebackhide__ = True
        return original(*args, **kwargs)

    intercept(as_function(fails), pass_on)
    with pytest.raises(LookupError) as caught:
        fails()
    shown = caught.traceback.filter(caught)
    assert [entry.name for entry in shown][1:] == ["fails"]


def test_undo_restores_the_code_object_and_can_be_repeated() -> None:
    def function() -> int:
        return 1

    code = function.__code__
    calls = Calls()
    undo = intercept(as_function(function), calls)
    undo()
    undo()
    assert function.__code__ is code
    assert function() == 1
    assert calls.seen == []


def test_undo_leaves_code_alone_that_someone_else_put_there() -> None:
    def function() -> int:
        return 1

    def other() -> int:
        return 2

    undo = intercept(as_function(function), Calls())
    function.__code__ = other.__code__
    undo()
    assert function() == 2


class Base:
    def greet(self, word: str = "hi") -> str:
        return word


class Child(Base):
    def __init__(self) -> None:
        self.__secret = 7

    def greet(self, word: str = "ho", __extra: int = 1) -> str:
        return f"{super().greet(word)}{self.__secret}{__extra}"

    def keyword(self, *, __hidden: int = 3) -> int:
        return __hidden

    @staticmethod
    def static(x: int) -> int:
        return x

    @classmethod
    def make(cls, x: int) -> tuple[type, int]:
        return cls, x

    @property
    def secret(self) -> int:
        return self.__secret


def test_methods_of_every_sort_are_intercepted() -> None:
    child = Child()
    taken_before = child.greet
    calls = Calls()
    held: dict[str, Any] = dict(Child.__dict__)
    functions = [
        held["greet"],
        held["keyword"],
        held["static"].__func__,
        held["make"].__func__,
        held["secret"].fget,
    ]
    undos = [intercept(function, calls) for function in functions]
    try:
        assert taken_before() == "ho71"
        assert child.keyword() == 3
        assert child.static(4) == 4
        assert Child.make(5) == (Child, 5)
        assert child.secret == 7
    finally:
        for undo in undos:
            undo()
    assert calls.seen == [
        ((child, "ho", 1), {}),
        ((child,), {"_Child__hidden": 3}),
        ((4,), {}),
        ((Child, 5), {}),
        ((child,), {}),
    ]


def test_a_closure_keeps_sharing_its_variables() -> None:
    def counter(start: int) -> tuple[Callable[[int], int], Callable[[], int]]:
        total = start
        other = 100

        def add(n: int) -> int:
            nonlocal total
            total += n
            return total + other

        return add, lambda: total

    add, read = counter(1)
    untouched, _ = counter(5)
    intercept(as_function(add), Calls())
    assert add(2) == 103
    assert read() == 3
    assert untouched(1) == 106


def test_recursion_is_intercepted_at_every_level() -> None:
    def factorial(n: int) -> int:
        return 1 if n < 2 else n * factorial(n - 1)

    calls = Calls()
    intercept(as_function(factorial), calls)
    assert factorial(4) == 24
    assert [args for args, _ in calls.seen] == [(4,), (3,), (2,), (1,)]


def test_arguments_are_read_again_after_a_repl_assigned_them() -> None:
    def price(amount: int, *rest: int, rate: int = 1, **more: int) -> Any:
        return amount, rest, rate, more

    def change(frame: FrameType, original: Any, args: Any, kwargs: Any) -> Any:
        guard = EvaluationGuard()
        source = "amount = 10; rest = [8, 9]; rate += 1; more['z'] = 4"
        evaluation = evaluate(source, frame, {}, guard=guard)
        assert evaluation.changed == ("amount", "rest", "rate", "more['z']")
        args, kwargs = arguments_of(frame)
        return original(*args, **kwargs)

    intercept(as_function(price), change)
    assert price(1, 2, x=3) == (10, (8, 9), 2, {"x": 3, "z": 4})


def test_the_trampoline_frame_shows_parameters_and_free_variables() -> None:
    free = 3

    def function(a: int) -> int:
        return a + free

    def look(frame: FrameType, *_: Any) -> dict[str, Any]:
        return dict(frame.f_locals)

    intercept(as_function(function), look)
    assert as_function(function)(1) == {"a": 1, "free": 3, "__tracebackhide__": True}


def test_a_class_body_is_left_alone() -> None:
    """It is a function until it has run: swapped it would leave a class without its contents."""
    bodies: list[FunctionType] = []

    class Meta(type):
        @classmethod
        def __prepare__(cls, name: str, bases: Any, /, **_: Any) -> dict[str, object]:
            everything = (each for each in gc.get_objects() if type(each) is FunctionType)
            bodies.extend(each for each in everything if each.__name__ == name)
            return {}

    class Made(metaclass=Meta):
        answer = 42

    (body,) = bodies
    with pytest.raises(CannotIntercept, match="it is a class body"):
        intercept(body, Calls())
    assert Made.answer == 42


def test_an_intercepted_function_dies_when_the_program_forgets_it() -> None:
    """A closure may hold what a test waits to see die."""

    def make() -> Callable[[], object]:
        held = Base()
        return lambda: held

    function = as_function(make())
    undo = intercept(function, Calls())
    alive = weakref.ref(function())
    del function
    assert alive() is None
    undo()


def test_a_warning_is_reported_for_a_place_of_the_program() -> None:
    """`stacklevel=2` means the caller; our frame in between is none of the program's."""

    def deprecated() -> None:
        warnings.warn("old", DeprecationWarning, stacklevel=2)

    intercept(as_function(deprecated), lambda *_: PASS)
    with pytest.warns(DeprecationWarning, match="old") as caught:
        deprecated()
    assert caught[0].filename == __file__


def test_a_call_that_passes_takes_as_many_frames_as_said() -> None:
    def depth() -> int:
        return len(traceback.extract_stack())

    before = depth()
    intercept(as_function(depth), lambda *_: PASS)
    assert depth() - before == FRAMES - 1


def test_on_call_is_asked_only_while_it_is_wanted() -> None:
    def function() -> int:
        return 1

    calls, wants = Calls(), [None, True]
    intercept(as_function(function), calls, lambda: wants.pop(0))
    assert (function(), len(calls.seen)) == (1, 0)
    assert (function(), len(calls.seen)) == (1, 1)


def hides(__tracebackhide__: bool) -> None: ...


def twice() -> None: ...


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (hides, r"it has a parameter named __tracebackhide__"),
        (len, r"len can't be intercepted: it is a builtin_function_or_method"),
        (Base().greet, r"it is a method, not a Python function"),
    ],
)
def test_what_cannot_be_intercepted_is_refused_with_a_reason(function: Any, reason: str) -> None:
    with pytest.raises(CannotIntercept, match=reason):
        intercept(function, Calls())


def test_a_function_is_intercepted_once_at_a_time() -> None:
    undo = intercept(as_function(twice), Calls())
    with pytest.raises(CannotIntercept, match="it is intercepted already"):
        intercept(as_function(twice), Calls())
    undo()
    intercept(as_function(twice), Calls())()


def test_calls_from_many_threads_survive_the_swapping() -> None:
    def add(a: int, b: int = 1) -> int:
        return a + b

    wrong: list[object] = []
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            for n in range(200):
                if add(n) != n + 1:
                    wrong.append(n)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(100):
        intercept(
            as_function(add), lambda frame, original, args, kwargs: original(*args, **kwargs)
        )()
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []
