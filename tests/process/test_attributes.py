"""Names that no definition has: what they lead to, and callables of C behind an attribute."""

from __future__ import annotations

import copy
import functools
import importlib
import inspect
import json.scanner
import math
import os
import pickle
import sys
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pytest_cideldill.protocol import Bound, SetDefaultBehavior, Stopped
from tests.process import labels
from tests.process.debuggee import Debuggee, debuggee
from tests.process.labels import Label

pytestmark = pytest.mark.full  # dozens of scans of all that a test process holds

HERE = "tests.process.labels"


@pytest.fixture
def process() -> Iterator[Debuggee]:
    with debuggee() as made:
        yield made


LED: list[tuple[str, str, Callable[[], Any]]] = [
    ("discount", "discount", lambda: labels.discount(3)),
    ("cached", "cached", lambda: labels.cached(4)),
    ("Label.shout", "Label.shout", lambda: Label("a").shout()),
    ("Label.width", "Label.width", lambda: Label("a").width),
    ("Label", "Label.__init__", lambda: Label("a")),
    ("Label.__init__", "Label.__init__", lambda: Label("a")),
    ("Parcel", "Parcel.__init__", lambda: labels.Parcel("a")),
    ("HeavyParcel", "Parcel.__init__", lambda: labels.HeavyParcel("a")),
    ("decorated", "decorated", lambda: labels.decorated(1)),
    ("opened_label", "opened_label", lambda: labels.opened_label(1)),
    ("Kinds.once", "Kinds.once", lambda: labels.Kinds().once),
    ("Kinds.kept", "Kinds.kept", lambda: labels.Kinds().kept(1)),
    ("Kinds.part", "Kinds.kept", lambda: labels.Kinds().part()),
]


@pytest.mark.parametrize(("name", "function", "call"), LED, ids=[each[0] for each in LED])
def test_a_name_leads_to_the_function_that_it_was_given_to(
    process: Debuggee, name: str, function: str, call: Callable[[], Any]
) -> None:
    """Lambdas, classes, generated and decorated functions, in all exact forms and bare."""
    expected = call()
    labels.cached.cache_clear()
    labels.Kinds.kept.cache_clear()
    forms = [f"{HERE}.{name}", f"{HERE}:{name}", f"tests/process/labels.py::{name}"]
    for form in [*forms, name] if "." not in name else forms:
        added = process.add(form)
        assert (added["functions"], added["via"]) == ([f"{HERE}.{function}"], "code"), form
        process.remove()
    process.add(forms[0])
    running = process.call(call)
    pause = process.stop()
    assert pause["call_data"]["qualified_name"] == f"{HERE}.{function}"
    assert pause["call_data"]["method_name"] == function.rpartition(".")[2]
    process.resume(pause["id"])
    assert type(running.result()) is type(expected)
    process.remove()
    process.passes(call)


def test_aliases_and_partials_lead_to_functions_defined_elsewhere(process: Debuggee) -> None:
    """The reply tells the resolved path."""
    for name in ("renamed_price", "one_each"):
        added = process.add(f"{HERE}.{name}")
        assert added["functions"] == ["tests.process.tills.price_of"]
        assert process.stops(labels.one_each, 2)["call_data"]["pretty_args"] == ["2", "1"]
    process.remove()
    assert process.add("one_each")["functions"] == ["tests.process.tills.price_of"]


def test_a_dispatched_function_stops_in_all_its_implementations(process: Debuggee) -> None:
    """Who names it means its calls."""
    assert process.add(f"{HERE}.reported")["functions"] == [f"{HERE}._", f"{HERE}.reported"]
    process.stops(labels.reported, 1)
    process.stops(labels.reported, "")


def test_globs_find_lambdas_by_their_names_and_generated_inits(process: Debuggee) -> None:
    """Both count as user code."""
    assert process.add(f"{HERE}.disc*", "go")["functions"] == [f"{HERE}.discount"]
    found = process.add(f"{HERE}.Label.*", "go", id="fn-2")["functions"]
    assert found == [f"{HERE}.Label.{name}" for name in ("__init__", "shout", "width")]


