"""Released suites that patch, fake, freeze and forbid much end as without us, however they are run.

Expectations: of each test the phases and outcomes, and of the whole the warnings, are those of a
plain run: idle; served, each failure and ten busy functions paused; recorded with calls and hits.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest

from tests.together import driver
from tests.together.real_package import Breakage, Difference, Record, Release, differences
from tests.together.suites import ALL_GUESTS, PAUSES, WAIT_S, Suite, bed_of

OURS = "next to the frame of a swapped function are two of ours"
SIXTH = "looks for the file that called a function among its six innermost frames; "
SWAPPED = ((3, 11), (3, 12))
"""From then on what is only recorded is not swapped."""

FREEZEGUN = Suite(
    Release(
        "freezegun",
        "1.5.5",
        "ac7742a6cc6c25a2c35e9292dfd554b897b517d2dec26891a2e8debf205cb94a",
        "freezegun-1.5.5",
        "freezegun",
    ),
    libraries=("freezegun",),
    arguments=(),
    busy=(
        "freezegun.api.convert_to_timezone_naive",
        "freezegun.api.FrozenDateTimeFactory.__init__",
        "freezegun.api.get_current_time",
        "freezegun.api.FrozenDateTimeFactory.__call__",
        "freezegun.api._freeze_time.start",
        "freezegun.api._freeze_time.stop",
        "freezegun.api.freeze_time",
        "freezegun.api._parse_time_to_freeze",
        "freezegun.api.datetime_to_fakedatetime",
        "freezegun.api._should_use_real_time",
    ),
    tests=130,
    different=(
        Difference(
            "tests/test_class_import.py::test_can_ignore_email_module",
            "looks for a module among the five callers of a function; " + OURS,
            versions=SWAPPED,
        ),
    ),
)
"""Clocks, and whatever modules hold of them."""

PYFAKEFS = Suite(
    Release(
        "pyfakefs",
        "6.3.2",
        "7c67bdf4c11b42903c7cb6c74fa63432485afc697ad6f89ecce6fb0a4e4f24ed",
        "pyfakefs-6.3.2",
        "pyfakefs",
    ),
    libraries=("pyfakefs",),
    arguments=("pyfakefs",),
    busy=(
        "pyfakefs.fake_file.FakeFile.set_initial_contents",
        "pyfakefs.fake_file.FakeFileWrapper._check_open_file",
        "pyfakefs.fake_file.FakeFileWrapper.flush",
        "pyfakefs.fake_filesystem.FakeFilesystem.create_dir",
        "pyfakefs.fake_open.FakeFileOpen.__call__",
        "pyfakefs.fake_open.FakeFileOpen.__init__",
        "pyfakefs.fake_open.fake_open",
        "pyfakefs.fake_os.FakeOsModule.__init__",
        "pyfakefs.fake_path.FakePathModule.split",
        "pyfakefs.helpers.is_called_from_skipped_module",
    ),
    tests=1_400,
    different=(
        Difference("*::AdditionalSkipNames*Test::test_open_succeeds", SIXTH + OURS, SWAPPED),
        Difference("*::SkipOpenTest::test_open_in_skipped_module", SIXTH + OURS, SWAPPED),
        Difference("*::SkipPathlibTest::test_*", SIXTH + OURS, SWAPPED),
    ),
)
"""The file system: functions of `os`, `io`, `pathlib` and more in all modules."""

GEVENT = Suite(
    Release(
        "geventhttpclient",
        "2.6.1",
        "b15f0b0b959e75f4b8d97f3652e07db6d1050308027e1081eecddfbaa8412c92",
        "geventhttpclient-2.6.1",
        "src/geventhttpclient",
    ),
    libraries=("geventhttpclient",),
    arguments=("-m", "not network"),
    busy=(
        "geventhttpclient.response.HTTPResponse.feed",
        "geventhttpclient.response.HTTPResponse._on_headers_complete",
        "geventhttpclient.header.Headers.__init__",
        "geventhttpclient.header.Headers.update",
        "geventhttpclient.header.Headers.add",
        "geventhttpclient.response.HTTPResponse._flush_header",
        "geventhttpclient.header.Headers.__contains__",
        "geventhttpclient.url.URL.__init__",
        "geventhttpclient.url._or_empty",
        "geventhttpclient.client.HTTPClient._build_request",
    ),
    tests=350,
    edits=(
        Breakage(
            "server",  # listens on a port that any connection of another process may have
            "tests/common.py",
            "TEST_PORT = 54323\n",
            'TEST_PORT = int(__import__("os").environ["FREE_PORT"])\n',
        ),
    ),
)
"""Sockets, threads, locks and sleeps are those of gevent from the first conftest on."""

SOCKET = Suite(
    Release(
        "pytest_socket",
        "0.8.1",
        "2f57787914ad2e1308d09ce141b95c3e55741fbb4fb7b7556593a6b063e0c9c7",
        "pytest_socket-0.8.1",
        "pytest_socket",
    ),
    libraries=("pytest-socket", "httpx"),
    arguments=("--ignore=tests/test_benchmarks.py", "--ignore=tests/test_restrict_hosts.py"),
    busy=(
        "pytest_socket.pytest_runtest_setup",
        "pytest_socket.pytest_runtest_teardown",
        "pytest_socket._remove_restrictions",
        "pytest_socket._resolve_allow_hosts",
        "pytest_socket.socket_allow_hosts",
        "pytest_socket.disable_socket",
        "pytest_socket.SocketBlockedError.__init__",
        "pytest_socket._is_unix_socket",
        "pytest_socket.enable_socket",
        "pytest_socket.pytest_configure",
    ),
    tests=50,
)
"""Sockets that raise, in runs of pytest within the tests' process."""

