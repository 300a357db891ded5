"""Records a run on disk: made here, written by each process, put together when it is over.

The main process of a run owns its folder. What it can't write it says in the terminal summary; the
tests go on as without us.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from pytest_cideldill.config.settings import Settings
from pytest_cideldill.hooks.guest import clean_up, say
from pytest_cideldill.interpreter import clock
from pytest_cideldill.interpreter.borders import passes, text_of
from pytest_cideldill.interpreter.descriptors import more_room, wait_for_room
from pytest_cideldill.link.handshake import Invitation
from pytest_cideldill.link.record_file import FileOutlet
from pytest_cideldill.objects.object_file import LOST
from pytest_cideldill.protocol import Hello
from pytest_cideldill.records.answers import read_answers, write_answers
from pytest_cideldill.records.format import REPORT, part
from pytest_cideldill.records.hit_blocks import Stretch
from pytest_cideldill.records.manifest import summarize, write_manifest, write_summaries
from pytest_cideldill.records.merge import merge_kept, merge_run, run_folder
from pytest_cideldill.records.reader import NoRecord, refuse_newer
from pytest_cideldill.records.writer import PartWriter
from pytest_cideldill.redaction.redactor import Redactor

if TYPE_CHECKING:
    from pytest_cideldill.hooks.why import Why
    from pytest_cideldill.reports.digest import Story

_T = TypeVar("_T")

_IS_RECORDED = "CIDELDILL_RECORDED"
"""Set while a run is recorded, so that pytest runs which its tests start are not.

They would inherit the option by PYTEST_ADDOPTS, or by a project's ini file.
"""

_TAG_KEY_BYTES = 32

_ROOM_S = 2.0
"""How long it is waited for descriptors when the run is over."""

_KEPT = 500
"""Of hits and calls, from either end, for the report: it must cost next to nothing here."""


def begin(config: pytest.Config, directory: str, variable: str) -> None:
    """Record the run that is about to begin.

    Args:
        directory: The record, made if need be.
        variable: Environment variable through which workers find the record.

    Raises:
        pytest.UsageError: The folder can't be made, or what is declared is malformed.
    """
    given = [arg.partition("=")[0] for arg in config.invocation_params.args]
    record = config.invocation_params.dir / directory
    if "--cideldill-record" not in given and _is_inside_of_another(record):
        return
    from pytest_cideldill.hooks.start import switch_on

    run_id = f"c{secrets.token_hex(3)}"
    folder = run_folder(record, run_id, clock.wall())
    key = secrets.token_hex(_TAG_KEY_BYTES)
    try:
        refuse_newer(record)
        switch_on(config, Invitation(None, key, run_id, None, record=str(folder)), variable)
    except OSError as error:
        raise pytest.UsageError(f"--cideldill-record: {directory}: {error.strerror}") from error
    except NoRecord as error:
        raise pytest.UsageError(f"--cideldill-record: {error}, or use another folder") from error
    except ValueError as error:  # an option is malformed
        raise pytest.UsageError(str(error)) from error
    except pytest.UsageError:
        raise
    except Exception as error:  # a border: whatever is wrong with us, the tests run
        if passes(error):
            raise
        say(f"pytest-cideldill: the run is not recorded: {text_of(error)}")


def mark_recorded(config: pytest.Config, run_id: str) -> None:
    """Until its end, pytest runs that the tests of a run start are not recorded."""
    os.environ[_IS_RECORDED] = run_id
    clean_up(config, "the end of the record", lambda: os.environ.pop(_IS_RECORDED, None))


def _is_inside_of_another(record: Path) -> bool:
    """Whether a test of a run that is recorded has started this one, in its process or below it.

    Tests start processes without the environment; what is written shows in `/proc`, where there is
    one.
    """
    if _IS_RECORDED in os.environ:
        return True
    folder, pid = os.path.join(os.path.realpath(record), ""), os.getpid()
    while pid > 1:
        if _writes_into(folder, pid):
            return True
        pid = _parent_of(pid)
    return False


def _writes_into(folder: str, pid: int) -> bool:
    files = f"/proc/{pid}/fd"
    try:
        return any(_leads_to(f"{files}/{each}").startswith(folder) for each in os.listdir(files))
    except OSError:  # somebody else's
        return False


def _leads_to(link: str) -> str:
    try:
        return os.readlink(link)
    except OSError:  # closed meanwhile, as the one that lists the others
        return ""


def _parent_of(pid: int) -> int:
    """0: it is not known."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[1])  # a name may have spaces


