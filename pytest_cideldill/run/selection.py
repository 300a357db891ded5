"""Which tests run: the wanted node ids are filtered here, after collection.

As arguments of pytest one unknown id would end the run with nothing run; here the others run and
the unknown ones are told.
"""

from __future__ import annotations

import os

import pytest

from pytest_cideldill.link import Link
from pytest_cideldill.manager import BreakpointManager
from pytest_cideldill.run.guest import guest
from pytest_cideldill.wire import Collected
from pytest_cideldill.wire import CollectionFailed


class Selection:
    """Hooks around collection.

    Args:
        manager: Told when everything is imported, to bind breakpoints.
        link: Told the outcome of the collection.
        wanted: Node ids, classes, files or folders relative to the rootdir; None: everything.
        list_nodeids: Whether the collected ids are told, not only their number.
    """

    def __init__(
        self,
        manager: BreakpointManager,
        link: Link,
        wanted: list[str] | None,
        *,
        list_nodeids: bool,
    ) -> None:
        self.manager = manager
        self._link = link
        self._wanted = wanted
        self._list_nodeids = list_nodeids
        self._missing: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> None:
        """Collect only the files of the wanted ids."""
        self.manager.bind()
        if self._wanted is None:
            return
        root = str(session.config.rootpath)
        files = dict.fromkeys(
            os.path.join(root, each.partition("::")[0].partition("[")[0]) for each in self._wanted
        )
        session.config.args = [file for file in files if os.path.exists(file)]

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the wanted items, in the order in which they were asked for."""
        if self._wanted is None:
            return
        order = {name: number for number, name in enumerate(self._wanted)}
        found: set[str] = set()
        kept: list[tuple[int, pytest.Item]] = []
        for item in items:
            match = _first_match(item.nodeid, order)
            if match is not None:
                found.add(match)
                kept.append((order[match], item))
        items[:] = [item for _, item in sorted(kept, key=lambda pair: pair[0])]
        self._missing = [name for name in order if name not in found]

    @guest
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Everything that tests import at module level is there now."""
        self.manager.bind()
        nodeids = [item.nodeid for item in session.items] if self._list_nodeids else None
        self._link.send(Collected(len(session.items), self._missing, nodeids))

    @guest
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Tell collection errors one by one."""
        if report.failed:
            self._link.send(CollectionFailed(report.nodeid, report.longreprtext[-5_000:]))


def _first_match(nodeid: str, order: dict[str, int]) -> str | None:
    """The wanted name that means this item: itself, its function, class, file or a folder."""
    bare = nodeid.partition("[")[0]
    for name in (nodeid, bare):
        if name in order:
            return name
    while bare:
        cut = max(bare.rfind("::"), bare.rfind("/"))
        bare = bare[: max(cut, 0)]
        if bare in order:
            return bare
    return None
