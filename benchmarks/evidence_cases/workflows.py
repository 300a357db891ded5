"""An engine of workflows: steps, settings, retries, a registry, a history."""

from __future__ import annotations

from typing import Final

from benchmarks.evidence_cases.cases import INI, Case, MadeUp
from tests.together.real_package import Breakage

FILES: Final = {
    "pytest.ini": INI,
    "flows/__init__.py": "",
    "flows/settings.py": '''
"""Settings of an engine: defaults, a profile, overrides, the environment."""

import copy
import os

DEFAULTS = {
    "retries": {"most": 3, "base": 2.0, "limit": 30.0},
    "logging": {"level": "info", "sinks": ["memory"]},
    "workers": 4,
}

PREFIX = "FLOWS_"


def merged(base, changes):
    """A new dict: `changes` over `base`, section by section."""
    result = copy.deepcopy(base)
    for key, value in changes.items():
        if isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key].update(value)
        else:
            result[key] = value
    return result


def from_environment():
    """`FLOWS_WORKERS=2` → {"workers": 2}."""
    found = {}
    for name, value in os.environ.items():
        if name.startswith(PREFIX):
            key = name[len(PREFIX) :].lower()
            found[key] = int(value) if value.isdigit() else value
    return found


def load(profile=None, **overrides):
    settings = merged(DEFAULTS, from_environment())
    for changes in (profile or {}, overrides):
        settings = merged(settings, changes)
    return settings


class environment:
    """Variables for the time of a block."""

    def __init__(self, **values):
        self._values = {PREFIX + name.upper(): str(value) for name, value in values.items()}
        self._before = {}

    def __enter__(self):
        self._before = {name: os.environ.get(name) for name in self._values}
        os.environ.update(self._values)
        return self

    def __exit__(self, *error):
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
''',
    "flows/retry.py": '''
"""How long to wait before a step is tried again."""


class GaveUp(Exception):
    """A step failed each time."""


def clamp(value, low, high):
    return max(low, min(value, high))


def delay(attempt, base, limit):
    """Seconds before an attempt; the first one is 0."""
    if attempt == 0:
        return 0.0
    return clamp(base ** (attempt - 1), 0.5, limit)


def delays(most, base, limit):
    return [delay(attempt, base, limit) for attempt in range(most)]


def attempted(action, policy, sleep):
    """The result of the first attempt that succeeds, and the seconds that were waited."""
    waited = 0.0
    errors = []
    for pause in delays(policy["most"], policy["base"], policy["limit"]):
        sleep(pause)
        waited += pause
        try:
            return action(), waited
        except ConnectionError as error:
            errors.append(error)
    raise GaveUp(f"{len(errors)} attempts in {waited:.1f} s") from errors[-1]
''',
    "flows/registry.py": '''
"""Kinds of steps by name, and hooks that see each step."""

from contextlib import contextmanager

_KINDS = {}


def kind(name):
    def register(function):
        _KINDS[name] = function
        return function

    return register


def find(name):
    try:
        return _KINDS[name]
    except KeyError:
        raise LookupError(f"no kind of step is named {name!r}") from None


@contextmanager
def replaced(name, function):
    """Another function for the time of a block."""
    before = _KINDS[name]
    _KINDS[name] = function
    try:
        yield
    finally:
        _KINDS[name] = before


class Hooks:
    """What is called around steps."""

    def __init__(self, *functions):
        self.functions = list(functions)

    def add(self, function):
        self.functions.append(function)

    def call(self, event, step):
        for function in self.functions:
            function(event, step)
''',
    "flows/steps.py": '''
"""The kinds of steps that there are."""

from flows.registry import kind


@kind("value")
def value(context, step):
    return step.options["value"]


@kind("sum")
def total(context, step):
    return sum(context[name] for name in step.needs)


@kind("scale")
def scale(context, step):
    (name,) = step.needs
    return context[name] * step.options.get("factor", 1)


@kind("ratio")
def ratio(context, step):
    above, below = step.needs
    return context[above] / context[below]
''',
    "flows/graph.py": '''
"""Steps, and in what order they run."""

from dataclasses import dataclass, field


@dataclass
class Step:
    name: str
    kind: str
    needs: tuple = ()
    options: dict = field(default_factory=dict)


class Cycle(Exception):
    """Steps wait for each other."""


def ordered(steps):
    """Each step after those that it needs; else as given."""
    known = {step.name: step for step in steps}
    done, doing, found = set(), set(), []

    def visit(step):
        if step.name in done:
            return
        if step.name in doing:
            raise Cycle(step.name)
        doing.add(step.name)
        for name in step.needs:
            visit(known[name])
        doing.discard(step.name)
        done.add(step.name)
        found.append(step)

    for step in steps:
        visit(step)
    return found


def chain(kinds, names=None):
    """Steps each of which needs the one before."""
    names = [] if names is None else names
    steps = []
    for at, each in enumerate(kinds):
        names.append(f"{each}{at}")
        needs = (names[-2],) if len(names) > 1 else ()
        steps.append(Step(names[-1], each, needs, {"value": 1, "factor": 2}))
    return steps
''',
    "flows/engine.py": '''
"""Run steps, keep a history."""

from flows import steps as _steps  # registers the kinds
from flows.graph import ordered
from flows.registry import Hooks, find
from flows.retry import attempted
from flows.settings import load


class Engine:
    def __init__(self, profile=None, sleep=lambda seconds: None, **overrides):
        self.settings = load(profile, **overrides)
        self.hooks = Hooks()
        self.waited = 0.0
        self._sleep = sleep

    def run(self, steps):
        """Name → result."""
        context = {}
        for step in ordered(steps):
            self.hooks.call("before", step)
            context[step.name] = self._one(context, step)
            self.hooks.call("after", step)
        return context

    def _one(self, context, step):
        function = find(step.kind)
        policy = self.settings["retries"]
        result, waited = attempted(lambda: function(context, step), policy, self._sleep)
        self.waited += waited
        return result


def recorded(engine):
    """A list that hears what the engine does."""
    heard = []
    engine.hooks.add(lambda event, step: heard.append(f"{event} {step.name}"))
    return heard
''',
    "tests/test_engine.py": """
import pytest

from flows.engine import Engine, recorded
from flows.graph import Cycle, Step, chain
from flows.registry import find, replaced
from flows.retry import GaveUp, delays


def house():
    return [
        Step("all", "sum", ("rent", "power")),
        Step("rent", "value", (), {"value": 900}),
        Step("power", "value", (), {"value": 60}),
    ]


def test_unknown_kind():
    with pytest.raises(LookupError):
        find("teleport")


def test_sum():
    assert Engine().run(house())["all"] == 960


def test_history():
    engine = Engine()
    heard = recorded(engine)
    engine.run(house())
    assert heard == [
        "before rent",
        "after rent",
        "before power",
        "after power",
        "before all",
        "after all",
    ]


def test_history_of_two():
    quiet, loud = Engine(), Engine()
    heard = recorded(loud)
    quiet.run(house())
    loud.run([Step("x", "value", (), {"value": 1})])
    assert heard == ["before x", "after x"]


def test_offline_kind():
    def offline(context, step):
        raise ConnectionError("offline")

    with pytest.raises(GaveUp), replaced("sum", offline):
        Engine().run(house())


def test_sum_of_three():
    steps = [*house(), Step("gas", "value", (), {"value": 40})]
    steps[0].needs = ("rent", "power", "gas")
    assert Engine().run(steps)["all"] == 1000


def test_cycle():
    with pytest.raises(Cycle):
        Engine().run([Step("a", "sum", ("b",)), Step("b", "sum", ("a",))])


def test_chain():
    assert Engine().run(chain(["value", "scale", "scale"])) == {
        "value0": 1,
        "scale1": 2,
        "scale2": 4,
    }


def test_two_chains():
    first, second = chain(["value", "scale"]), chain(["value"])
    engine = Engine()
    assert engine.run(first) == {"value0": 1, "scale1": 2}
    assert engine.run(second) == {"value0": 1}
    assert [step.needs for step in second] == [()]


def test_delays():
    assert delays(3, 2.0, 30.0) == [0.0, 1.0, 2.0]


def test_waiting():
    answers = iter([ConnectionError(), ConnectionError(), ConnectionError(), 7])

    def flaky(context, step):
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    engine = Engine(retries={"most": 5, "base": 3.0, "limit": 4.0})
    with replaced("value", flaky):
        assert engine.run([Step("x", "value")]) == {"x": 7}
    assert engine.waited == 8.0
""",
    "tests/test_settings.py": """
import pytest

from flows.engine import Engine
from flows.settings import DEFAULTS, environment, load


def test_defaults():
    assert load() == DEFAULTS
    assert load() is not DEFAULTS


def test_override():
    assert load(workers=1)["workers"] == 1


def test_bad_environment():
    with pytest.raises(TypeError), environment(retries="many"):
        Engine(retries="none").run([])
        raise TypeError("retries must be a section")


def test_profile():
    profile = {"retries": {"most": 1}, "logging": {"level": "debug"}}
    found = load(profile)
    assert found["retries"] == {"most": 1, "base": 2.0, "limit": 30.0}
    assert found["logging"]["level"] == "debug"


def test_engine_of_a_profile():
    engine = Engine({"retries": {"base": 5.0}})
    assert engine.settings["retries"]["base"] == 5.0


def test_two_engines():
    strict = Engine({"retries": {"most": 9}, "logging": {"level": "debug"}})
    relaxed = Engine({"workers": 8})
    assert strict.settings["retries"]["most"] == 9
    assert relaxed.settings["logging"] == {"level": "info", "sinks": ["memory"]}
    assert relaxed.settings["retries"]["most"] == 3


def test_environment():
    with environment(workers=2):
        assert load()["workers"] == 2
    assert load()["workers"] == 4
""",
}

