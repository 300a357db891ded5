"""Records a run on disk: made here, written by each process, put together when it is over.

The main process of a run owns its folder. What it can't write it says in the terminal summary; the
tests go on as without us.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Any

import pytest

from pytest_cideldill import clock
from pytest_cideldill.outlets import FileOutlet
from pytest_cideldill.record.blocks import Stretch
from pytest_cideldill.record.format import REPORT
from pytest_cideldill.record.format import part
from pytest_cideldill.record.manifest import summarize
from pytest_cideldill.record.manifest import write_manifest
from pytest_cideldill.record.manifest import write_summaries
from pytest_cideldill.record.merging import merge_run
from pytest_cideldill.record.merging import run_folder
from pytest_cideldill.record.reader import NoRecord
from pytest_cideldill.record.reader import refuse_newer
from pytest_cideldill.record.writer import PartWriter
from pytest_cideldill.redact import Redactor
from pytest_cideldill.run.invitation import Invitation
from pytest_cideldill.settings import Settings
from pytest_cideldill.wire import Hello

if TYPE_CHECKING:
    from pytest_cideldill.record.story import Story

_IS_RECORDED = "CIDELDILL_RECORDED"
"""Set while a run is recorded, so that pytest runs which its tests start are not.

They would inherit the option by PYTEST_ADDOPTS, or by a project's ini file.
"""

_TAG_KEY_BYTES = 32

_KEPT = 500
"""Of hits and calls, from either end, for the report: it must cost next to nothing here."""


def begin(config: pytest.Config, directory: str, variable: str) -> None:
    """Record the run that is about to begin.

    Args:
        config: Of the run.
        directory: The record, made if need be.
        variable: Environment variable through which workers find the record.

    Raises:
        pytest.UsageError: The folder can't be made, or what is declared is malformed.
    """
    given = [each.partition("=")[0] for each in config.invocation_params.args]
    if _IS_RECORDED in os.environ and "--cideldill-record" not in given:
        return
    from pytest_cideldill.run.child import switch_on

    run_id = f"c{secrets.token_hex(3)}"
    record = config.invocation_params.dir / directory
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
    os.environ[_IS_RECORDED] = run_id
    config.add_cleanup(_forget)


def _forget() -> None:
    os.environ.pop(_IS_RECORDED, None)


def part_of_record(
    record: str,
    hello: Hello,
    commands: Iterable[Any],
    redactor: Redactor,
    settings: Settings,
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
    argv = _without_secrets(hello.argv, redactor)
    greeting = replace(hello, argv=argv, position_file=None, stacks_file=None)
    outlet.encode(clock.wall(), greeting)
    for command in commands:
        outlet.note(command)
    outlet.send()
    return outlet


def _without_secrets(argv: list[str], redactor: Redactor) -> list[str]:
    """Also those that stand behind their name: `--token`, `VALUE`."""
    hidden = []
    for before, each in pairwise(["", *argv]):
        alone = redactor.redact_text(each)
        named = redactor.redact_text(f"{before} {each}")
        is_named = alone == each and named.startswith(f"{before} <redacted:")
        hidden.append(named[len(before) + 1 :] if is_named else alone)
    return hidden


def finish(config: pytest.Config, record: str, outlet: FileOutlet, settings: Settings) -> None:
    """Put together what was written, when all processes of the run are gone.

    Args:
        config: Of the run.
        record: The folder of the run.
        outlet: Of this process, closed.
        settings: Whether there is to be a summary, and where.
    """
    from pytest_cideldill.record.story import Story

    folder, said, wrong = Path(record), "", outlet.error
    story, stretches = Story(folder, _KEPT), list[Stretch]()
    try:
        if merge_run(folder):
            stretches = outlet.stretches
    except OSError as error:
        wrong = error.strerror or str(error)
    try:
        story.end(write_summaries(folder, story, stretches))
        missing = _told_to_people(config, story, settings.summary)
        said = "; ".join([story.summary.sentence, *missing])
    except OSError as error:
        wrong = error.strerror or str(error)
        said = _unwritten(folder)
    told = f"recorded in {folder}: {said}" + (f"; it is not complete: {wrong}" if wrong else "")
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and config.get_verbosity() >= -1:
        reporter.write_line(f"cideldill: {told}")


def _unwritten(folder: Path) -> str:
    """The summary of a run, where it could not be written."""
    try:
        return summarize(folder).sentence
    except OSError as error:
        return error.strerror or str(error)


def _told_to_people(config: pytest.Config, story: Story, summary: str) -> Iterator[str]:
    """Write the report, and the summary if there is to be one; what went wrong, in words."""
    from pytest_cideldill.record.report import write_report
    from pytest_cideldill.record.story import runs_in
    from pytest_cideldill.record.summary import append

    record = story.folder.parent
    invoked = config.invocation_params.dir
    where = record.relative_to(invoked) if record.is_relative_to(invoked) else record
    writers: list[tuple[str, Callable[[], object]]] = [
        (REPORT, lambda: write_report(record / REPORT, runs_in(record), story)),
        (summary, lambda: append(story, str(where), invoked / summary)),
    ]
    for name, write in writers:
        try:
            if name:
                write()
        except Exception as error:  # noqa: BLE001 - the run is over and its record whole: a page
            # that can't be made, whatever the reason, must not change how pytest ends.
            yield f"no {name}: {getattr(error, 'strerror', None) or repr(error)}"
