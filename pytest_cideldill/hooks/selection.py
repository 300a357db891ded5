"""Which tests run: the wanted node ids are filtered here, after collection.

As arguments of pytest one unknown id would end the run with nothing run; here the others run and
the unknown ones are sent.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from operator import itemgetter
from typing import Any

import pytest

from pytest_cideldill.frames.frames import notice_secrets_behind
from pytest_cideldill.hooks.empty_collection import searched
from pytest_cideldill.hooks.guest import guest
from pytest_cideldill.hooks.host import Host
from pytest_cideldill.hooks.tracebacks import text_of
from pytest_cideldill.interpreter.borders import because, passes
from pytest_cideldill.interpreter.clock import monotonic
from pytest_cideldill.protocol import Collected, CollectionFailed, ItemsFound
from pytest_cideldill.redaction.hidden_nodeids import meant
from pytest_cideldill.redaction.tags import TAGGED
from pytest_cideldill.rendering.display import Lens
from pytest_cideldill.sourcecode.catalog import find_sources

MAX_LONGREPR = 5_000
"""Characters kept of a collection error."""

MAX_BESIDE = 1_000
"""How many functions that a missing name may mean are named."""

_SEARCH_S = 5.0
"""How long files are looked for of which node ids have only the base name."""

_BEHIND = sys.maxsize

_BY_DEFAULT = "default:"
"""How pytest-random-order marks what was not given."""


class Wanted:
    """Chooses; needs no front end, so that a worker that could not connect has the same tests.

    Hooks of others may sort the items and change their ids. So the choice is made twice: first, so
    that the others see these items only, and behind all of them.

    Args:
        names: Node ids, classes, files or folders relative to the rootdir (`.`); None: everything.
        host: Sends warnings; None: this process has none.

    Attributes:
        missing: Names that no test has; known after collection.
        beside: Ids of the functions in the files of missing names, which may be meant.
        found: How many tests there were at first.
        others: Ids of the tests in the files of those that were chosen, as far as they are not.
    """

    def __init__(self, names: list[str] | None, host: Host | None = None) -> None:
        self.host = host
        self._names = names
        self.missing: list[str] = []
        self.beside: list[str] = []
        self.found = 0
        self.others: list[str] = []
        # Base names of files that tests with a name of no file may be in; None: of all.
        self._renamed: set[str] | None = set()
        self._folders: dict[str, str] = {}  # → as node ids begin, relative to the rootdir
        # By the ids that items had at first: id(item) → the item, and the number of its name.
        self._chosen: dict[int, tuple[pytest.Item, int | None]] = {}

    @pytest.hookimpl(tryfirst=True)
    @guest
    def pytest_collection(self, session: pytest.Session) -> None:
        """Collect only the files of the wanted ids.

        A hook may have changed the file of an id: then the files of its base name, or all.
        """
        if self._names is None:
            return
        root = str(session.config.rootpath)
        start = str(session.config.invocation_params.dir)
        paths = [name.partition("::")[0] for name in self._names]
        files = [os.path.join(root, path) for path in paths if path]
        gone = {_base(each) for each in paths if not os.path.exists(os.path.join(root, each))}
        self._renamed = gone if all(each.endswith(".py") for each in gone) else None
        if self._renamed is None:
            return
        if self._renamed:
            end = monotonic() + _SEARCH_S
            known, _ = find_sources(os.path.realpath(root), lambda: monotonic() > end)
            files += [os.path.join(root, each) for each in known if self._may_mean(_base(each))]
        found = [_collectable(file, start) for file in files if os.path.exists(file)]
        session.config.args = list(dict.fromkeys(found))

    @pytest.hookimpl(tryfirst=True)
    @guest
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the wanted items, and all of a file in which a name is not found (yet)."""
        self.found = len(items)
        if self._names is None:
            return
        order = {name: number for number, name in enumerate(self._names)}
        asked = _asked(order)
        ids = [(item, self._ids(item)) for item in items]
        matches = [(item, _first_match(known, asked)) for item, known in ids]
        self.note_missing(chain.from_iterable(known for _, known in ids))
        files = {name.partition("::")[0] for name in self.missing if "::" in name}
        self._choose_by_tags(matches)
        beside = [item.nodeid for item in items if _file(item) in files]
        self.beside = list(dict.fromkeys(_function(each) for each in beside))[:MAX_BESIDE]
        for item, match in matches:
            if match is not None or _file(item) in files or self._may_be_renamed(item):
                self._chosen[id(item)] = item, None if match is None else order[match]
        kept = [item for item in items if id(item) in self._chosen]
        near = {_file(item) for item in kept}
        others = (each for each in items if id(each) not in self._chosen and _file(each) in near)
        self.others = [item.nodeid for item in islice(others, MAX_BESIDE)]
        items[:] = sorted(kept, key=self._number)

    @pytest.hookimpl(tryfirst=True)
    @guest
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Sort again by the names as asked for, and by the ids that items have now."""
        if self._names is None:
            return
        asked, renamed = _asked(self.missing), {}
        for item in session.items if asked else ():
            if (match := _first_match([item.nodeid], asked)) is not None:
                renamed[id(item)] = self._names.index(match)
                self.missing = [name for name in self.missing if name != match]
        kept: list[tuple[int, pytest.Item]] = []
        for item in session.items:
            number = renamed.get(id(item), self._number(item))
            if number < _BEHIND or id(item) not in self._chosen:
                kept.append((number, item))
        session.items[:] = [item for _, item in sorted(kept, key=itemgetter(0))]
        self._chosen.clear()

    def note_missing(self, nodeids: Iterable[str]) -> None:
        """Find the names that none of these has."""
        names = self._names or ()
        asked = _asked(names)
        found = {_first_match([nodeid], asked) for nodeid in nodeids}
        self.missing = [name for name in dict.fromkeys(names) if name not in found]

    def _ids(self, item: pytest.Item) -> list[str]:
        """What a test is called; where a hook has changed that, also what its file makes of it."""
        folder = str(item.path.parent)
        place = self._folders.get(folder)
        if place is None:
            relative = os.path.relpath(folder, str(item.config.rootpath)).replace(os.sep, "/")
            place = self._folders[folder] = "" if relative == "." else f"{relative}/"
        file, _, rest = item.nodeid.partition("::")
        path = place + item.path.name
        ids = [item.nodeid] if file == path or not rest else [item.nodeid, f"{path}::{rest}"]
        if self.host is None:
            return ids
        return list(dict.fromkeys((*ids, *map(self.host.lens.nodeids.shown, ids))))

    def _choose_by_tags(self, matches: list[tuple[pytest.Item, str | None]]) -> None:
        """Names with tags of another run mean the only test that fits; note that in `matches`."""
        for name in [each for each in self.missing if TAGGED in each]:
            found = meant(name, [item.nodeid for item, match in matches if match is None])
            if len(found) == 1:
                at = next(n for n, each in enumerate(matches) if each[0].nodeid == found[0])
                matches[at] = matches[at][0], name
                self.missing.remove(name)

    def _may_be_renamed(self, item: pytest.Item) -> bool:
        return bool(self.missing) and self._may_mean(item.path.name)

    def _may_mean(self, name: str) -> bool:
        """Whether changed ids may be of files of this name; a mark may stand before it."""
        return self._renamed is None or any(each.endswith(name) for each in self._renamed)

    def _number(self, item: pytest.Item) -> int:
        """Of the name that chose it; what a hook has made of others stands behind all."""
        _, number = self._chosen.get(id(item), (item, None))
        return _BEHIND if number is None else number


class Selection:
    """Hooks around collection.

    Args:
        host: Binds breakpoints when everything is imported; sends the outcome of the collection.
        list_nodeids: Whether the collected ids are sent, not only their number.
    """

    def __init__(self, host: Host, wanted: Wanted, *, list_nodeids: bool) -> None:
        self.host = host
        self._wanted = wanted
        self._list_nodeids = list_nodeids
        self._deselected = 0

    @pytest.hookimpl(tryfirst=True)
    @guest
    def pytest_collection(self) -> None:
        """Plugins and conftests are there."""
        self.host.bind()

    @guest
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Everything that tests import at module level is there now."""
        self.host.bind()
        nodeids = list(map(self._shown, session.items)) if self._list_nodeids else None
        missing, beside = self._wanted.missing, self._wanted.beside
        looked = None if session.items else self._searched(session)
        self.host.link.send(Collected(len(session.items), missing, nodeids, beside, looked))
        if not self._list_nodeids and (seed := seed_of(session.config)) is not None:
            self.host.warn(seed)

    def _shown(self, item: pytest.Item) -> str:
        return self.host.lens.nodeids.shown(item.nodeid)

    @guest
    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Count what others leave out."""
        self._deselected += len(items)

    def _searched(self, session: pytest.Session) -> str:
        config, found = session.config, max(self._wanted.found, self._deselected)
        return self.host.lens.text(searched(config, config.args, found, self._deselected))

    @guest
    def pytest_exception_interact(
        self, call: pytest.CallInfo[Any], report: pytest.CollectReport | pytest.TestReport
    ) -> None:
        """Before the report of a collection error is sent: notice its secrets."""
        if isinstance(report, pytest.CollectReport) and call.excinfo is not None:
            notice_secrets_behind(call.excinfo.value, self.host.lens)

    @guest
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Send collection errors one by one, and what was found to a client that wants a list."""
        if report.failed:
            self.host.link.send(collection_failed(report, self.host.lens))
        elif self._list_nodeids:
            found = (each for each in report.result or () if isinstance(each, pytest.Item))
            items = list(map(self._shown, found))
            if items:
                self.host.link.send(ItemsFound(items))


