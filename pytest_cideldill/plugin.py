"""The pytest plugin `cideldill`: registers options and hooks, and switches the engine on.

`--cideldill-mcp` or `--cideldill-http` hands the process over to the front end. An invitation in
the environment connects a process that a front end started, or one of a recorded run; the request
of a question has it record into a file.
`--cideldill-record` begins a recorded run. A plain one that fails ends with answers if
`--cideldill-why` asks for them, and with a hint if an agent runs it. Otherwise only `settings`, its
imports, `agents` and `hookspecs` are loaded.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from importlib import import_module
from typing import Any

import pytest

from pytest_cideldill import hookspecs
from pytest_cideldill.config import agents, options, settings
from pytest_cideldill.fixtures import cideldill

__all__ = ["cideldill"]

VARIABLE = "CIDELDILL_CHILD"
QUESTION = "CIDELDILL_QUESTION"  # `protocol.trace_rows.VARIABLE`, which takes long to import

_IN_A_TEST = "PYTEST_CURRENT_TEST"
"""Set by pytest while a test runs: a pytest that the test starts prints what the test expects."""

_invitations: list[str] = []
"""The first configuration empties it, so that nested runs in this process get none."""

_questions: list[str] = []
"""The same for the request of a question."""


def _take_invitation() -> None:
    """Take it out of the environment: subprocesses of tests and nested runs must not connect."""
    for variable, taken in ((VARIABLE, _invitations), (QUESTION, _questions)):
        if text := os.environ.pop(variable, None):
            taken[:] = [text]


_take_invitation()  # at import: before conftests and tests


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register our options."""
    settings.add_options(parser)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Register our hooks, so that a conftest may implement them in every run."""
    pluginmanager.add_hookspecs(hookspecs)


@pytest.hookimpl(tryfirst=True, wrapper=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, args: list[str]
) -> Generator[None, None, None]:
    """Switch on in the earliest hook of an installed plugin, before capture and every conftest.

    It is a wrapper because capture starts in a wrapper too; ours is the first.
    """
    _take_invitation()  # a server of execnet is one process for worker after worker
    settings.unjoin(early_config.known_args_namespace, args)
    if _invitations:
        child = _sealed("hooks.start")
        invitation = _invitations.pop()
        try:
            settings.read(early_config)
        except ValueError as error:  # before the handshake: this process ends at its start
            raise pytest.UsageError(str(error)) from error
        child.activate(early_config, invitation, VARIABLE)
    elif _questions:
        _sealed("hooks.question").ask(early_config, _questions.pop(), QUESTION)
    elif options.switches(early_config.known_args_namespace):
        from pytest_cideldill.config.takeover import take_over

        take_over(early_config)
    else:
        _begin(early_config)
    return (yield)


def _begin(config: pytest.Config) -> None:
    """Begin a recorded run, or a plain one.

    Raises:
        pytest.UsageError: As `_chosen`, or the run can't be recorded.
    """
    known = config.known_args_namespace
    if known.help or known.version or options.conflict(known, options.NO_TESTS) is not None:
        return
    directory, why = _chosen(config)
    if directory:
        _sealed("hooks.recording").begin(config, directory, VARIABLE)
        return
    # Not from the sealed room: nothing of it runs beside tests.
    if why not in ("", "0") and (
        _IN_A_TEST not in os.environ or _is_given(config, "--cideldill-why")
    ):
        import_module("pytest_cideldill.hooks.why").begin(config)
    elif agents.is_here() and _IN_A_TEST not in os.environ:
        hint = import_module("pytest_cideldill.hooks.hint").Hint()
        config.pluginmanager.register(hint, "cideldill-hint")


def _is_given(config: pytest.Config, flag: str) -> bool:
    """Whether a flag is on the command line itself."""
    return flag in [str(arg).partition("=")[0] for arg in config.invocation_params.args]


def _sealed(name: str) -> Any:
    """A module of ours that runs beside the tests, from the sealed room.

    Raises:
        pytest.UsageError: A library has replaced parts of the interpreter that the module needs.
    """
    from pytest_cideldill.interpreter.sealed import PatchedEarlier, load

    try:
        return load(f"pytest_cideldill.{name}")
    except PatchedEarlier as error:
        raise pytest.UsageError(str(error)) from error


def _chosen(config: pytest.Config) -> tuple[str, str]:
    """The folder in which to record this run, and for how many failures to ask why, as texts.

    Raises:
        pytest.UsageError: The table of options is malformed, or another option needs a record.
    """
    known = config.known_args_namespace
    try:
        directory, why = settings.texts_of(config, "record", "why")
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error
    if not directory and known.cideldill_trace:
        raise pytest.UsageError("--cideldill-trace needs --cideldill-record=DIR: it writes there")
    if not directory and known.cideldill_summary is not None:
        raise pytest.UsageError("--cideldill-summary needs --cideldill-record=DIR: it reads that")
    return directory, why
