"""Gives the debugger what it can't encode, or lets parts of it fail, as `INJECT` says.

A plugin (`-p injector`) inside the process under test:

* `stops`: each stop has another value at another key of its report (`COMBINATIONS`).
* `unsendable`: no stop can be encoded, in no form.
* `replies`: what the REPL answers can't be encoded.
* `NAME of MODULE`: a callable that a module of the debugger uses fails.
* `values`: the autopsies of failures hold such values.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any
from unittest.mock import MagicMock

import pytest

from pytest_cideldill.interpreter.sealed import load


class Loud:
    """Can't be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")

    __str__ = __repr__


def endless() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


def deep() -> Any:
    made: Any = 0
    for _ in range(100_000):
        made = [made]
    return made


VALUES: dict[str, Callable[[], Any]] = {
    "a mock": MagicMock,
    "nan": lambda: float("nan"),
    "a lone surrogate": lambda: "\ud800",
    "bytes": lambda: b"\xff",
    "an endless list": endless,
    "a deep list": deep,
    "a long number": lambda: 10**5_000,
    "an object without a text": Loud,
    "a dict with such a key": lambda: {Loud(): {1, 2}},
    "an exception": lambda: ValueError(Loud()),
}
KEYS = (
    "id", "paused_at", "call_data", "repl_sessions", "pause_reason", "phase", "when",
    "breakpoint_id", "nodeid", "run_id", "worker", "thread", "location", "locals", "frames",
    "hit_count", "changed", "attempt", "autopsy", "something else",
)  # fmt: skip
NESTED = (
    ("thread", "id"), ("thread", "name"), ("location", "file"), ("location", "line"),
    ("location", "source"), ("locals", "number"), ("call_data", "pretty_args"),
)  # fmt: skip
COMBINATIONS = [
    (place, name)
    for place in [*((key,) for key in KEYS), *NESTED]
    for name in VALUES
    if (place, name) != (("breakpoint_id",), "a lone surrogate")  # a text, but no id
]


@pytest.hookimpl(trylast=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """The debugger is there."""
    what = os.environ.get("INJECT", "")
    plugin: Any = early_config.pluginmanager.get_plugin("cideldill-postmortem")
    if what == "stops":
        spoil_stops(plugin.manager.pauses)
    elif what == "unsendable":
        spoil_frames(early_config.pluginmanager.get_plugin("cideldill-exitstatus"))
    elif what == "replies":
        spoil_replies(plugin.manager.pauses)
    elif what == "values":
        spoil_autopsies(early_config)
    elif what:
        name, _, module = what.partition(" of ")
        break_down(load(f"pytest_cideldill.{module}"), name)


def module_of(thing: Any) -> Any:
    return sys.modules[type(thing).__module__]


def spoil_stops(pauses: Any) -> None:
    module, left = module_of(pauses), iter(COMBINATIONS)
    keep = module.take_out_misfits

    def keep_spoiled(report: dict[str, Any], bare: dict[str, Any]) -> None:
        place, name = next(left)
        value = VALUES[name]()
        if len(place) == 1:
            report[place[0]] = value
        else:
            report[place[0]] = {**(report[place[0]] or {}), place[1]: value}
        keep(report, bare)

    module.take_out_misfits = keep_spoiled


def spoil_frames(verdict: Any) -> None:
    (outlet,) = verdict.host.link._outlets
    module = module_of(outlet)
    encode = module.encode_frame

    def encode_frame(message: dict[str, Any]) -> bytes:
        if message["kind"] == "stopped":
            raise MemoryError
        frame: bytes = encode(message)
        return frame

    module.encode_frame = encode_frame


def spoil_replies(pauses: Any) -> None:
    answer = pauses._console.answer
    values = iter(VALUES.values())

    def answer_spoiled(*args: Any) -> dict[str, Any]:
        return {**answer(*args), "output": next(values)()}

    pauses._console.answer = answer_spoiled


def spoil_autopsies(config: pytest.Config) -> None:
    autopsies = config.pluginmanager.get_plugin("cideldill-reporting")._autopsies  # type: ignore[union-attr]
    of_report, values = autopsies.of_report, iter(VALUES.values())

    def of_report_spoiled(*args: Any) -> dict[str, Any]:
        return {**of_report(*args), "parameters": {"spoiled": next(values)()}}

    autopsies.of_report = of_report_spoiled


def break_down(module: Any, name: str) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError(f"{name} is broken")

    assert hasattr(module, name)
    setattr(module, name, fail)
