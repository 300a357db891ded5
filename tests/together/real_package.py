"""Released packages with their own test suites: fetched once, unpacked, broken, recorded."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.together.driver import Agent
from tests.together.frontend import FEW_GUESTS

_K = TypeVar("_K", bound=Hashable)

INSIDE = Path(__file__).parent / "inside"
"""Modules for the process under test."""

DOWNLOAD_S = 60.0
SUITE_S = 280.0
PAGE = 100


@dataclass(frozen=True, slots=True)
class Release:
    """A source distribution, pinned.

    Attributes:
        folder: What its archive unpacks into.
        package: The folder in it that is imported, relative to it.
    """

    name: str
    version: str
    sha256: str
    folder: str
    package: str


MORE_ITERTOOLS = Release(
    "more-itertools",
    "10.8.0",
    "f638ddf8a1a0d134181275fb5d58b086ead7c6a72429ad725c67503f13ba30bd",
    "more_itertools-10.8.0",
    "more_itertools",
)
"""Generators, over the built-in ones, in tests that count in millions."""

CLICK = Release(
    "click",
    "8.5.1",
    "9bbfada76703fd1d784b83eea012e3e8c6a001a876543ef104fa56aaaeb072b4",
    "click-8.5.1",
    "src/click",
)
"""Classes, decorators, closures, context managers; exceptions that end programs, and threads."""


@dataclass(frozen=True, slots=True)
class Breakage:
    """One edit of one function.

    Attributes:
        function: Dotted path of the function that is broken.
        file: Where it is, relative to the unpacked folder.
        intact: A text that occurs once.
        broken: What takes its place.
    """

    function: str
    file: str
    intact: str
    broken: str

    def apply(self, root: Path) -> None:
        """Edit the file."""
        path = root / self.file
        text = path.read_text(encoding="utf-8")
        assert text.count(self.intact) == 1, f"{self.file} has not one {self.intact!r}"
        path.write_text(text.replace(self.intact, self.broken), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Report:
    """One report of pytest that did not pass."""

    phase: str
    outcome: str
    text: str
    error: str


@dataclass(frozen=True, slots=True)
class Record:
    """What `outcome_recorder` saw.

    Attributes:
        counts: The numbers of pytest's last line.
        reports: Node id → the reports that did not pass, in order.
        passed: Node id → how many reports passed, by phase.
        warnings: When, node id and category → how many.
    """

    exit_code: int
    counts: dict[str, int]
    reports: dict[str, list[Report]]
    passed: dict[str, dict[str, int]]
    warnings: dict[str, int]

    @classmethod
    def read(cls, path: Path) -> Record:
        """From the recorder's file."""
        plain = json.loads(path.read_text(encoding="utf-8"))
        tests = plain["tests"]
        return cls(
            plain["exit_code"],
            plain["counts"],
            {nodeid: [Report(*each) for each in test["reports"]] for nodeid, test in tests.items()},
            {nodeid: test["passed"] for nodeid, test in tests.items()},
            plain["warnings"],
        )

    def outcomes(self) -> Counter[tuple[str, str, str]]:
        """How often each (node id, phase, outcome) was reported."""
        found: Counter[tuple[str, str, str]] = Counter()
        for nodeid, phases in self.passed.items():
            found.update({(nodeid, phase, "passed"): times for phase, times in phases.items()})
        for nodeid, reports in self.reports.items():
            found.update((nodeid, each.phase, each.outcome) for each in reports)
        return found

    def verdicts(self) -> dict[str, tuple[str, str]]:
        """Node id → outcome and the phase that decided it, as `test_results` tells them."""
        return {nodeid: _verdict(reports) for nodeid, reports in self.reports.items()}

    def failed(self) -> list[str]:
        """Node ids of the tests that failed, in the order in which they ran."""
        return [nodeid for nodeid, (outcome, _) in self.verdicts().items() if outcome == "failed"]


def _verdict(reports: Sequence[Report]) -> tuple[str, str]:
    failed = [each.phase for each in reports if each.outcome == "failed"]
    if "call" in failed:
        return "failed", "call"
    if failed:
        return "error", failed[0]
    if not reports:
        return "passed", "call"
    outcome, phase = reports[0].outcome, reports[0].phase
    return ("xfailed" if outcome == "skipped" and reports[0].error else outcome), phase


