"""`cideldill QUESTION …` in a shell: what it prints, its exit codes, and that nothing is left.

Most are called in this process; those that are about the command's own process have one. What runs
in place of pytest is `tests/together/asked.py`, but for the sources.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import pty
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from cideldill_mcp.commands.main import main
from cideldill_mcp.commands.rootdir_and_venv import interpreter, rootdir
from tests.together.asked import fake_python, living
from tests.together.driver import DEADLINE_S
from tests.together.frontend import clean_environment, wait_until

NO_EXTRA = "('mcp', 'mcp_types', 'anyio', 'pydantic', 'pydantic_core')"
"""Packages that a question needs not."""

CODE = (
    f"import sys; sys.modules.update(dict.fromkeys({NO_EXTRA})); "
    "from cideldill_mcp.commands.main import main; sys.exit(main())"
)


class Shell:
    """A project in which commands are given, and their `TMPDIR`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.scratch = folder / "scratch"
        self.scratch.mkdir()
        self.project = folder / "project"
        self.project.mkdir()
        (self.project / "pytest.ini").touch()
        self.python = str(fake_python(folder))
        self.environment = clean_environment(TMPDIR=str(self.scratch))

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-c", CODE, *arguments]

    def __call__(self, *arguments: str, cwd: str = ".") -> subprocess.CompletedProcess[str]:
        """A command, called in this process."""
        out, err = io.StringIO(), io.StringIO()
        with (
            contextlib.chdir(self.project / cwd),
            patch.dict(os.environ, self.environment, clear=True),
            patch.object(tempfile, "tempdir", str(self.scratch)),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            status = _status_of(arguments)
        self.check_clean()
        return subprocess.CompletedProcess(arguments, status, out.getvalue(), err.getvalue())

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command, as a shell runs it."""
        done = subprocess.run(
            self.command(*arguments),
            cwd=self.project,
            env=self.environment,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=DEADLINE_S,
            check=False,
        )
        self.check_clean()
        return done

    def tracing(self, name: str) -> list[str]:
        return ["trace", f"test_it.py::{name}", "--python", self.python]

    def trace(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self(*self.tracing(name), *arguments)

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            self.command(*arguments), cwd=self.project, env=self.environment, **options
        )
        wait_until(lambda: bool(living(self.scratch)), "the question's process runs")
        return process

    def check_clean(self) -> None:
        assert living(self.scratch) == []
        assert [path.name for path in self.scratch.glob("cideldill-*")] == []


def _status_of(arguments: tuple[str, ...]) -> int:
    """The exit code of a command that leaves the collector as it was."""
    try:
        return main(arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else -1
    finally:
        gc.enable()


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_a_question_prints_its_text_without_the_extra(shell: Shell) -> None:
    done = shell.run(*shell.tracing("good"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("test_it.py::good  passed\n")
    assert "\x1b" not in done.stdout


@pytest.mark.full
def test_what_is_refused_is_reported_by_the_process_of_a_command(shell: Shell) -> None:
    """Exit codes and streams of refusals are those of the calls in this process."""
    for words in (shell.tracing("missing"), ["source", "no.such"], ["trace"], ["nothing"], []):
        done, called = shell.run(*words), shell(*words)
        assert done.returncode in (1, 2)
        assert (done.returncode, done.stdout, done.stderr) == (
            called.returncode,
            called.stdout,
            called.stderr,
        )


def test_json_is_the_whole_reply(shell: Shell) -> None:
    done = shell.trace("good", "--json")
    reply = json.loads(done.stdout)
    assert reply["text"] + "\n" == shell.trace("good").stdout
    assert (reply["id"], reply["outcome"], reply["calls"]) == ("q1", "passed", 2)


def test_options_may_stand_anywhere_and_arguments_of_pytest_behind_dashes(shell: Shell) -> None:
    done = shell.trace("request", "--max-chars", "20000", "shop.total", "--", "-x", "--call", "7")
    assert done.returncode == 1  # it has no call; what it was asked is in its output
    assert "makes no call of a function 'shop.total'" in done.stderr


@pytest.mark.full
@pytest.mark.quick("arguments0-*", "arguments3-*", "arguments8-*")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "the following arguments are required"),
        (("x.py::t", "--call", "2"), "parameter 'call' is '2', expected nothing"),
        (("x.py::t", "f", "--call", "0"), "expected integer of at least 1"),
        (("x.py::t", "f", "--when", "x >"), "expected expression"),
        (("x.py::t", "f", "--call", "2", "--when", "x"), "not allowed with argument"),
        (("x.py::t", "a b"), "is no function name"),
        (("x.py::t", "--timeout", "0"), "parameter 'timeout_s'"),
        (("x.py::t", "--max-chars", "9"), "parameter 'max_chars'"),
        (("x.py::t", "--", "--cideldill-lease=soon"), "--cideldill-lease"),
    ],
)
def test_wrong_usage_ends_with_2(shell: Shell, arguments: tuple[str, ...], words: str) -> None:
    done = shell("trace", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usage: cideldill trace [-h]")
    assert words in done.stderr


@pytest.mark.full
@pytest.mark.quick("missing-*")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("missing", "no test 'test_it.py::missing'; did you mean test_it.py::test_missing?"),
        ("silent", "is pytest-cideldill installed for it?"),
        ("refuses", "len is made in C"),
    ],
)
def test_what_has_no_answer_ends_with_1(shell: Shell, name: str, words: str) -> None:
    done = shell.trace(name)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("cideldill: ")
    assert words in done.stderr
    reply = json.loads(shell.trace(name, "--json").stdout)
    assert words in reply["message"]


@pytest.mark.full
def test_an_interpreter_that_is_not_there_is_named(shell: Shell) -> None:
    done = shell("trace", "x.py::t", "--python", "no-such-python")
    assert done.returncode == 1
    assert "no-such-python can't be started" in done.stderr


@pytest.mark.full
def test_what_is_known_when_the_time_is_over_is_an_answer(shell: Shell) -> None:
    done = shell.trace("hangs", "--timeout", "1")
    assert done.returncode == 0
    assert done.stdout.startswith(
        "partial: the test was ended by Ctrl-C after 1 s (timeout_s is 1)\n"
    )


@pytest.mark.full
def test_ctrl_c_ends_its_processes(shell: Shell) -> None:
    process = shell.start(
        "trace", "test_it.py::hangs", "--python", shell.python, stderr=subprocess.PIPE
    )
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, errors) == (130, b"")
    shell.check_clean()


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_command_leaves_nothing_for_long(shell: Shell, number: int) -> None:
    process = shell.start("trace", "test_it.py::hangs", "--python", shell.python)
    process.send_signal(number)
    process.wait(DEADLINE_S)
    wait_until(lambda: not living(shell.scratch), "the reaper ends the question's process")
    wait_until(lambda: not [*shell.scratch.glob("cideldill-*")], "and removes its folder")


def on_terminal(shell: Shell, *arguments: str, **environment: str) -> str:
    """What a command prints on a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        shell.command(*arguments),
        cwd=shell.project,
        env=shell.environment | {"TERM": "xterm"} | environment,
        stdout=theirs,
        stderr=theirs,
        stdin=subprocess.DEVNULL,
    )
    os.close(theirs)
    printed = b""
    try:
        while data := os.read(ours, 4096):
            printed += data
    except OSError:
        pass  # the other end is closed
    finally:
        os.close(ours)
    assert process.wait(DEADLINE_S) == 0
    return printed.decode()


