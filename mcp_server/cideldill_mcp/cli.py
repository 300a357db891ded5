"""The two ways to become the front end: handed over by pytest, or as `cideldill-mcp`.

Nothing of `mcp` is imported before the arguments are known to be good.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import sys
from collections.abc import Sequence

from cideldill_mcp.launch import Recipe
from pytest_cideldill.settings import Settings
from pytest_cideldill.settings import split

_DESCRIPTION = "Serve a debugger for pytest tests over MCP on stdin and stdout."

_TERMINAL = """\
cideldill-mcp is a server: an MCP client starts it and talks to it over stdin and stdout.
To see it work:  cideldill-mcp demo
"""


def serve(handover: str) -> int:
    """Run the front end that `pytest --cideldill-mcp` became.

    Args:
        handover: JSON text with `command`, `arguments`, `rootdir`, `inipath` and `settings`.

    Returns:
        The exit status of the process.
    """
    plain = json.loads(handover)
    recipe = Recipe(plain["command"], plain["arguments"], plain["rootdir"], plain["inipath"])
    return _serve(recipe, Settings.from_plain(plain["settings"]))


def main(argv: Sequence[str] | None = None) -> int:
    """The console script; see `--help`."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    # argparse would take options behind `--` for its own when a flag follows REMAINDER.
    own, for_pytest = _divide(arguments)
    parser = argparse.ArgumentParser("cideldill-mcp", description=_DESCRIPTION, allow_abbrev=False)
    parser.add_argument(
        "action", nargs="?", choices=["demo"], help="demo: show a debugging session"
    )
    parser.add_argument(
        "--python",
        metavar="PATH",
        help="interpreter of the tests' environment, with pytest-cideldill installed; put "
        "pytest's arguments behind --",
    )
    version = importlib.metadata.version("pytest-cideldill")
    parser.add_argument("--version", action="version", version=f"pytest-cideldill {version}")
    chosen = parser.parse_args(own)
    if chosen.action == "demo":
        from cideldill_mcp.demo import demo

        return demo()
    try:
        settings, rest = split(for_pytest)
    except ValueError as error:
        parser.error(str(error))
    if sys.stdin is not None and sys.stdin.isatty():
        sys.stderr.write(_TERMINAL)
        return 2
    return _serve(Recipe([chosen.python or sys.executable, "-m", "pytest"], rest), settings)


def _divide(arguments: list[str]) -> tuple[list[str], list[str]]:
    if "--" not in arguments:
        return arguments, []
    cut = arguments.index("--")
    return arguments[:cut], arguments[cut + 1 :]


def _serve(recipe: Recipe, settings: Settings) -> int:
    from cideldill_mcp.app import run_server

    return run_server(recipe, settings)
