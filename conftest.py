"""Three tiers of tests: fast by default, ``--full`` adds slow ones, ``--soak`` runs others.

Runs in the pytest process that tests this project, never in a process under test.
"""

from __future__ import annotations

import argparse
import gc
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase
from zlib import crc32

import pytest

from pytest_cideldill.config import agents

pytest_plugins = ["pytester"]

TEST_SECONDS = 60.0
"""Limit of one test, so that a hang ends with stacks and not with a killed job."""

FULL_SECONDS = 150.0
"""The same in the full tier, whose tests start many processes beside those of other tests."""

SOAK_SECONDS = 900.0

for _name in agents.VARIABLES:  # the runs that our tests start print what they print for people
    os.environ.pop(_name, None)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiers")
    group.addoption("--full", action="store_true", help="also run the tests marked `full`")
    group.addoption(
        "--share",
        type=_share,
        metavar="K/N",
        help="of the tests that only --full adds, run the K-th of N shares",
    )
    group.addoption("--soak", action="store_true", help="run only the tests marked `soak`")


@pytest.hookimpl(tryfirst=True)  # pytest-timeout reads the option in its own pytest_configure
def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False  # xdist would sort the files by their tests alone
    if not config.pluginmanager.hasplugin("timeout") or "PYTEST_TIMEOUT" in os.environ:
        return
    if config.option.timeout is None:
        seconds = FULL_SECONDS if config.option.full else TEST_SECONDS
        config.option.timeout = SOAK_SECONDS if config.option.soak else seconds


@pytest.fixture(scope="session", autouse=True)
def _apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The runs of pytest that our tests start have their temporary files for themselves.

    A run removes what earlier ones left there, and what a session of ours left takes many seconds:
    longer than a test may wait for the end of a small run.
    """
    tmp_path_factory.getbasetemp()  # first: that of this session stays where it is
    folder = tempfile.TemporaryDirectory(prefix="cideldill-runs-", ignore_cleanup_errors=True)
    with pytest.MonkeyPatch.context() as patch, folder as path:
        patch.setenv("PYTEST_DEBUG_TEMPROOT", path)
        yield


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """pytest then looks for garbage five times, among all that the tests have imported."""
    gc.collect()
    gc.freeze()


def pytest_report_header(config: pytest.Config) -> str:
    share = config.option.share
    return f"tier: {_tier(config)}" + (f", share {share[0]}/{share[1]}" if share else "")


@pytest.hookimpl(tryfirst=True)  # Hypothesis reads all files where one of the tests is its own
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _check_samples(config, items)
    tier, share = _tier(config), config.option.share
    chosen = dict.fromkeys(item for item in items if _belongs(item, tier, share))
    deselected = [item for item in items if item not in chosen]
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        items[:] = chosen
    _sort_files(items)


def _sort_files(items: list[pytest.Item]) -> None:
    """The longest files first, as a worker that runs one while the others are done costs time.

    Files that are not marked `long` are sorted by the number of their tests, as xdist does.
    """
    files = {item: item.nodeid.partition("::")[0] for item in items}
    tests = Counter(files.values())
    items.sort(key=lambda item: (-_seconds(item), -tests[files[item]], files[item]))


def _seconds(item: pytest.Item) -> float:
    mark = item.get_closest_marker("long")
    return 0.0 if mark is None else float(mark.args[0])


def _share(text: str) -> tuple[int, int]:
    """K and N of `K/N`."""
    number, _, shares = text.partition("/")
    if not (number.isdecimal() and shares.isdecimal() and 1 <= int(number) <= int(shares)):
        raise argparse.ArgumentTypeError(f"{text!r} is not K/N with 1 <= K <= N")
    return int(number), int(shares)


def _tier(config: pytest.Config) -> str:
    if config.option.soak:
        return "soak"
    return "full" if config.option.full else "fast"


def _check_samples(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A sample without a member would leave its test to the soak alone."""
    if config.getoption("lf", default=False) or any("::" in each for each in config.args):
        return  # not all members are there
    samples = dict.fromkeys(_function(item) for item in items if item.get_closest_marker("sample"))
    for item in items:
        if _is_in("sample", item, by_default=True):
            samples.pop(_function(item), None)
    if samples:
        raise pytest.UsageError(f"the mark `sample` matches no id of {', '.join(samples)}")


def _function(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def _belongs(item: pytest.Item, tier: str, share: tuple[int, int] | None) -> bool:
    soak = item.get_closest_marker("soak") is not None or not _is_in(
        "sample", item, by_default=True
    )
    if soak or tier == "soak":
        return soak and tier == "soak"
    if item.get_closest_marker("full") is None or _is_in("quick", item, by_default=False):
        return True
    return tier == "full" and (share is None or _is_of_share(item, *share))


def _is_of_share(item: pytest.Item, number: int, shares: int) -> bool:
    """By its id alone: the same in each worker, and when the tests that failed run again."""
    return crc32(item.nodeid.encode()) % shares == number - 1


def _is_in(name: str, item: pytest.Item, *, by_default: bool) -> bool:
    """The mark is for all members of a parametrized test, or for those whose ids it matches."""
    mark = item.get_closest_marker(name)
    if mark is None:
        return by_default
    of_member = item.name.partition("[")[2].removesuffix("]")
    return not mark.args or any(fnmatchcase(of_member, each) for each in mark.args)
