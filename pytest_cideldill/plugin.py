"""The pytest plugin `cideldill`: its options and hooks, and the ways to be switched on.

`--cideldill-mcp` or `--cideldill-http` hands the process over to the front end; an invitation in
the environment connects a process that a front end started, or one of a run that is recorded;
`--cideldill-record` begins such a run. Otherwise only `settings`, what it
needs, and `hookspecs` are imported.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

import pytest

from pytest_cideldill import hookspecs
from pytest_cideldill.config import options, settings
from pytest_cideldill.fixtures import cideldill

__all__ = ["cideldill"]

VARIABLE = "CIDELDILL_CHILD"

_invitations: list[str] = []
"""Emptied by the first configuration, for in-process nested runs."""


def _take_invitation() -> None:
    """Out of the environment: subprocesses of the tests and nested runs must not connect."""
    if text := os.environ.pop(VARIABLE, None):
        _invitations[:] = [text]


_take_invitation()  # at import: before conftests and tests


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register our options."""
    settings.add_options(parser)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Make our hooks known, so that a conftest may have them in every run."""
    pluginmanager.add_hookspecs(hookspecs)


@pytest.hookimpl(tryfirst=True, wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, None, None]:
    """The earliest hook of an installed plugin: before output capture and every conftest.

    A wrapper, since capture starts in one too: ours is the first.
    """
    _take_invitation()  # a server of execnet is one process for worker after worker
    if _invitations:
        child = _sealed("hooks.start")
        invitation = _invitations.pop()
        try:
            settings.read(early_config)
        except ValueError as error:  # before anybody is told of this process: it ends at its start
            raise pytest.UsageError(str(error)) from error
        child.activate(early_config, invitation, VARIABLE)
    elif options.switches(early_config.known_args_namespace):
        from pytest_cideldill.config.takeover import take_over

        take_over(early_config)
    elif directory := _record(early_config):
        _sealed("hooks.recording").begin(early_config, directory, VARIABLE)
    return (yield)


def _sealed(name: str) -> Any:
    """A module of ours that runs beside the tests.

    Raises:
        pytest.UsageError: A library has replaced what it needs of the interpreter.
    """
    from pytest_cideldill.interpreter.sealed import PatchedEarlier, load

    try:
        return load(f"pytest_cideldill.{name}")
    except PatchedEarlier as error:
        raise pytest.UsageError(str(error)) from error


def _record(config: pytest.Config) -> str:
    """The folder that this run is to be recorded in; empty: it is not.

    Raises:
        pytest.UsageError: The table of options is malformed; or it is missing for what needs it.
    """
    known = config.known_args_namespace
    if known.help or known.version or options.conflict(known, options.NO_TESTS) is not None:
        return ""
    try:
        directory = settings.recorded_in(config)
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error
    if not directory and known.cideldill_trace:
        raise pytest.UsageError("--cideldill-trace needs --cideldill-record=DIR: it writes there")
    if not directory and known.cideldill_summary is not None:
        raise pytest.UsageError("--cideldill-summary needs --cideldill-record=DIR: it tells that")
    return directory