FLOWS: Final = MadeUp("flows_app", FILES)

CASES: Final = (
    Case(
        "flows-leak-global",
        "leak between tests: a module's global",
        FLOWS,
        Breakage(
            "replaced",
            "flows/registry.py",
            """    try:
        yield
    finally:
        _KINDS[name] = before
""",
            """    yield
    _KINDS[name] = before
""",
        ),
        "tests/test_engine.py::test_sum_of_three",
        ("tests/test_engine.py",),
        needs_order=True,
    ),
    Case(
        "flows-leak-environment",
        "leak between tests: os.environ",
        FLOWS,
        Breakage(
            "environment.__exit__",
            "flows/settings.py",
            "        for name, value in self._before.items():\n",
            "        for name, value in self._before.items() if error[0] is None else ():\n",
        ),
        "tests/test_settings.py::test_profile",
        ("tests/test_settings.py",),
        needs_order=True,
    ),
    Case(
        "flows-leak-class",
        "leak inside a test: one list of all instances",
        FLOWS,
        Breakage(
            "Hooks.__init__",
            "flows/registry.py",
            """    def __init__(self, *functions):
        self.functions = list(functions)
""",
            """    functions = []

    def __init__(self, *functions):
        self.functions.extend(functions)
""",
        ),
        "tests/test_engine.py::test_history_of_two",
    ),
    Case(
        "flows-mutable-default",
        "mutable default argument",
        FLOWS,
        Breakage(
            "chain",
            "flows/graph.py",
            """def chain(kinds, names=None):
    \"\"\"Steps each of which needs the one before.\"\"\"
    names = [] if names is None else names
""",
            """def chain(kinds, names=[]):
    \"\"\"Steps each of which needs the one before.\"\"\"
""",
        ),
        "tests/test_engine.py::test_two_chains",
    ),
    Case(
        "flows-shallow-copy",
        "shallow copy",
        FLOWS,
        Breakage(
            "merged",
            "flows/settings.py",
            "result = copy.deepcopy(base)",
            "result = copy.copy(base)",
        ),
        "tests/test_settings.py::test_two_engines",
    ),
    Case(
        "flows-argument-order",
        "wrong order of arguments",
        FLOWS,
        Breakage(
            "delay",
            "flows/retry.py",
            "return clamp(base ** (attempt - 1), 0.5, limit)",
            "return clamp(0.5, base ** (attempt - 1), limit)",
        ),
        "tests/test_engine.py::test_waiting",
    ),
)