def test_an_inherited_init_stops_for_instances_of_the_class_only(process: Debuggee) -> None:
    """Each of several classes with the same one has a breakpoint of its own."""
    process.add(f"{HERE}.HeavyParcel", id="fn-1")
    process.passes(labels.LightParcel, "a")
    process.passes(labels.Parcel, "a")
    process.add("LightParcel", "go", id="fn-2")
    process.passes(labels.LightParcel, "a")
    assert process.stops(labels.HeavyParcel, "a")["breakpoint_id"] == "fn-1"
    process.add(f"{HERE}.Parcel", id="fn-3")
    for cls in (
        labels.HeavyParcel,
        labels.Parcel,
        labels.LightParcel,
    ):  # the newest of exact ones wins
        assert process.stops(cls, "a")["breakpoint_id"] == "fn-3"
    process.remove("fn-3")
    assert process.stops(labels.HeavyParcel, "a")["breakpoint_id"] == "fn-1"
    process.passes(labels.Parcel, "a")
    process.remove("fn-1")
    process.passes(labels.HeavyParcel, "a")


@pytest.mark.parametrize(
    ("name", "way_out"),
    [
        (f"{HERE}.Bare", "a method of it"),
        ("Bare", "a method of it"),
        (f"{HERE}.Made", f"{HERE}.Made.__new__"),
        ("collections.deque", "a function that makes"),
        ("collections.deque.append", "breakpoint_set"),
        ("str.upper", "breakpoint_set"),
        ("builtins.locals", "name a function that calls it"),
    ],
)
def test_what_cannot_be_intercepted_is_refused_with_a_way_out(
    process: Debuggee, name: str, way_out: str
) -> None:
    """`cannot_intercept`, and nothing is changed."""
    before = labels.Bare.__init__, math.sqrt, locals
    refused = process.refused(process.add, name)
    assert refused["error"] == "cannot_intercept"
    assert way_out in refused["message"]
    assert (labels.Bare.__init__, math.sqrt, locals) == before


# --- callables of C -----------------------------------------------------------------------------

REPLACED: list[tuple[str, Callable[[], Any], list[str]]] = [
    ("math.sqrt", lambda: math.sqrt(4.0), ["4.0"]),
    ("math.sqrt", lambda: labels.root(4.0), ["4.0"]),
    (f"{HERE}.sqrt", lambda: labels.root(4.0), ["4.0"]),
    ("time.sleep", lambda: vars(time)["sleep"](0), ["0"]),
    ("time.sleep", lambda: labels.nap(0), ["0"]),
    ("os.getpid", lambda: os.getpid(), []),
    ("os.stat", lambda: os.stat(os.curdir, follow_symlinks=False).st_ino, ["'.'"]),
    ("builtins.oct", lambda: oct(8), ["8"]),
    ("json.scanner.c_make_scanner", lambda: json.JSONDecoder().decode("1"), ["JSONDecoder"]),
    (f"{HERE}.by_amount", lambda: labels.by_amount(types.SimpleNamespace(amount=1)), ["amount=1"]),
    (f"{HERE}.half", lambda: labels.half(2), ["2"]),
    (f"{HERE}.Pile.push", lambda: labels.Pile().push(1), ["[]", "1"]),
    (f"{HERE}.Pile.append", lambda: labels.Pile().append(1), ["[]", "1"]),
    (f"{HERE}.Label.twice", lambda: Label.twice(1.0, 1), ["1.0", "1"]),
    ("math:log", lambda: math.log(8, 2), ["8", "2"]),
]


