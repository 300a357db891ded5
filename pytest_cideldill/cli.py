"""`cideldill show` and `cideldill report`: recorded runs for people. Needs no extra.

The console script `cideldill` has them beside other commands, and `python -m pytest_cideldill` has
nothing else. Exit codes: 0; 1 if there is no such record, run or test, or if a file can't be
written; 2 for wrong usage. What reads records is imported when one is read.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_cideldill.reports.digest import Story

_DESCRIPTION = "Read runs that pytest --cideldill-record=DIR recorded."


def main(argv: Sequence[str] | None = None) -> int:
    """The commands alone; see `--help`."""
    gc.disable()  # records have no reference cycles, and the search takes a third of the time
    parser = make_parser(_DESCRIPTION)
    add_commands(parser.add_subparsers(required=True, metavar="COMMAND"))
    chosen = parser.parse_args(argv)
    return checked(lambda: int(chosen.run_it(chosen)), chosen)


def checked(work: Callable[[], int], chosen: argparse.Namespace) -> int:
    """The exit code of a command; what can go wrong outside of it becomes a line on stderr."""
    try:
        return work()
    except BrokenPipeError:  # the reader (`| head`) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        message = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    except ValueError as error:
        message = str(error)
    except (AttributeError, KeyError, TypeError) as error:
        if not hasattr(chosen, "record"):
            raise
        message = f"{chosen.record} is damaged: {error!r}"  # no record of ours has such lines
    complain(message)
    return 1


def complain(message: object) -> None:
    """A line on stderr."""
    from pytest_cideldill.reports.words import printable

    print(f"cideldill: {printable(message)}", file=sys.stderr)


def make_parser(description: str) -> argparse.ArgumentParser:
    """The parser of `cideldill`, without its commands."""
    parser = argparse.ArgumentParser("cideldill", description=description, allow_abbrev=False)
    parser.add_argument(
        "--version", action=_Version, nargs=0, help="show program's version number and exit"
    )
    return parser


class _Version(argparse.Action):
    """Look the version up when it is asked for: that takes longer than all other arguments."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        import importlib.metadata

        print(f"pytest-cideldill {importlib.metadata.version('pytest-cideldill')}")
        parser.exit()


def add_commands(commands: Any) -> None:
    """Add both commands to the subparsers of a parser."""
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


def _show(chosen: argparse.Namespace) -> int:
    from pytest_cideldill.reports import terminal
    from pytest_cideldill.reports.digest import runs_in

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
    from pytest_cideldill.reports.digest import read

    is_any = False
    for folder in folders:
        try:
            story = read(folder)
        except (OSError, ValueError) as error:
            if not is_any and folder == folders[-1]:
                raise
            complain(f"left out: {error}")
        else:
            is_any = True
            yield story


def _newest_with(nodeid: str, stories: list[Story]) -> Story:
    """The newest run in which a test ran; if it ran in none, the newest run."""
    with_test = (story for story in reversed(stories) if story.has(nodeid))
    return next(with_test, stories[-1])


def _report(chosen: argparse.Namespace) -> int:
    from pytest_cideldill.records.format import REPORT
    from pytest_cideldill.reports.digest import read, runs_in
    from pytest_cideldill.reports.html import write_report
    from pytest_cideldill.reports.markdown import append

    folders = runs_in(chosen.record, chosen.run)
    if chosen.summary is not None:
        append(read(folders[-1]), str(chosen.record), Path(chosen.summary))
    if chosen.output is not None or chosen.summary is None:
        page = Path(chosen.output or chosen.record / REPORT)
        write_report(page, folders)
        print(page)
    return 0