def collection_failed(report: pytest.CollectReport, lens: Lens) -> CollectionFailed:
    """The event of a report; where its text can't be made, one that says so."""
    try:
        text = lens.end_of_report(text_of(report), MAX_LONGREPR)
    except Exception as error:
        if passes(error):
            raise
        text = because(error)
    return CollectionFailed(report.nodeid, text)


def seed_of(config: pytest.Config) -> str | None:
    """A sentence about the seed of a plugin that shuffles; None: there is none."""
    known = vars(config.option)
    if isinstance(seed := known.get("randomly_seed"), int):
        plugin, option = "pytest-randomly", "--randomly-seed"
    elif known.get("random_order_enabled") or _is_chosen(known.get("random_order_bucket")):
        plugin, option = "pytest-random-order", "--random-order-seed"
        seed = str(known.get("random_order_seed")).removeprefix(_BY_DEFAULT)
    else:
        return None
    return f'{plugin} has the seed {seed}: args ["{option}={seed}"] runs the same again'


def _is_chosen(bucket: object) -> bool:
    """Of pytest-random-order."""
    return isinstance(bucket, str) and not bucket.startswith(_BY_DEFAULT)


def _collectable(path: str, start: str) -> str:
    """As an argument of pytest, which takes `[` for the start of parameters: a folder above it."""
    if "[" not in path:
        return path
    return os.path.dirname(os.path.relpath(path, start).partition("[")[0]) or "."


def _base(path: str) -> str:
    return path.rpartition("/")[2]


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def _function(nodeid: str) -> str:
    """Without its parameters."""
    path, separator, rest = nodeid.partition("::")
    return path + separator + rest.partition("[")[0]


def _asked(names: Iterable[str]) -> dict[str, str]:
    """What may mean an item, and the wanted name that it is of: that without its group as well."""
    found = {name: name for name in names}
    for name in list(found):
        found.setdefault(_ungrouped(name), name)
    return found


def _ungrouped(nodeid: str) -> str:
    """Without the `@group` that xdist appends with `--dist=loadgroup`."""
    test, _, group = nodeid.rpartition("@")
    return test if "::" in test and "]" not in group else nodeid


def _first_match(nodeids: Iterable[str], asked: dict[str, str]) -> str | None:
    """The wanted name that means the item of these ids, the most precise one."""
    names = (name for id in nodeids for each in (id, _ungrouped(id)) for name in _names(each))
    return next((asked[name] for name in names if name in asked), None)


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