def part_of_record(
    record: str, hello: Hello, commands: Iterable[Any], redactor: Redactor, settings: Settings
) -> FileOutlet:
    """The outlet for this process's events, which begin with who it is and what is asked of it.

    Raises:
        OSError: The file can't be made.
    """
    Path(record).mkdir(parents=True, exist_ok=True)
    if hello.worker == "main":
        write_manifest(Path(record).parent)
    count = os.environ.get("PYTEST_XDIST_WORKER_COUNT")
    processes = 1 if hello.worker == "main" or count is None else int(count)
    writer = PartWriter(
        part(Path(record), hello.worker, hello.pid),
        hello.worker,
        settings.limits.max_log_bytes // processes,
        redactor,
    )
    outlet = FileOutlet(writer)
    argv = redactor.redact_arguments(hello.argv)
    greeting = replace(hello, argv=argv, position_file=None, stacks_file=None)
    outlet.encode(clock.wall(), greeting)
    for command in commands:
        outlet.note(command)
    outlet.send()
    return outlet


def finish(
    config: pytest.Config, record: str, outlet: FileOutlet, settings: Settings, why: Why | None
) -> None:
    """Put together what was written, when all processes of the run are gone.

    Args:
        outlet: Of this process, closed.
        settings: Whether there is to be a summary, and where.
        why: Asks why tests failed; None: that is not wanted.
    """
    folder, wrong = Path(record), [] if outlet.error is None else [outlet.error]
    with more_room():  # tests may leave no number of a descriptor free
        wait_for_room(_ROOM_S)
        put = _part(wrong, partial(_put_together, folder, outlet, wrong))
    story, said = put or (None, [])
    answers = [] if why is None else _part(wrong, why.ask)
    with more_room():
        if answers:
            _part(wrong, partial(write_answers, folder, answers))
        if story is not None:
            shown_to_people = partial(_written_for_people, config, story, settings.summary)
            said += _part(wrong, shown_to_people) or []
    shown = f"recorded in {folder}: {'; '.join(said) or 'nothing could be put together'}"
    shown += f"; it is not complete: {'; '.join(dict.fromkeys(wrong))}" if wrong else ""
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and config.get_verbosity() >= -1:
        reporter.write_line(f"cideldill: {shown}")


def _put_together(
    folder: Path, outlet: FileOutlet, wrong: list[str]
) -> tuple[Story | None, list[str]]:
    """The digest of the run, and what is said of it; `wrong` gets what failed."""
    from pytest_cideldill.reports.digest import Story

    story, stretches = Story(folder, _KEPT), list[Stretch]()
    if _part(wrong, partial(merge_run, folder)):
        stretches = outlet.stretches
    apart = _part(wrong, partial(merge_kept, folder))
    summary = _part(wrong, partial(write_summaries, folder, story, stretches))
    more = [apart] if apart else []
    if summary is None:
        return None, [_unwritten(folder), *more]
    story.end(summary)
    lost = [note.text for note in story.notes if note.type == "warning" and LOST in note.text]
    wrong.extend(each for each in lost if each[:1].isdigit())
    return story, [story.summary.sentence, *more]


def _part(wrong: list[str], work: Callable[[], _T]) -> _T | None:
    """A border: the run is over, and whatever fails here must not change how pytest ends."""
    try:
        return work()
    except Exception as error:
        if passes(error):
            raise
        wrong.append(getattr(error, "strerror", None) or text_of(error))
        return None


def _unwritten(folder: Path) -> str:
    """The summary of a run, where it could not be written."""
    wrong: list[str] = []
    summary = _part(wrong, partial(summarize, folder))
    return wrong[0] if summary is None else summary.sentence


def _written_for_people(config: pytest.Config, story: Story, summary: str) -> list[str]:
    """Write the report, and the summary if there is to be one; what went wrong, in words."""
    story.answers = read_answers(story.folder)
    record, failed = story.folder.parent, []
    invoked = config.invocation_params.dir

    def report() -> None:
        from pytest_cideldill.reports.digest import runs_in
        from pytest_cideldill.reports.html import write_report

        write_report(record / REPORT, runs_in(record), story)

    def summarized() -> None:
        from pytest_cideldill.reports.markdown import append

        where = record.relative_to(invoked) if record.is_relative_to(invoked) else record
        append(story, str(where), invoked / summary)

    for name, write in [(REPORT, report), (summary, summarized)]:
        wrong: list[str] = []
        if name:
            _part(wrong, write)
        failed += [f"no {name}: {why}" for why in wrong]
    return failed