@pytest.mark.sample(
    "math.sqrt0",
    "tests.process.labels.sqrt",
    "time.sleep0",
    "os.stat",
    "builtins.oct",
    "json.scanner.c_make_scanner",
    "*.Pile.push",
    "*.Label.twice",
)
@pytest.mark.parametrize(("name", "call", "args"), REPLACED, ids=[each[0] for each in REPLACED])
def test_a_callable_of_c_is_intercepted_through_its_attribute(
    process: Debuggee, name: str, call: Callable[[], Any], args: list[str]
) -> None:
    """Arguments by position; the result is the original's; removal leaves no trace."""
    expected = call()
    held = {**vars(labels)}, {**vars(labels.Pile)}, {**vars(Label)}, len, math.sqrt, time.sleep
    added = process.add(name)
    assert (added["via"], added["verified"], len(added["functions"])) == ("attribute", True, 1)
    assert added["functions"][0].endswith(name.replace(":", "."))
    running = process.call(call)
    pause = process.stop()
    shown = pause["call_data"]["pretty_args"]
    assert len(shown) == len(args)
    for part, text in zip(args, shown, strict=True):
        assert part in text
    assert pause["call_data"]["call_site"]["file"].endswith(".py")
    process.resume(pause["id"])
    assert running.result() == expected
    process.add(name, "go")
    assert process.passes(call) == expected
    process.remove()
    process.passes(call)
    now = {**vars(labels)}, {**vars(labels.Pile)}, {**vars(Label)}, len, math.sqrt, time.sleep
    assert now == held
    for each in (math.sqrt, time.sleep, oct):
        assert type(each) is types.BuiltinFunctionType


def test_a_module_in_a_name_is_left_out_of_the_path(process: Debuggee) -> None:
    """What is named is the attribute of that module, whoever holds the module."""
    assert process.add(f"{HERE}.math.sqrt")["functions"] == ["math.sqrt"]


@pytest.mark.quick
def test_all_that_a_client_can_do_works_for_them(process: Debuggee) -> None:
    """Conditions, other arguments, skipped calls, exceptions, stops after the call."""
    process.add("math.sqrt", condition="x > 4")
    process.passes(math.sqrt, 4)
    for how, result in (
        ({}, 3.0),
        ({"modified_args": [16]}, 4.0),
        ({"action": "skip", "fake_result": 7}, 7),
        ({"replacement_function": "math.exp"}, math.exp(9)),
    ):
        running = process.call(math.sqrt, 9)
        pause = process.stop()
        assert pause["call_data"]["signature"] == "(x, /)"
        assert process.evaluate(pause["id"], "x")["output"] == "9"
        process.resume(pause["id"], **how)
        assert running.result() == result
    running = process.call(math.sqrt, 9)
    id = process.stop()["id"]
    assert process.evaluate(id, "x + 1")["output"] == "10"
    process.evaluate(id, "x = 25")
    assert process.refused(process.resume, id, modified_args=[1, 2])["error"] == "invalid_arguments"
    process.resume(id)
    assert running.result() == 5.0
    running = process.call(math.sqrt, 9)
    process.resume(process.stop()["id"], "raise", exception_type="KeyError")
    with pytest.raises(KeyError):
        running.result()


def test_optional_arguments_reach_the_original_as_they_were_given(process: Debuggee) -> None:
    """What is left out stays out: a documented default need not be what C does without it."""
    process.add("builtins.pow")
    running = process.call(pow, 2, 5)
    pause = process.stop()
    id = pause["id"]
    assert pause["call_data"]["signature"] == "(base, exp, mod=None)"
    assert process.evaluate(id, "base, exp, args, kwargs")["output"] == "(2, 5, (), {})"
    body = process.refused(process.resume, id, modified_kwargs={"mode": 7})
    assert body["error"] == "invalid_arguments"
    process.resume(id, modified_kwargs={"mod": 7})
    assert running.result() == 4
    running = process.call(pow, exp=5, base=2)
    process.resume(process.stop()["id"])
    assert running.result() == 32


WRONG: list[tuple[Any, str, tuple[Any, ...], dict[str, Any]]] = [
    (math, "sqrt", (), {}),
    (math, "sqrt", (1, 2), {}),
    (math, "sqrt", (), {"x": 1}),
    (math, "sqrt", ("1",), {}),
    (os, "stat", (), {}),
    (os, "stat", (".", "."), {}),
    (os, "stat", (".",), {"path": "."}),
    (os, "stat", (), {"nothing": 1}),
]


