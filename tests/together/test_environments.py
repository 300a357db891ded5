"""Small suites end as without us under strict, odd and bare settings of Python and of pytest.

Expectations: the reports of each test with their texts, the exit status and the warnings are those
of a plain run with the same settings, and stderr has nothing that it doesn't have there: idle;
served, with each failure and each call of a function paused and evaluated in; recorded with calls
and hits.
"""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from pprint import pformat
from typing import Any

import pytest

from tests.together.driver import DEADLINE_S, Agent, connected, server
from tests.together.frontend import clean_environment
from tests.together.real_package import INSIDE, Record, differences
from tests.together.workbench import OVER

pytestmark = pytest.mark.long(25)

SHOP = r'''
    """What is watched."""

    def total(prices):
        """Docstrings and asserts may be gone."""
        assert isinstance(prices, list)
        found = sum(prices)
        return found

    def pattern(text):
        return text + "\\d"
'''

CLEAN = """
    import asyncio, logging, multiprocessing, os, subprocess, sys, threading
    import pytest
    import shop

    def test_plain(tmp_path, capsys):
        print("w\\u00f6rds", shop.total([1, 2]))
        (tmp_path / "file").write_text("x")
        assert capsys.readouterr().out == "w\\u00f6rds 3\\n"
        logging.warning("logged")

    def test_threads():
        threads = [threading.Thread(target=shop.total, args=([n],)) for n in range(2)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert threading.active_count() == 1

    async def added(number):
        await asyncio.sleep(0)
        return shop.total([number, 1])

    def test_tasks():
        async def both(): return await asyncio.gather(added(1), added(2))
        assert asyncio.run(both()) == [2, 3]

    def test_subprocess():
        flags = subprocess._args_from_interpreter_flags()
        # Recorded runs tell nested runs of pytest by one variable that they are not to be recorded.
        code = (
            "import os, sys\\nprint(sys.flags)\\n"
            "print({n for n in os.environ if 'CIDELDILL' in n} - {'CIDELDILL_RECORDED'})"
        )
        done = subprocess.run([sys.executable, *flags, "-c", code], capture_output=True, text=True)
        assert (done.stdout, done.stderr) == (f"{sys.flags}\\nset()\\n", "")

    def test_fork():
        for status in (3, 4):
            pid = os.fork()
            if not pid: os._exit(shop.total([status]))
            assert os.waitpid(pid, 0)[1] == status << 8

    def test_forked_process():
        made = multiprocessing.get_context("fork").Process(target=shop.total, args=([1],))
        made.start(); made.join()
        assert made.exitcode == 0

    @pytest.mark.parametrize("text", ["\\u2603", "\\udcff", "\\0", b"\\xff"])
    def test_odd_text(text): assert len(text) == 1
"""

WARNS = """
    import warnings
    import pytest
    import shop

    def test_expected():
        with pytest.warns(UserWarning) as caught:
            warnings.warn("mine")
            shop.total([1])
        assert [str(each.message) for each in caught] == ["mine"]

    def test_recorded():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            shop.total([1])
        assert caught == []

    def test_user(): warnings.warn("mine", UserWarning)
    def test_deprecated(): warnings.warn("old", DeprecationWarning)
    def test_pending(): warnings.warn("late", PendingDeprecationWarning)
    def test_unclosed(tmp_path): open(tmp_path / "file", "w")
    def test_bytes(): assert b"a" != "a"
    def test_encoding(tmp_path): (tmp_path / "file").write_text("x")

    def test_unawaited():
        async def forgotten(): pass
        forgotten()

    def test_unraisable():
        class Broken:
            def __del__(self): raise ValueError("of the end")
        Broken()

    def test_thread_that_fails():
        import threading
        def fail(): shop.total(["a"])
        thread = threading.Thread(target=fail)
        thread.start(); thread.join()
"""

