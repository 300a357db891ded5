"""The console script `cideldill`: questions about tests, and recorded runs. Needs no extra.

Exit codes: 0; 1 if a question has no answer, or a record can't be shown; 2 for wrong usage; 130
after Ctrl-C. Only what the chosen command needs is imported.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Sequence

from cideldill_mcp.commands import (
    diff,
    experiment,
    source,
    suspects,
    trace,
    tried,
    watch,
    why,
)
from cideldill_mcp.commands.question import QuestionCommand
from pytest_cideldill import cli

QUESTIONS: tuple[QuestionCommand, ...] = (
    why.COMMAND,
    trace.COMMAND,
    watch.COMMAND,
    diff.COMMAND,
    suspects.COMMAND,
    source.COMMAND,
    experiment.COMMAND,
)
"""The commands that ask a question, in the order of the help."""

INTERRUPTED = 130
"""The exit code of programs that Ctrl-C ended."""

_DESCRIPTION = """\
Ask about tests, and read runs that pytest --cideldill-record=DIR recorded. A question runs the
tests that it needs by itself; arguments of pytest stand behind --."""


def main(argv: Sequence[str] | None = None) -> int:
    """The console script; see `--help`."""
    gc.disable()  # imports and records make no cycles; collecting costs a tenth of the time
    arguments = list(sys.argv[1:] if argv is None else argv)
    # With REMAINDER, argparse would take options behind `--` as its own when a flag follows.
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    parser = cli.make_parser(_DESCRIPTION)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in QUESTIONS:
        command.add_to(commands)
    tried.add_to(commands)
    cli.add_commands(commands)
    is_question = arguments[:1] and arguments[0] in {command.name for command in QUESTIONS}
    if not is_question:
        chosen = parser.parse_args(arguments)
        return cli.checked(lambda: int(chosen.run_it(chosen)), chosen)
    # By itself, not as one of several: only so may options stand between its other arguments.
    chosen = commands.choices[arguments[0]].parse_intermixed_args(arguments[1:cut])
    try:
        return cli.checked(lambda: _ask(chosen, arguments[cut + 1 :]), chosen)
    except KeyboardInterrupt:
        return INTERRUPTED


def _ask(chosen: argparse.Namespace, for_pytest: list[str]) -> int:
    from cideldill_mcp.commands.asking import ask

    return ask(chosen, for_pytest)


if __name__ == "__main__":
    sys.exit(main())
