"""From `pytest --cideldill-mcp ARGS` to the front end: the same process, another program.

On POSIX by exec, elsewhere by a child with the same standard streams. Everything that speaks
against it is a usage error here, before the client waits for an answer.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import shlex
import subprocess
import sys
from typing import Any
from typing import NoReturn

import pytest

from pytest_cideldill import settings

_MCP_MAJOR = "2"

_CONFLICTS = {
    "usepdb": "--pdb reads the terminal",
    "trace": "--trace reads the terminal",
    "looponfail": "-f/--looponfail never ends",
    "collectonly": "use the tool test_list",
    "markers": "it runs no tests",
    "showfixtures": "it runs no tests",
    "show_fixtures_per_test": "it runs no tests",
    "cacheshow": "it runs no tests",
}
"""Attributes of pytest's options that can't stand beside the switch, and why."""

# The front end must not import a `mcp` package of the user's: -P keeps the working directory off
# its path, and what PYTHONPATH names goes to the end. It inherits no warning filters (-W ignore).
_BOOT = (
    "import os, sys; "
    "named = os.environ.get('PYTHONPATH', '').split(os.pathsep); "
    "first = [os.path.abspath(p) for p in named if p]; "
    "sys.path[:] = [p for p in sys.path if p not in first] + first; "
    "from cideldill_mcp.cli import serve; sys.exit(serve(sys.argv[1]))"
)

_TERMINAL_HELP = """\
pytest --cideldill-mcp is a server: an MCP client starts it and talks to it over stdin and stdout.

Tell your client how, for instance in .mcp.json:

  {{"mcpServers": {{"pytest": {{"command": {command}, "args": {args}}}}}}}

or, for Claude Code, once:

  claude mcp add pytest -- {line}

To see it work:  cideldill-mcp demo
"""


def take_over(config: pytest.Config) -> None:
    """Become the front end. Returns only when pytest is asked for its help or version.

    Raises:
        pytest.UsageError: The switch is not on the command line, something stands beside it that
            can't, an option of ours is malformed, or the extra `mcp` is missing.
    """
    known = config.known_args_namespace
    if known.help or known.version:
        return
    _check_origin(config)
    _check_conflicts(known)
    handover = _handover(config)
    _check_extra()
    if sys.stdin is not None and sys.stdin.isatty():
        _explain(handover)
    _become_front_end(handover)


def _check_origin(config: pytest.Config) -> None:
    given = list(config.invocation_params.args)
    if settings.SWITCH not in given or "PYTEST_XDIST_WORKER" in os.environ:
        raise pytest.UsageError(
            f"{settings.SWITCH} counts on the command line only, not in addopts, an ini file or "
            "the environment: every nested pytest would become a server"
        )
    if given != sys.argv[1:] or sys.orig_argv[len(sys.orig_argv) - len(given) :] != given:
        raise pytest.UsageError(
            f"{settings.SWITCH} inside pytest.main() of a running program is not possible; "
            "start pytest from the command line"
        )


def _check_conflicts(known: Any) -> None:
    for name, why in _CONFLICTS.items():
        if getattr(known, name, False):
            option = {"usepdb": "--pdb", "looponfail": "-f"}.get(
                name, "--" + name.replace("_", "-")
            )
            raise pytest.UsageError(f"{option} can't be used with {settings.SWITCH}: {why}")


def _handover(config: pytest.Config) -> dict[str, Any]:
    """What the front end needs to know; plain data."""
    given = list(config.invocation_params.args)
    own = sys.orig_argv[1 : len(sys.orig_argv) - len(given)]
    try:
        chosen = settings.read(config)
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error
    return {
        "command": [sys.executable, *own],
        "arguments": settings.split(given)[1],
        "rootdir": str(config.rootpath),
        "inipath": str(config.inipath) if config.inipath else None,
        "settings": chosen.to_plain(),
    }


def _check_extra() -> None:
    # Not find_spec: it would find a `mcp` folder of the user's project.
    try:
        version = importlib.metadata.version("mcp")
    except importlib.metadata.PackageNotFoundError:
        version = None
    if version is None or version.partition(".")[0] != _MCP_MAJOR:
        found = f"mcp {version} is installed" if version else "mcp is not installed"
        raise pytest.UsageError(
            f"{settings.SWITCH} needs the extra 'mcp' ({found}): "
            "pip install 'pytest-cideldill[mcp]'"
        )


def _explain(handover: dict[str, Any]) -> NoReturn:
    words: list[str] = [*handover["command"], settings.SWITCH, *handover["arguments"]]
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
    command = [sys.executable, "-P", "-W", "ignore", "-c", _BOOT, json.dumps(handover)]
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    if os.name == "posix":
        os.execv(command[0], command)
    raise SystemExit(subprocess.call(command))