FAILS = r"""
    import asyncio, sys
    import pytest
    import shop

    def test_assertion(): assert shop.total([1, 2]) == 4, "w\u00f6rds \u2603"
    def test_lists(): assert [1, "\u2603", 3] == [1, b"x", 3]
    def test_error():
        print("printed"); print("to stderr", file=sys.stderr)
        raise ValueError("\udcff \u2603")
    def test_text(): assert shop.pattern("a") == "a\\d "

    @pytest.fixture
    def broken(): shop.total([None])
    def test_setup(broken): pass

    @pytest.fixture
    def untidy():
        yield
        assert shop.total([1]) == 2
    def test_teardown(untidy): pass

    def test_task():
        async def fail(): assert shop.total([2]) == 1
        asyncio.run(fail())

    @pytest.mark.xfail
    def test_xfail(): assert 0
    @pytest.mark.xfail(strict=True)
    def test_xpass(): pass
    def test_skip(): pytest.skip("later")
"""

AT_START = """
    import os, tracemalloc

    if "STDERR_OF_TESTS" in os.environ:
        os.dup2(os.open(os.environ["STDERR_OF_TESTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT), 2)
    if "CIDELDILL_CHILD" in os.environ and "TRACED_TESTS" in os.environ:
        tracemalloc.start(int(os.environ["TRACED_TESTS"]))
"""
"""`sitecustomize`: a front end does not tell what its runs say on stderr, and to trace its memory
takes longer than all else."""


@dataclass(frozen=True, slots=True)
class Setting:
    """How pytest is started.

    Attributes:
        flags: Of Python.
        variables: Of the environment.
        arguments: Of pytest.
    """

    flags: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()


SETTINGS = {
    "filterwarnings = error": Setting(arguments=("--override-ini=filterwarnings=error",)),
    "-W error": Setting(("-W", "error")),
    "PYTHONWARNINGS": Setting(variables={"PYTHONWARNINGS": "error"}),
    "-X dev -b -b": Setting(("-X", "dev", "-b", "-b")),
    "-OO": Setting(("-OO",)),
    "tracemalloc, ASCII": Setting(
        variables={
            "PYTHONTRACEMALLOC": "1",
            "PYTHONUTF8": "0",
            "PYTHONCOERCECLOCALE": "0",
            "LC_ALL": "C",
        },
    ),
    "-I": Setting(("-I",)),
    "safe path, importlib": Setting(
        variables={"PYTHONSAFEPATH": "1"}, arguments=("--import-mode=importlib",)
    ),
    "no plugins": Setting(
        variables={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
        arguments=("-p", "cideldill", "-p", "no:logging", "-p", "no:faulthandler", "-s"),
    ),
}

CALLS = 12
"""Of the watched function by the tests themselves: their subprocesses are not debugged."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What a run told: to pytest's hooks, by its exit status, on stderr."""

    record: Record
    err: str


class Place:
    """A folder with the suites, run in all ways."""

    def __init__(self, folder: Path, setting: Setting) -> None:
        self._folder = folder
        self._setting = setting
        self._root = folder / "project"
        recorder = (INSIDE / "outcome_recorder.py").read_text(encoding="utf-8")
        files = {"shop.py": SHOP, "conftest.py": recorder, "pytest.ini": "[pytest]\npythonpath=.\n"}
        files |= {"test_clean.py": CLEAN, "test_warns.py": WARNS, "test_fails.py": FAILS}
        for name, text in files.items():
            _write(self._root / name, text)
        _write(folder / "path" / "sitecustomize.py", AT_START)

    @property
    def is_isolated(self) -> bool:
        """Whether Python ignores its variables."""
        return "-I" in self._setting.flags

    def run(self, name: str, *arguments: str) -> Ran:
        """From the command line."""
        record = self._folder / f"{name}.json"
        done = subprocess.run(
            [sys.executable, *self._setting.flags, *self._command(record), *arguments],
            cwd=self._root,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=DEADLINE_S,
        )
        err = done.stderr.decode(errors="backslashreplace")
        assert record.exists(), done.stdout.decode(errors="backslashreplace")[-3_000:] + err
        assert Record.read(record).exit_code == done.returncode
        return Ran(Record.read(record), _alike(err))

    def recorded(self) -> Ran:
        """With the calls of the shop and hits on one of its lines."""
        return self.run(
            "recorded",
            f"--cideldill-record={self._folder / 'kept'}",
            "--cideldill-record-calls=shop.*",
            "--cideldill-trace=shop.py:8=found {found}",
            r'--cideldill-trace=shop.py:11 if text != "\d" => {text + "\d"}',
        )

    def served(self) -> tuple[Ran, Counter[str]]:
        """With each failure and each call of a function paused, and evaluated in there."""
        record, errors = self._folder / "served.json", self._folder / "stderr"
        errors.touch()
        environment = self._environment() | {"STDERR_OF_TESTS": str(errors)}
        if traced := environment.pop("PYTHONTRACEMALLOC", None):
            environment["TRACED_TESTS"] = traced
        pauses: Counter[str] = Counter()
        arguments = self._command(record)[4:]
        started = server(self._root, *arguments, env=environment, flags=self._setting.flags)
        with connected(started) as agent:
            agent.call("breakpoint_add", function_name="shop.total")
            reply = agent.call("test_run")
            while reply["state"] not in OVER:
                for stop in agent.call("breakpoint_list_paused", max_chars=200_000)["paused"]:
                    pauses[stop["phase"]] += 1
                    _evaluate(agent, stop)
                    reply = agent.call("breakpoint_continue", pause_id=stop["pause_id"], wait=True)
        seen = Record.read(record)
        assert (reply["state"], reply["exit_code"]) == ("finished", seen.exit_code), reply
        assert "warnings" not in reply, reply
        return Ran(seen, _alike(errors.read_text(encoding="utf-8"))), pauses

    def _command(self, record: Path) -> list[str]:
        fixed = ["-m", "pytest", "-p", "no:cacheprovider", f"--record-outcomes={record}"]
        return [*fixed, f"--basetemp={self._folder / 'temporary'}", *self._setting.arguments]

    def _environment(self) -> dict[str, str]:
        fixed = {"PYTHONHASHSEED": "0", "PYTHONPATH": str(self._folder / "path")}
        return clean_environment() | fixed | self._setting.variables


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text), encoding="utf-8")


