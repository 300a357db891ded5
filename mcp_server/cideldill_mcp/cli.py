"""The entry points of the front end: the hand-over from pytest, and the script `cideldill-mcp`.

The library `mcp` is imported only after the arguments were checked.
"""

from __future__ import annotations

import argparse
import gc
import importlib.metadata
import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from cideldill_mcp.processes.addresses import announced
from cideldill_mcp.processes.launch import Recipe
from cideldill_mcp.sdk import prepare_import
from pytest_cideldill.config.settings import HANDOVER, Settings, split
from pytest_cideldill.records.reader import NoRecord, run_folders
from pytest_cideldill.sourcecode.tracespec import InvalidSpec, parse_spec

_DESCRIPTION = "Serve a debugger for pytest tests over MCP on stdin and stdout, or over HTTP."

_EXTRA = ("mcp", "mcp_types", "anyio")
"""The packages of the extra `mcp`."""

_TERMINAL = """\
cideldill-mcp is a server: an MCP client starts it and talks to it over stdin and stdout.
To see it work:  cideldill-mcp demo
"""


def serve() -> int:
    """Run the front end in the process of `pytest --cideldill-mcp`, after the hand-over.

    An environment variable has JSON text with `command`, `arguments`, `rootdir`, `inipath` and
    `settings`; child processes don't inherit it.

    Returns:
        The exit status of the process.
    """
    _demote_user_paths()
    plain = json.loads(os.environ.pop(HANDOVER))
    settings = Settings.from_plain(plain["settings"])
    where = (plain["rootdir"], plain["inipath"], settings.user_paths)
    return _serve(Recipe(plain["command"], plain["arguments"], *where), settings, _usage_error)


def main(argv: Sequence[str] | None = None) -> int:
    """The console script; `--help` describes its arguments."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    # With REMAINDER, argparse would take options behind `--` as its own when a flag follows.
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser("cideldill-mcp", description=_DESCRIPTION, allow_abbrev=False)
    parser.add_argument(
        "action",
        nargs="?",
        choices=["demo", "address"],
        help="demo: show a debugging session; address: show where your running servers serve HTTP, "
        "and their tokens",
    )
    parser.add_argument(
        "--python",
        metavar="PATH",
        help="interpreter of the tests' environment, with pytest-cideldill installed; put "
        "pytest's arguments behind --",
    )
    parser.add_argument(
        "--open",
        metavar="DIR",
        action="append",
        default=[],
        help="serve the runs that pytest --cideldill-record=DIR recorded there; no tests are run "
        "(repeatable)",
    )
    version = importlib.metadata.version("pytest-cideldill")
    parser.add_argument("--version", action="version", version=f"pytest-cideldill {version}")
    chosen = parser.parse_args(arguments[:cut])
    if chosen.action == "address":
        return _print_addresses()
    _demote_user_paths()
    try:
        if chosen.action == "demo":
            from cideldill_mcp.demo import debug, find_shop

            return debug(find_shop())
        opened = [f"--cideldill-open={folder}" for folder in chosen.open]
        return _serve_for(chosen.python or sys.executable, [*opened, *arguments[cut + 1 :]], parser)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        parser.error("this needs the extra 'mcp': pip install 'pytest-cideldill[mcp]'")


def _print_addresses() -> int:
    lines = announced()
    for line in lines:
        print(line)
    if lines:
        return 0
    sys.stderr.write(
        "cideldill-mcp: no server of yours serves HTTP whose folder is in "
        f"{tempfile.gettempdir()}; start one with --cideldill-http, or set TMPDIR as it has it\n"
    )
    return 1


def _serve_for(python: str, arguments: list[str], parser: argparse.ArgumentParser) -> int:
    try:
        settings, rest = split(arguments)
    except ValueError as error:
        parser.error(str(error))
    if not settings.http:
        settings = replace(settings, stdio=True)
    if settings.stdio and sys.stdin is not None and sys.stdin.isatty():
        sys.stderr.write(_TERMINAL)
        return 2
    return _serve(Recipe([python, "-m", "pytest"], rest), settings, parser.error)


def _usage_error(sentence: str) -> NoReturn:
    """End with a usage error in pytest's form: this process was pytest."""
    sys.stderr.write(f"ERROR: {sentence}\n")
    raise SystemExit(4)


def _demote_user_paths() -> None:
    """Move the entries of PYTHONPATH and the working directory behind the installed packages.

    A `mcp` package or module of the user's project must not be taken for the library. An empty
    entry of PYTHONPATH means the working directory.
    """
    named = os.environ.get("PYTHONPATH", "")
    users = [os.path.abspath(path) for path in named.split(os.pathsep)] if named else []
    last = [path for path in sys.path if os.path.abspath(path) in {*users, os.getcwd()}]
    sys.path[:] = [path for path in sys.path if path not in last] + last


def _serve(recipe: Recipe, settings: Settings, refuse: Callable[[str], NoReturn]) -> int:
    if (reason := _mistake(settings)) is not None:
        refuse(reason)
    gc.disable()  # the import allocates for good; collecting costs a tenth of its time
    prepare_import()
    from cideldill_mcp.app import run_server
    from cideldill_mcp.processes.private_directory import NoScratch
    from cideldill_mcp.transports.listening import CannotListen

    gc.freeze()
    gc.enable()
    try:
        return run_server(recipe, settings)
    except (CannotListen, NoScratch) as error:
        refuse(str(error))


def _mistake(settings: Settings) -> str | None:
    """The first mistake in records and tracepoints, which the table of options can't check."""
    try:
        for folder in settings.open:
            run_folders(Path(folder))
    except NoRecord as error:
        return str(error)
    for text in settings.trace:
        try:
            if parse_spec(text).file is None:
                return f"--cideldill-trace: {text!r}: calls are traced without a client only"
        except InvalidSpec as error:
            return f"--cideldill-trace: {text!r}: {error}"
    return None