@pytest.mark.full
def test_a_terminal_gets_progress_and_red_failures(shell: Shell) -> None:
    command = ("trace", "test_it.py::{}", "--python", shell.python)
    failing = [each.format("raises") for each in command]
    assert "\x1b[31m" in on_terminal(shell, *failing)
    assert "\x1b[31m" not in on_terminal(shell, *failing, NO_COLOR="1")
    hanging = [each.format("hangs") for each in command]
    shown = on_terminal(shell, *hanging, "--timeout", "4")
    assert "\r\x1b[Ktests run 2 s: test_it.py::hangs" in shown
    assert "\r\x1b[Kpartial: " in shown


# --- source -------------------------------------------------------------------------------------

SHOP = '''\
import functools

RATE = 2


class Cart:
    """What somebody buys."""

    password = "hunter2-is-secret"

    @functools.cache
    def total(self):
        return RATE

    @property
    def size(self):
        return 1

    @size.setter
    def size(self, value):
        pass


def total(items):
    def inner():
        return 1

    return sum(items)
'''


@pytest.fixture
def shop(shell: Shell) -> Shell:
    folder = shell.project / "shop"
    folder.mkdir()
    (folder / "cart.py").write_text(SHOP)
    return shell


@pytest.mark.full
@pytest.mark.quick("shop.cart.total-*", "shop/cart.py:26-*", "Cart-*")
@pytest.mark.parametrize(
    ("name", "first", "last"),
    [
        ("shop.cart.total", 24, 28),
        ("shop/cart.py::total", 24, 28),
        ("shop.cart:Cart.total", 11, 13),
        ("inner", 25, 26),
        ("shop/cart.py:26", 25, 26),
        ("shop/cart.py:28", 24, 28),
        ("shop/cart.py:11", 11, 13),
        ("Cart", 6, 21),
    ],
)
def test_a_function_is_shown_as_written(shop: Shell, name: str, first: int, last: int) -> None:
    reply = json.loads(shop("source", name, "--json").stdout)
    assert (reply["file"], reply["first"], reply["last"]) == ("shop/cart.py", first, last)
    assert "nodeid" not in reply
    head, *lines = reply["text"].splitlines()
    assert head.startswith(f"shop/cart.py:{first}–{last}  ")
    assert [int(line.split()[0]) for line in lines] == [*range(first, last + 1)]
    source = SHOP.splitlines()[first - 1 : last]
    shown = [line.lstrip().partition(" ")[2].strip() for line in lines]
    for expected, line in zip(source, shown, strict=True):
        assert line == expected.strip() or "password" in line
    assert "hunter2" not in reply["text"]


