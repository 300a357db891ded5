"""Asks the question of a command: starts what it needs, prints the answer, cleans up."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cideldill_mcp.commands import rootdir_and_venv
from cideldill_mcp.commands.question import Ask
from cideldill_mcp.processes.launch import HASH_SEED, Recipe
from cideldill_mcp.processes.private_directory import NoScratch, make_folder
from cideldill_mcp.processes.reaper import Reaper
from cideldill_mcp.questions.asking.asker import Asker, Bounds
from cideldill_mcp.questions.asking.registry import Home, Questions
from cideldill_mcp.questions.asking.side_process import INTERRUPT_S, KILLED_S, TERMINATE_S
from pytest_cideldill import cli
from pytest_cideldill.config.settings import Settings, read_table, split
from pytest_cideldill.errors import Refusal

if TYPE_CHECKING:
    from pytest_cideldill.redaction.redactor import Redactor

PROGRESS_AFTER_S = 2.0
"""Seconds without an answer, after which a terminal shows what happens."""

_OF_OTHERS = ("PYTEST_VERSION", "PYTEST_CURRENT_TEST", "PYTEST_XDIST_")
"""Variables that a pytest around this command has set, and that its tests must not see."""

_WORKERS = ("-n", "--numprocesses")
"""Options that ask for workers of xdist."""

_RED, _PLAIN = "\x1b[31m", "\x1b[0m"


def ask(chosen: argparse.Namespace, for_pytest: list[str]) -> int:
    """Ask, and print the answer.

    Returns:
        The exit code: 0 if there is an answer, else 1.

    Raises:
        SystemExit: Wrong usage.
    """
    parser: argparse.ArgumentParser = chosen.parser
    try:
        question = chosen.command.question(chosen)
        bounds = _bounds(chosen)
        settings, arguments = split(for_pytest)
    except Refusal as refusal:
        parser.error(refusal.message)
    except ValueError as error:
        parser.error(str(error))
    for name in [name for name in os.environ if name.startswith(_OF_OTHERS)]:
        del os.environ[name]
    try:
        reply = asyncio.run(_answer(chosen, question, bounds, arguments, settings))
    except NoScratch as error:
        cli.complain(error)
        return 1
    except Refusal as refusal:
        if chosen.json:
            _print(json.dumps(refusal.to_plain(), ensure_ascii=False))
        cli.complain(refusal.message)
        return 1
    _print(json.dumps(reply, ensure_ascii=False) if chosen.json else _styled(reply["text"]))
    return 0


def _bounds(chosen: argparse.Namespace) -> Bounds:
    given = {"max_chars": chosen.max_chars, "timeout_s": chosen.timeout}
    bounds = Bounds(**{name: value for name, value in given.items() if value is not None})
    bounds.check()
    return bounds


async def _answer(
    chosen: argparse.Namespace,
    question: Ask,
    bounds: Bounds,
    arguments: list[str],
    settings: Settings,
) -> dict[str, Any]:
    """The reply; Ctrl-C cancels this, and its processes are ended all the same."""
    root = rootdir_and_venv.rootdir(os.getcwd(), arguments)
    python = chosen.python or rootdir_and_venv.interpreter(os.getcwd(), root)
    recipe = Recipe([python, "-m", "pytest"], arguments, root, None, settings.user_paths)
    directory = make_folder("cideldill-")
    reaper = Reaper(directory)
    try:
        questions = Questions(_home(recipe, settings, directory, reaper))
        progress = _Progress()
        try:
            return await question(Asker(questions, progress.report), bounds)
        finally:
            progress.clear()
            await questions.close(INTERRUPT_S + TERMINATE_S + KILLED_S)
    finally:
        reaper.close()


def _home(recipe: Recipe, settings: Settings, directory: str, reaper: Reaper) -> Home:
    key = os.urandom(32)
    seed = None if os.environ.get(HASH_SEED) else str(int.from_bytes(os.urandom(4)))
    return Home(
        lambda: recipe,
        directory,
        reaper,
        key.hex(),
        settings.no_redact,
        seed,
        lambda: _redactor(recipe.rootdir or os.getcwd(), settings, key),
        workers=any(argument.startswith(_WORKERS) for argument in recipe.arguments),
    )


def _redactor(root: str, settings: Settings, key: bytes) -> Redactor:
    """By the settings on the command line and in TOML; pytest's ini file is read by pytest."""
    from pytest_cideldill.redaction.redactor import Redactor

    table: dict[str, Any] = {}
    try:
        _, table = read_table(Path(root))
    except ValueError:
        pass  # pytest reports it
    return Redactor(
        [*settings.redact_names, *table.get("redact_names", ())],
        [*settings.redact_patterns, *table.get("redact_patterns", ())],
        shown_names=[*settings.show_names, *table.get("show_names", ())],
        key=key,
        enabled=not settings.no_redact,
    )


class _Progress:
    """One line on a terminal, while the answer takes long."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._is_shown = False

    async def report(self, _seconds: float, _total: float | None, text: str) -> None:
        """Show what happens."""
        if time.monotonic() - self._began >= PROGRESS_AFTER_S and sys.stderr.isatty():
            from pytest_cideldill.reports.words import one_line

            columns = os.get_terminal_size(sys.stderr.fileno()).columns or 80
            sys.stderr.write(f"\r\x1b[K{one_line(text)[: max(20, columns - 1)]}")
            sys.stderr.flush()
            self._is_shown = True

    def clear(self) -> None:
        """Take the line away."""
        if self._is_shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _styled(text: str) -> str:
    """The text; on a terminal nothing in it is a command, and failures are red."""
    if not sys.stdout.isatty():
        return text
    from pytest_cideldill.reports.words import printable

    text = printable(text)
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return "\n".join(f"{_RED}{line}{_PLAIN}" if "✗" in line else line for line in text.split("\n"))


def _print(text: str) -> None:
    """Print it in an encoding that may not know every character."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    sys.stdout.flush()  # its reader may be gone, which is noticed here