@dataclass(frozen=True, slots=True)
class Difference:
    """What is not as without the debugger.

    Attributes:
        nodeid: A glob over the tests.
        reason: Why it can't be as without us.
        versions: The first Python version that has it, and the first one that has it no more.
        is_sure: False: it depends on who is faster.
    """

    nodeid: str
    reason: str
    versions: tuple[tuple[int, int], tuple[int, int]] = ((3, 11), (4, 0))
    is_sure: bool = True

    @property
    def is_due(self) -> bool:
        """Whether this Python has it."""
        return self.versions[0] <= sys.version_info[:2] < self.versions[1]


def archive(release: Release) -> Path:
    """The source distribution, from the user's cache or downloaded into it.

    The machine's own configuration of pip says where it comes from. Skips the test when it can't be
    had, fails when it is not the pinned one.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pytest-cideldill"
    kept = cache / f"{release.sha256}.tar.gz"
    if not kept.exists() or _sha256(kept) != release.sha256:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            os.replace(_downloaded(release, Path(folder)), kept)
    return kept


def _downloaded(release: Release, folder: Path) -> Path:
    """Let pip fetch and check it."""
    if importlib.util.find_spec("pip") is None:
        pytest.skip(f"{release.name} can't be downloaded: this environment has no pip")
    wanted = folder / "requirements.txt"
    wanted.write_text(
        f"{release.name}=={release.version} --hash=sha256:{release.sha256}\n", encoding="utf-8"
    )
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input"]
    command += [
        "--disable-pip-version-check",
        "--retries=1",
        "--no-deps",
        f"--no-binary={release.name}",
    ]
    command += ["--require-hashes", f"--requirement={wanted}", f"--dest={folder}"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=DOWNLOAD_S
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"{release.name} can't be downloaded within {DOWNLOAD_S:.0f} s")
    assert "DO NOT MATCH THE HASHES" not in done.stderr, done.stderr
    found = list(folder.glob("*.tar.gz"))
    if not found:
        reason = (done.stderr.strip() or "pip said nothing").splitlines()[-1]
        pytest.skip(
            f"{release.name} {release.version} can't be downloaded (no network, or not on the "
            f"index that pip is configured for): {reason}"
        )
    assert _sha256(found[0]) == release.sha256
    return found[0]


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def unpacked(release: Release, into: Path) -> Path:
    """The folder of a fresh copy."""
    with tarfile.open(archive(release)) as packed:
        packed.extractall(into, filter="data")
    return into / release.folder


def environment(*paths: Path) -> dict[str, str]:
    """For a pytest that runs a suite: what it can import besides, nothing of the pytest around."""
    outer = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "COV_", "COVERAGE_")) and name != "PYTHONPATH"
    }
    fixed = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}
    return outer | FEW_GUESTS | fixed | {"PYTHONPATH": os.pathsep.join(map(str, (INSIDE, *paths)))}


def recording(path: Path) -> list[str]:
    """Arguments of pytest that switch the recorder on."""
    return ["-p", "outcome_recorder", f"--record-outcomes={path}"]


def plain_run(root: Path, record: Path, *arguments: str, paths: Sequence[Path] = ()) -> Record:
    """The whole suite without the debugger; `paths` as in `environment`."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:cideldill"]
    done = subprocess.run(
        [*command, *recording(record), *arguments],
        cwd=root,
        env=environment(*paths),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=SUITE_S,
    )
    assert record.exists(), done.stdout[-2_000:] + done.stderr[-2_000:]
    return Record.read(record)


def all_results(agent: Agent) -> list[dict[str, Any]]:
    """Every item of `test_results`, page by page."""
    tests: list[dict[str, Any]] = []
    reply: dict[str, Any] = {"next_after": None}
    while "next_after" in reply:
        reply = agent.call("test_results", limit=PAGE, after=reply["next_after"])
        tests += reply["tests"]
    assert len(tests) == reply["total_count"]
    return tests


def differences(one: Mapping[_K, Any], other: Mapping[_K, Any]) -> dict[_K, tuple[Any, Any]]:
    """Key → both values, where they differ; so that a failing test shows these alone."""
    keys = dict.fromkeys([*one, *other])
    return {key: (one.get(key), other.get(key)) for key in keys if one.get(key) != other.get(key)}