def test_paths_may_begin_where_the_command_was_started(shop: Shell) -> None:
    for name in ("cart.py::total", "cart.py:24", "shop/cart.py::total"):
        done = shop("source", name, cwd="shop")
        assert done.stdout.startswith("shop/cart.py:24–28  "), done.stderr


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("shop.cart.totl", "did you mean shop.cart.total"),
        ("shop/gone.py:3", "'shop/gone.py' is not found"),
    ],
)
def test_what_is_not_defined_is_refused(shop: Shell, name: str, words: str) -> None:
    done = shop("source", name)
    assert done.returncode == 1
    assert words in done.stderr


@pytest.mark.full
def test_a_long_function_is_cut(shop: Shell) -> None:
    lines = "".join(f"    value = {number}\n" for number in range(400))
    (shop.project / "long.py").write_text(f"def long():\n{lines}")
    reply = json.loads(shop("source", "long", "--max-chars", "1000", "--json").stdout)
    assert len(reply["text"]) <= 1000
    assert reply["truncated"] is True
    assert (reply["first"], reply["last"]) == (1, 401)


@pytest.mark.full
def test_the_lines_that_a_test_ran_are_marked(shop: Shell) -> None:
    """By the name of the one function that is meant; those of a class are all counted."""
    options = ("--test", "test_it.py::counts", "--python", shop.python, "--json")
    reply = json.loads(shop("source", "shop.cart.total", *options).stdout)
    assert (reply["nodeid"], reply["outcome"]) == ("test_it.py::counts", "passed")
    assert reply["lines_run"] == 2
    assert "3×" in reply["text"]
    assert json.loads(shop("source", "Cart", *options).stdout)["lines_run"] == 0


# --- the place of the tests ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "arguments", "found"),
    [
        ({"a/pytest.ini": ""}, [], "a"),
        ({"pyproject.toml": "[tool.pytest.ini_options]\n", "a/pyproject.toml": ""}, [], "."),
        ({"tox.ini": "[pytest]\n", "a/setup.cfg": "[metadata]\n"}, [], "."),
        ({"setup.cfg": "[tool:pytest]\n"}, [], "."),
        ({"setup.py": "", "a/pyproject.toml": ""}, [], "."),
        ({"a/pyproject.toml": ""}, [], "a"),
        ({}, [], "a/b"),
        ({"a/pytest.ini": ""}, ["--rootdir=.."], "a"),
        ({"a/pytest.ini": "", "other/x.ini": ""}, ["-q", "-c", "../../other/x.ini"], "other"),
    ],
)
def test_the_rootdir_is_that_of_pytest(
    tmp_path: Path, files: dict[str, str], arguments: list[str], found: str
) -> None:
    start = tmp_path / "a" / "b"
    start.mkdir(parents=True)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert rootdir(str(start), arguments) == str((tmp_path / found).resolve())


def test_the_interpreter_is_that_of_the_nearest_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(folder: Path) -> str:
        python = folder / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.touch(0o755)
        return str(python)

    root = tmp_path / "root"
    start = root / "tests"
    start.mkdir(parents=True)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    outside = make(tmp_path / ".venv")
    assert interpreter(str(start), str(root)) == sys.executable
    active = make(tmp_path / "active")
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "active"))
    assert interpreter(str(start), str(root)) == active
    own = make(root / ".venv")
    assert interpreter(str(start), str(root)) == own
    nearest = make(start / ".venv")
    assert interpreter(str(start), str(root)) == nearest
    assert interpreter(str(tmp_path), str(tmp_path)) == outside


# --- help, and the other commands ---------------------------------------------------------------


def test_the_help_lists_every_command(shell: Shell) -> None:
    shown = shell("--help").stdout
    for name in ("trace", "source", "show", "report"):
        assert f"\n    {name} " in shown
    assert shell("--version").stdout.startswith("pytest-cideldill ")
    assert shell("show", "no-record").returncode == 1
    assert shell("nothing").returncode == 2


def test_a_command_imports_little(shell: Shell) -> None:
    """It is to answer little later than pytest does: neither reports nor runs are loaded."""
    code = (
        "import sys; from cideldill_mcp.commands.main import main; main(sys.argv[1:]); "
        "print(*sys.modules, sep='\\n')"
    )
    arguments = ("trace", "test_it.py::good", "--python", shell.python)
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=shell.project,
        env=shell.environment,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )
    loaded = set(done.stdout.splitlines())
    assert "cideldill_mcp.questions.trace.ask_trace" in loaded
    unwanted = ("mcp", "anyio", "pydantic", "cideldill_mcp.runs.registry", "importlib.metadata")
    assert not loaded & {*unwanted, "pytest", "pytest_cideldill.reports.digest", "sqlite3"}
