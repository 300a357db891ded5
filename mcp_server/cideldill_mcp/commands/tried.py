"""`cideldill tried`: what was tried in a project, or in a recorded session."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from cideldill_mcp.commands import rootdir_and_venv
from pytest_cideldill import cli

_MOST = 50


def add_to(commands: Any) -> None:
    """Add the command to the subparsers of a parser."""
    about = "show what was tried: experiments and forced changes, with verdicts, newest first"
    parser = commands.add_parser("tried", help=about, description=f"{about[0].upper()}{about[1:]}.")
    parser.add_argument(
        "record",
        metavar="DIR",
        nargs="?",
        type=Path,
        help="a record of a debugging session (default: all of this project)",
    )
    parser.add_argument("-n", type=int, default=_MOST, metavar="N", help=f"default: {_MOST}")
    parser.set_defaults(run_it=_show)


def _show(chosen: argparse.Namespace) -> int:
    from cideldill_mcp.questions.asking.ledger import OF_RECORD, file_of_project, read

    if chosen.record is not None:
        file = chosen.record / OF_RECORD
        if not chosen.record.is_dir():
            raise ValueError(f"there is no record {chosen.record}")
    else:
        file = file_of_project(rootdir_and_venv.rootdir(os.getcwd(), []))
    entries = read(file) if file.exists() else []
    if not entries:
        cli.complain(f"nothing was tried {'in that session' if chosen.record else 'here'} yet")
        return 1
    for entry in reversed(entries[-max(chosen.n, 1) :]):
        print(entry.line)
    return 0
