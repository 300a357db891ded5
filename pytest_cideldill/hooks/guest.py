"""A guest's manners: a hook of ours that fails warns once and never fails the host's run."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Final, Protocol

import pytest

from pytest_cideldill.interpreter.borders import contained, passes, report_failure

_GENERATOR: Final = 0x20  # CO_GENERATOR


class Warns(Protocol):
    """An object that reports failures of ours."""

    def warn(self, message: str) -> None:
        """Send `message` once, as a warning."""


def guest(hook: Callable[..., Any]) -> Callable[..., Any]:
    """Give a hook method a border: what fails in it becomes one warning of the object's `host`.

    A method that fails returns None. Of a wrapper, a generator that yields once, neither part can
    change what the others return or raise, which it is not given.
    """
    return _around(hook) if hook.__code__.co_flags & _GENERATOR else _polite(hook)


def _polite(hook: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(hook)
    def polite(self: Any, *args: Any) -> Any:  # as pluggy calls it: no keywords, they cost
        try:
            return hook(self, *args)
        except Exception as error:
            if passes(error):
                raise
            report_failure(hook.__name__, error, partial(_warn, self))
            return None

    return polite


def _around(hook: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(hook)
    def around(self: Any, *args: Any) -> Generator[None, Any, Any]:
        __tracebackhide__ = True
        parts: Generator[None, None, None] = hook(self, *args)
        go_on = partial(next, parts, None)
        contained(hook.__name__, go_on, partial(_warn, self), None)
        try:
            return (yield)
        finally:
            contained(hook.__name__, go_on, partial(_warn, self), None)

    return around


def clean_up(config: pytest.Config, what: str, step: Callable[[], object]) -> None:
    """Take a step at pytest's end, with a border: the cleanups of others run as well.

    Args:
        what: Names the step on stderr when it fails.
    """

    def bordered() -> None:
        contained(what, step, say, None)

    config.add_cleanup(bordered)


def say(message: str) -> None:
    """On stderr, as there is no client."""
    sys.stderr.write(f"{message}\n")


def _warn(plugin: Any, message: str) -> None:
    """By its host; one that has none says it on stderr."""
    host: Warns | None = getattr(plugin, "host", None)
    report = say if host is None else host.warn
    report(message)