@pytest.mark.parametrize(("module", "name", "args", "kwargs"), WRONG)
def test_errors_are_the_original_s_own(
    process: Debuggee, module: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Type and words; nothing of ours is in the way."""

    def error() -> str:
        with pytest.raises(TypeError) as caught:
            getattr(module, name)(*args, **kwargs)
        return str(caught.value)

    expected = error()
    process.add(f"{module.__name__}.{name}", "go")
    assert error() == expected


def test_it_looks_like_the_original(process: Debuggee) -> None:
    """Names, signature, pickles, copies, comparisons; `isinstance` too."""
    original, signature = math.sqrt, inspect.signature(math.sqrt)
    process.add("math.sqrt")
    now = math.sqrt
    assert now is not original
    for name in ("__name__", "__qualname__", "__module__", "__doc__", "__text_signature__"):
        assert getattr(now, name) == getattr(original, name), name
    assert (repr(now), hash(now), {original: 1}[now]) == (repr(original), hash(original), 1)
    assert now == original
    assert now != math.exp
    assert inspect.signature(now) == signature
    assert inspect.unwrap(now) is original
    assert isinstance(now, types.BuiltinFunctionType)
    assert inspect.isbuiltin(now)
    assert callable(now)
    assert pickle.loads(pickle.dumps(now)) is now
    assert pickle.loads(pickle.dumps(functools.partial(now, 4))).args == (4,)
    assert copy.copy(now) is copy.deepcopy(now) is now

    shown = process.manager.lens.show([now, inspect.unwrap(now)])
    assert shown == "[<built-in sqrt>, <built-in sqrt>]"

    class Holder:
        of: Any = math.sqrt

    assert process.call(Holder().of, 4).thread.is_alive()  # not bound as a method
    process.resume(process.stop()["id"])
    process.remove()
    assert pickle.loads(pickle.dumps(now)) is original
    process.passes(now, 4)


def test_an_attribute_that_others_changed_meanwhile_is_left_alone(process: Debuggee) -> None:
    """Removal restores what is still ours; what a test put back later does no harm."""
    with pytest.MonkeyPatch.context() as patch:
        process.add("math.sqrt")
        ours = math.sqrt

        def fake(x: float) -> float:
            return -x

        patch.setattr(math, "sqrt", fake)
        process.remove()
        assert math.sqrt is fake
    assert math.sqrt is ours
    process.passes(math.sqrt, 4)
    added = process.add("math.sqrt")
    assert added["via"] == "attribute"
    process.stops(math.sqrt, 4)
    process.remove()
    math.sqrt = inspect.unwrap(ours)


ELSEWHERE = "__import__('threading').current_thread().name != 'MainThread'"


@pytest.mark.parametrize("name", ["os.stat", "os.lstat", "builtins.max", "time.monotonic"])
def test_the_debugger_itself_calls_the_original(process: Debuggee, name: str) -> None:
    """A pause reads source lines and shows values, with what is intercepted meanwhile."""
    process.add(name, condition=ELSEWHERE, id="fn-1")
    process.add("tests.process.tills.price_of", id="fn-2")
    running = process.call(labels.one_each, 2)
    pause = process.stop()
    assert pause["breakpoint_id"] == "fn-2"
    assert (
        process.evaluate(pause["id"], "__import__('os').stat('.') and max(1, 0)")["output"] == "1"
    )
    process.resume(pause["id"])
    running.result()
    assert not process.has(Stopped)


def test_a_default_behavior_counts_for_them(process: Debuggee) -> None:
    """As for all breakpoints that yield."""
    process.add("math.sqrt", "yield")
    process.manager.apply(SetDefaultBehavior("exception"))
    process.passes(math.sqrt, 4)
    running = process.call(math.sqrt, -1)
    pause = process.stop()
    assert (pause["phase"], pause["call_data"]["exception"]["type"]) == ("exception", "ValueError")
    process.resume(pause["id"], "skip", fake_result=0)
    assert running.result() == 0


def test_a_module_that_is_made_in_c_is_looked_at_when_it_is_imported(process: Debuggee) -> None:
    """Late import: it has no code that starts."""
    sys.modules.pop("_statistics", None)  # nothing else asks for it by name
    path = "_statistics._normal_dist_inv_cdf"
    assert process.add(path)["functions"] == []
    module = importlib.import_module("_statistics")
    assert process.next(Bound).functions == []
    reported = process.next(Bound)
    assert (reported.functions, reported.via) == ([path], "attribute")
    assert inspect.isbuiltin(module._normal_dist_inv_cdf)
    process.stops(module._normal_dist_inv_cdf, 0.5, 0, 1)
