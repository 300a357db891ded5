"""Turns `pytest --cideldill-mcp ARGS` into the front end: the same process, another program.

It does so by exec on POSIX, elsewhere by a child with the same standard streams. Whatever prevents
it is a usage error here, before the client waits for an answer.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import shlex
import subprocess
import sys
from typing import Any, NoReturn

import pytest

from pytest_cideldill.config import options, settings

_MCP_OLDEST = (2, 1)
_MCP_NEXT_MAJOR = 3
"""The range of the extra `mcp` in pyproject.toml."""

# -P keeps the working directory off the path, where a `mcp` package of the user's may be; `serve`
# puts the entries of PYTHONPATH last. The front end inherits no warning filters.
_BOOT = "import sys; from cideldill_mcp.cli import serve; sys.exit(serve())"
_BOOT_FLAGS = ("-P", "-W", "ignore")

_OF_A_WORKER = ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_XDIST_TESTRUNUID")
"""Inherited if a test of an xdist run started this pytest, which is no worker itself."""

_TERMINAL_HELP = """\
pytest --cideldill-mcp is a server: an MCP client starts it and talks to it over stdin and stdout.

Add it to the configuration of your client, for example to .mcp.json:

  {{"mcpServers": {{"pytest": {{"command": {command}, "args": {args}}}}}}}

or, for Claude Code, run once:

  claude mcp add pytest -- {line}

For a demonstration:  cideldill-mcp demo
"""


def take_over(config: pytest.Config) -> None:
    """Become the front end. Returns only if pytest is to print its help or version.

    Raises:
        pytest.UsageError: A switch is not on the command line, another option excludes it, an
            option of ours is malformed, or the extra `mcp` is missing.
    """
    known = config.known_args_namespace
    if known.help or known.version:
        return
    switches = options.switches(known)
    _check_origin(config, switches)
    _check_beside(config, switches[0])
    handover = _handover(config)
    _check_extra(switches[0])
    if options.SWITCH in switches and sys.stdin is not None and sys.stdin.isatty():
        _explain([*handover["command"], *config.invocation_params.args])
    _become_front_end(handover)


def _check_origin(config: pytest.Config, switches: list[str]) -> None:
    given = list(config.invocation_params.args)
    elsewhere = [*config.getini("addopts"), *shlex.split(os.environ.get("PYTEST_ADDOPTS", ""))]
    for switch in switches:
        if switch not in _flags(given) or switch in _flags(elsewhere):
            raise pytest.UsageError(
                f"{switch} counts on the command line only, not in addopts, an ini file or the "
                "environment: every nested pytest would become a server"
            )
    if given != sys.argv[1:] or sys.orig_argv[len(sys.orig_argv) - len(given) :] != given:
        raise pytest.UsageError(
            f"{switches[0]} inside pytest.main() of a running program is not possible; "
            "start pytest from the command line"
        )


def _flags(arguments: list[str]) -> set[str]:
    return {argument.partition("=")[0] for argument in arguments}


def _check_beside(config: pytest.Config, switch: str) -> None:
    """Refuse options that the switch excludes.

    Those of `NOT_IN_RUNS` in addopts or the environment pass: each run leaves them out and says so.
    """
    explicit = options.given(options.NOT_IN_RUNS, _flags(list(config.invocation_params.args)))
    table = explicit | options.NO_TESTS
    reason = options.conflict(config.known_args_namespace, table, switch)
    if reason is not None:
        raise pytest.UsageError(reason)


def _handover(config: pytest.Config) -> dict[str, Any]:
    """The data that the front end needs; plain data."""
    given = list(config.invocation_params.args)
    own = sys.orig_argv[1 : len(sys.orig_argv) - len(given)]
    try:
        chosen = settings.read(config)
        _, arguments = settings.split(given)
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error
    return {
        "command": [sys.executable, *own],
        "arguments": arguments,
        "rootdir": str(config.rootpath),
        "inipath": str(config.inipath) if config.inipath else None,
        "settings": chosen.to_plain(),
    }


def _check_extra(switch: str) -> None:
    # Not by find_spec, which would find a `mcp` folder of the user's project.
    try:
        version = importlib.metadata.version("mcp")
    except importlib.metadata.PackageNotFoundError:
        version = None
    if version is None or not _MCP_OLDEST <= _numbers(version) < (_MCP_NEXT_MAJOR,):
        found = f"mcp {version} is installed" if version else "mcp is not installed"
        raise pytest.UsageError(
            f"{switch} needs the extra 'mcp' ({found}): pip install 'pytest-cideldill[mcp]'"
        )


def _numbers(version: str) -> tuple[int, ...]:
    """The major and the minor number of a version; the rest does not matter here."""
    return tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())


def _explain(words: list[str]) -> NoReturn:
    sys.stderr.write(
        _TERMINAL_HELP.format(
            command=json.dumps(words[0]), args=json.dumps(words[1:]), line=shlex.join(words)
        )
    )
    sys.stderr.flush()
    # Not 0: a build that has a terminal and no client must not look as if tests had passed.
    raise SystemExit(int(pytest.ExitCode.USAGE_ERROR))


def _become_front_end(handover: dict[str, Any]) -> NoReturn:
    os.environ.pop("PYTEST_VERSION", None)  # set by pytest for its own lifetime only
    for name in _OF_A_WORKER:
        os.environ.pop(name, None)
    # If this interpreter ignores PYTHONHOME or the user's site-packages, that has a reason.
    own_flags = [("-E", sys.flags.ignore_environment), ("-s", sys.flags.no_user_site)]
    flags = [*_BOOT_FLAGS, *(flag for flag, is_set in own_flags if is_set)]
    command = [sys.executable, *flags, "-c", _BOOT]
    # Not as an argument: every user of the machine can read those, and settings say what secrets
    # look like.
    os.environ[settings.HANDOVER] = json.dumps(handover)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    if os.name == "posix":
        os.execv(command[0], command)
    raise SystemExit(subprocess.call(command))