MOCK = Suite(
    Release(
        "pytest_mock",
        "3.17.0",
        "e36576e0985e01027e999891e7a966c67822d40c89ef1b4c8b6e22737e3590b4",
        "pytest_mock-3.17.0",
        "src/pytest_mock",
    ),
    libraries=("pytest-mock",),
    arguments=(),
    busy=(
        "pytest_mock._util.get_mock_module",
        "pytest_mock.plugin.assert_wrapper",
        "pytest_mock.plugin.MockerFixture.stopall",
        "pytest_mock.plugin.MockCache.clear",
        "pytest_mock.plugin.MockerFixture.__init__",
        "pytest_mock.plugin.MockerFixture._Patcher._start_patch",
        "pytest_mock.plugin._mocker",
        "pytest_mock.plugin.MockCache.add",
        "pytest_mock.plugin.MockCache.find",
        "pytest_mock.plugin.MockerFixture.spy",
    ),
    tests=160,
    guests=ALL_GUESTS,
)
"""Mocks of `os` functions among others, async tests, tests of tracebacks, nested runs."""

SUITES = (FREEZEGUN, PYFAKEFS, GEVENT, SOCKET, MOCK)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole suite may take longer than a call of another test."""
    monkeypatch.setattr(driver, "DEADLINE_S", WAIT_S + driver.DEADLINE_S)


@pytest.mark.soak
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.release.name)
def test_a_suite_ends_as_without_us_in_all_ways(
    suite: Suite, tmp_path_factory: pytest.TempPathFactory
) -> None:
    check(suite, tmp_path_factory)


@pytest.mark.full
@pytest.mark.timeout(300)
def test_a_small_suite_ends_as_without_us_in_all_ways(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """The quickest of them."""
    check(FREEZEGUN, tmp_path_factory)


def check(suite: Suite, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Run it in all ways."""
    bed = bed_of(suite, tmp_path_factory.mktemp("suite"))
    plain, _ = bed.run("plain", "-p", "no:cideldill")
    again, _ = bed.run("again", "-p", "no:cideldill")
    assert sum(1 for _, phase, _ in plain.outcomes() if phase == "call") >= suite.tests
    flaky = unsteady(plain, again)
    assert len(flaky) <= len(plain.passed) // 100, flaky

    idle, _ = bed.run("idle")
    assert difference(plain, idle, flaky) == {}

    recorded, _ = bed.recorded()
    assert difference(plain, recorded, flaky) == {}
    served, pauses = bed.served()
    globs = [each.nodeid for each in suite.different if each.is_due]
    named = {id for id in plain.passed if any(fnmatchcase(id, glob) for glob in globs)}
    assert difference(plain, served, flaky | named) == {}
    seen = unsteady(plain, served)
    idle_globs = [glob for glob in globs if not any(fnmatchcase(id, glob) for id in seen)]
    assert idle_globs == [], "these differ no more: take them out of the list"
    assert {name: pauses[name] for name in suite.busy if pauses[name] < PAUSES} == {}
    assert pauses["failure"] == len(served.failed())


def unsteady(plain: Record, again: Record) -> set[str]:
    """Node ids whose outcomes differ between two runs."""
    return {nodeid for nodeid, _, _ in differences(plain.outcomes(), again.outcomes())}


def difference(plain: Record, other: Record, left_out: set[str]) -> dict[str, object]:
    """What is not as without us; the exit status too if no test is left out."""
    found: dict[str, object] = {
        f"{nodeid} {phase} {outcome}": (times, other.reports.get(nodeid))
        for (nodeid, phase, outcome), times in differences(
            plain.outcomes(), other.outcomes()
        ).items()
        if nodeid not in left_out
    }
    found |= differences(plain.warnings, other.warnings)
    if not left_out:
        found |= differences({"exit": plain.exit_code}, {"exit": other.exit_code})
    return found