def _alike(err: str) -> str:
    """Without what no two runs have in common."""
    return re.sub(r"0x[0-9a-f]+", "0x…", err)


def _evaluate(agent: Agent, stop: dict[str, Any]) -> None:
    """An expression that a compiler warns about, and the locals."""
    id = stop["pause_id"]
    reported = agent.call("breakpoint_repl_eval", pause_id=id, expression=r'"\d" is 1')
    assert reported["output"] == "False", reported
    agent.call("variables_get", pause_id=id)


@pytest.mark.full
def test_a_recorded_run_is_as_a_plain_one_with_every_warning_an_error(tmp_path: Path) -> None:
    place = Place(tmp_path, SETTINGS["filterwarnings = error"])
    assert_same(place.run("plain", "-p", "no:cideldill"), place.recorded())


@pytest.mark.full
@pytest.mark.sample("-OO", "no plugins")
@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "setting", [pytest.param(each, id=name) for name, each in SETTINGS.items()]
)
def test_a_setting_changes_nothing_between_us_and_a_plain_run(
    setting: Setting, tmp_path: Path
) -> None:
    place = Place(tmp_path, setting)
    plain = place.run("plain", "-p", "no:cideldill")
    assert sum(len(each) for each in plain.record.reports.values()) >= 10
    assert_same(plain, place.run("idle"))
    assert_same(plain, place.recorded())
    served, pauses = place.served()
    assert_same(plain, served)
    counts = plain.record.counts
    passes_strictly = 1  # a test that was to fail: there is no exception to look at
    assert pauses == {
        "before": CALLS,
        "post_mortem": counts["failed"] + counts["error"] - passes_strictly,
    }


def assert_same(plain: Ran, other: Ran) -> None:
    """Reports with their texts, numbers, warnings, exit status and stderr."""
    different = differences(plain.record.reports, other.record.reports)
    assert different == {}, pformat(different, width=200)
    different = differences(plain.record.warnings, other.record.warnings)
    assert different == {}, pformat(different, width=200)
    assert other.record == plain.record
    assert other.err == plain.err
