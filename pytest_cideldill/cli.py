"""The console script `cideldill`: shows recorded runs to people. Needs no extra.

Exit codes: 0; 1 if there is no such record, run or test, or if a file can't be written; 2 for wrong
usage.
"""

from __future__ import annotations

import argparse
import gc
import importlib.metadata
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_cideldill.records.format import REPORT
from pytest_cideldill.reports import terminal
from pytest_cideldill.reports.digest import Story, read, runs_in
from pytest_cideldill.reports.html import write_report
from pytest_cideldill.reports.markdown import append
from pytest_cideldill.reports.words import printable

_DESCRIPTION = "Read runs that pytest --cideldill-record=DIR recorded."


def main(argv: Sequence[str] | None = None) -> int:
    """The console script; see `--help`."""
    chosen = _parser().parse_args(argv)
    gc.disable()  # records have no reference cycles, and the search takes a third of the time
    try:
        return int(chosen.run_it(chosen))
    except BrokenPipeError:  # the reader (`| head`) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        message = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    except ValueError as error:
        message = str(error)
    except (AttributeError, KeyError, TypeError) as error:  # no record of ours has such lines
        message = f"{chosen.record} is damaged: {error!r}"
    print(f"cideldill: {printable(message)}", file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("cideldill", description=_DESCRIPTION, allow_abbrev=False)
    version = importlib.metadata.version("pytest-cideldill")
    parser.add_argument("--version", action="version", version=f"pytest-cideldill {version}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    show = commands.add_parser("show", help="show the runs in the terminal")
    show.add_argument("--test", metavar="NODEID", help="show all about one test")
    show.add_argument("--hits", action="store_true", help="show each message of each tracepoint")
    show.set_defaults(run_it=_show)

    report = commands.add_parser("report", help="write a page for the browser")
    report.add_argument("-o", "--output", metavar="FILE", help="default: DIR/report.html")
    report.add_argument("--summary", metavar="FILE", help="append Markdown for a CI page instead")
    report.set_defaults(run_it=_report)

    for command in (show, report):
        command.add_argument("record", metavar="DIR", type=Path, help="a record, or a run in it")
        command.add_argument("--run", metavar="ID", default="", help="only this run")
    return parser


def _show(chosen: argparse.Namespace) -> int:
    style = terminal.Style.of(sys.stdout)
    stories = _readable(runs_in(chosen.record, chosen.run))
    if chosen.test is None:
        for story in stories:
            terminal.write(terminal.overview(story, style, hits=chosen.hits))
    else:
        terminal.write(
            terminal.one_test(_newest_with(chosen.test, list(stories)), chosen.test, style)
        )
    return 0


def _readable(folders: list[Path]) -> Iterator[Story]:
    """The runs that can be read; for each of the others a line goes to stderr.

    Raises:
        OSError, ValueError: No run can be read.
    """
    is_any = False
    for folder in folders:
        try:
            story = read(folder)
        except (OSError, ValueError) as error:
            if not is_any and folder == folders[-1]:
                raise
            print(f"cideldill: left out: {printable(error)}", file=sys.stderr)
        else:
            is_any = True
            yield story


def _newest_with(nodeid: str, stories: list[Story]) -> Story:
    """The newest run in which a test ran; if it ran in none, the newest run."""
    with_test = (story for story in reversed(stories) if story.has(nodeid))
    return next(with_test, stories[-1])


def _report(chosen: argparse.Namespace) -> int:
    folders = runs_in(chosen.record, chosen.run)
    if chosen.summary is not None:
        append(read(folders[-1]), str(chosen.record), Path(chosen.summary))
    if chosen.output is not None or chosen.summary is None:
        page = Path(chosen.output or chosen.record / REPORT)
        write_report(page, folders)
        print(page)
    return 0
