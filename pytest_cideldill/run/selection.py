"""Which tests run: the wanted node ids are filtered here, after collection.

As arguments of pytest one unknown id would end the run with nothing run; here the others run and
the unknown ones are told.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any

import pytest

from pytest_cideldill.borders import because
from pytest_cideldill.borders import passes
from pytest_cideldill.capture.frames import notice_secrets_behind
from pytest_cideldill.capture.lens import Lens
from pytest_cideldill.run.guest import guest
from pytest_cideldill.run.host import Host
from pytest_cideldill.run.traceback import text_of
from pytest_cideldill.wire import Collected
from pytest_cideldill.wire import CollectionFailed

MAX_LONGREPR = 5_000
"""Characters kept of a collection error."""


class Wanted:
    """Chooses; needs no front end, so that a worker that could not connect has the same tests.

    Args:
        names: Node ids, classes, files or folders relative to the rootdir (`.`); None: everything.
        host: Told of failures of ours; None: this process has none.

    Attributes:
        missing: Names that no test has; known after collection.
    """

    def __init__(self, names: list[str] | None, host: Host | None = None) -> None:
        self.host = host
        self._names = names
        self.missing: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    @guest
    def pytest_collection(self, session: pytest.Session) -> None:
        """Collect only the files of the wanted ids."""
        if self._names is None:
            return
        root = str(session.config.rootpath)
        start = str(session.config.invocation_params.dir)
        paths = [each.partition("::")[0] for each in self._names]
        files = [os.path.join(root, path) for path in paths if path]
        found = [_collectable(file, start) for file in files if os.path.exists(file)]
        session.config.args = list(dict.fromkeys(found))

    @pytest.hookimpl(tryfirst=True)
    @guest
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the wanted items, in the order in which they were asked for."""
        if self._names is None:
            return
        order = {name: number for number, name in enumerate(self._names)}
        kept: list[tuple[int, pytest.Item]] = []
        for item in items:
            match = _first_match(item.nodeid, order)
            if match is not None:
                kept.append((order[match], item))
        items[:] = [item for _, item in sorted(kept, key=lambda pair: pair[0])]
        self.note_missing(item.nodeid for item in items)

    def note_missing(self, nodeids: Iterable[str]) -> None:
        """Find the names that none of these has."""
        order = dict.fromkeys(self._names or (), 0)
        found = {_first_match(nodeid, order) for nodeid in nodeids}
        self.missing = [name for name in order if name not in found]


class Selection:
    """Hooks around collection.

    Args:
        host: Told when everything is imported, and the outcome of the collection.
        wanted: Which tests are chosen.
        list_nodeids: Whether the collected ids are told, not only their number.
    """

    def __init__(self, host: Host, wanted: Wanted, *, list_nodeids: bool) -> None:
        self.host = host
        self._wanted = wanted
        self._list_nodeids = list_nodeids

    @pytest.hookimpl(tryfirst=True)
    @guest
    def pytest_collection(self) -> None:
        """Plugins and conftests are there."""
        self.host.bind()

    @guest
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Everything that tests import at module level is there now."""
        self.host.bind()
        nodeids = [item.nodeid for item in session.items] if self._list_nodeids else None
        self.host.link.send(Collected(len(session.items), self._wanted.missing, nodeids))

    @guest
    def pytest_exception_interact(
        self,
        call: pytest.CallInfo[Any],
        report: pytest.CollectReport | pytest.TestReport,
    ) -> None:
        """Before the report of a collection error is told: what it may tell."""
        if isinstance(report, pytest.CollectReport) and call.excinfo is not None:
            notice_secrets_behind(call.excinfo.value, self.host.lens)

    @guest
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Tell collection errors one by one."""
        if report.failed:
            self.host.link.send(collection_failed(report, self.host.lens))


def collection_failed(report: pytest.CollectReport, lens: Lens) -> CollectionFailed:
    """The event of a report; where its text can't be made, one that says so."""
    try:
        text = lens.end_of(text_of(report), MAX_LONGREPR)
    except Exception as error:
        if passes(error):
            raise
        text = because(error)
    return CollectionFailed(report.nodeid, text)


def _collectable(path: str, start: str) -> str:
    """As an argument of pytest, which takes `[` for the start of parameters: a folder above it."""
    if "[" not in path:
        return path
    return os.path.dirname(os.path.relpath(path, start).partition("[")[0]) or "."


def _first_match(nodeid: str, order: dict[str, int]) -> str | None:
    """The wanted name that means this item, the most precise one."""
    return next((name for name in _names(nodeid) if name in order), None)


def _names(nodeid: str) -> Iterator[str]:
    """What an item can be called: itself, its function, classes, file, folders, the rootdir."""
    yield nodeid
    path, _, rest = nodeid.partition("::")
    bare = rest.partition("[")[0]
    while bare:
        yield f"{path}::{bare}"
        bare = bare.rpartition("::")[0]
    while path:
        yield path
        path = path.rpartition("/")[0]
    yield "."
