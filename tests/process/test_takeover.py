"""What `pytest --cideldill-mcp` refuses, and what it says: before it becomes a server.

Every case is a process of its own: the
switch counts on a real command line only.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from tests.together.frontend import DEADLINE_S, FEW_GUESTS, clean_environment, module_command

USAGE_ERROR = int(pytest.ExitCode.USAGE_ERROR)
ON_COMMAND_LINE_ONLY = "--cideldill-mcp counts on the command line only"


def full(*values: Any) -> ParameterSet:
    """Parameters of the full tier."""
    return pytest.param(*values, marks=pytest.mark.full)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose conftest must not be loaded before something is refused."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (tmp_path / "conftest.py").write_text("print('conftest loaded')\n", encoding="utf-8")
    (tmp_path / "test_it.py").write_text("def test_it(): pass\n", encoding="utf-8")
    return tmp_path


def run(
    project: Path,
    *arguments: str,
    command: list[str] | None = None,
    environment: dict[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*(command or module_command()), *arguments],
        cwd=project,
        env=clean_environment(**(environment or {})),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


def refusal(done: subprocess.CompletedProcess[str]) -> str:
    """The one line of a usage error; stdout, which a client reads, must have stayed empty."""
    assert (done.returncode, done.stdout) == (USAGE_ERROR, ""), done
    (line,) = done.stderr.strip().splitlines()
    return line.removeprefix("ERROR: ")


def without_mcp(folder: Path, raises: str) -> str:
    """A folder for PYTHONPATH that makes the installed `mcp` look otherwise."""
    folder.mkdir()
    text = f"""
        import importlib.metadata as metadata
        real = metadata.version
        def version(name):
            if name == "mcp":
                {raises}
            return real(name)
        metadata.version = version
    """
    lines = [line[8:] for line in text.splitlines()]
    (folder / "sitecustomize.py").write_text("\n".join(lines), encoding="utf-8")
    return str(folder)


@pytest.mark.full
@pytest.mark.sample(
    "--pdb-", "--cideldill-lease=soon-", "--co-", "-f-", "--fixtures-", "--cideldill-tools=all-"
)
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--pdb"], "--pdb can't be used with --cideldill-mcp: it reads the terminal"),
        full(["--cideldill-lease=soon"], "--cideldill-lease: 'soon' is not a number of seconds"),
        full(["--co"], "--collect-only can't be used with --cideldill-mcp: the tool test_list"),
        full(["--trace"], "--trace can't be used with --cideldill-mcp: it reads the terminal"),
        full(["-f"], "-f (--looponfail) can't be used with --cideldill-mcp: it never ends"),
        full(["--markers"], "--markers can't be"),
        full(["--fixtures"], "--fixtures can't be"),
        full(["--fixtures-per-test"], "--fixtures-per-test can't"),
        full(["--cache-show"], "--cache-show can't be"),
        full(["--cideldill-tools=all"], "--cideldill-tools: 'all' is not one of: full, plan"),
        full(["--cideldill-start", ""], "--cideldill-start: '' is not one of: manual, run"),
        # pytest takes the last, but the first is no less wrong
        full(["--cideldill-lease=-1", "--cideldill-lease=5"], "--cideldill-lease: '-1' is not"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_stand_beside_the_switch_is_one_clear_line(
    project: Path, options: list[str], sentence: str
) -> None:
    """A usage error names what is wrong."""
    assert refusal(run(project, "--cideldill-mcp", *options)).startswith(sentence)


@pytest.mark.full
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--cideldill-http", "--pdb"], "--pdb can't be used with --cideldill-http: it reads"),
        (["--cideldill-http-address=0.0.0.0:0"], "--cideldill-http-address: '0.0.0.0:0' is not"),
        (["--cideldill-http-address="], "--cideldill-http-address: '' is not HOST:PORT"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_wrong_with_a_server_over_http_is_one_clear_line(
    project: Path, options: list[str], sentence: str
) -> None:
    assert refusal(run(project, *options)).startswith(sentence)


@pytest.mark.full
def test_a_port_that_is_in_use_is_one_clear_line(project: Path) -> None:
    """Whether or not stdio is asked for too: nobody is served half of it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        option = f"--cideldill-http-address=127.0.0.1:{taken.getsockname()[1]}"
        for switches in ([option], ["--cideldill-mcp", option]):
            reported = refusal(run(project, *switches))
            assert reported.startswith("--cideldill-http-address: can't listen on 127.0.0.1:")
            assert "choose another port, or 0 for any free one" in reported
        script = [sys.executable, "-m", "cideldill_mcp", "--"]
        done = run(project, option, command=script)
        assert (done.returncode, done.stdout) == (2, "")
        assert "error: --cideldill-http-address: can't listen on" in done.stderr


@pytest.mark.full
@pytest.mark.parametrize(
    "place", ["environment", full("ini file"), full("ini file and command line")]
)
def test_the_switch_anywhere_but_on_the_command_line_is_a_usage_error(
    project: Path, place: str
) -> None:
    """A nested pytest would become a server, read EOF and look green."""
    given = []
    environment = {}
    if place == "environment":
        environment["PYTEST_ADDOPTS"] = f"{FEW_GUESTS['PYTEST_ADDOPTS']} --cideldill-mcp"
    else:
        (project / "pytest.ini").write_text("[pytest]\naddopts = --cideldill-mcp\n", "utf-8")
    if "command line" in place:
        given.append("--cideldill-mcp")
    assert refusal(run(project, *given, environment=environment)).startswith(ON_COMMAND_LINE_ONLY)


@pytest.mark.full
@pytest.mark.sample("alone---cideldill-http", "beside the other---cideldill-http-address=*")
@pytest.mark.parametrize("option", ["--cideldill-http", "--cideldill-http-address=127.0.0.1:0"])
@pytest.mark.parametrize("given", [[], ["--cideldill-mcp"]], ids=["alone", "beside the other"])
def test_http_anywhere_but_on_the_command_line_is_a_usage_error(
    project: Path, option: str, given: list[str]
) -> None:
    """Both count on the command line only."""
    reported = f"{option.partition('=')[0]} counts on the command line only"
    for spelled in (option, option.replace("=", " ")):
        environment = {"PYTEST_ADDOPTS": spelled}
        assert refusal(run(project, *given, environment=environment)).startswith(reported)
    (project / "pytest.ini").write_text(f"[pytest]\naddopts = {option}\n", "utf-8")
    assert refusal(run(project, *given)).startswith(reported)


@pytest.mark.full
def test_a_program_that_calls_pytest_main_with_arguments_of_its_own_is_not_taken_over(
    project: Path,
) -> None:
    """The front end would replace a running program."""
    program = "import pytest; print(int(pytest.main(['--cideldill-mcp'])))"
    done = run(project, command=[sys.executable, "-c", program])
    assert (done.returncode, done.stdout) == (0, f"{USAGE_ERROR}\n")
    assert "inside pytest.main() of a running program is not possible" in done.stderr


def test_a_pytest_inside_a_test_is_not_taken_over(pytester: pytest.Pytester) -> None:
    """In-process runs are programs that call `pytest.main`."""
    result = pytester.runpytest_inprocess("--cideldill-mcp")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --cideldill-mcp inside pytest.main()*"])


@pytest.mark.full
@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_work_beside_the_switch(project: Path, option: str) -> None:
    """Both are asked by people, not by clients."""
    done = run(project, "--cideldill-mcp", option)
    assert done.returncode == 0
    expected = "--cideldill-lease" if option == "--help" else f"pytest {pytest.__version__}"
    assert expected in done.stdout + done.stderr


@pytest.mark.full
@pytest.mark.parametrize(
    ("lookup", "found"),
    [
        ("raise metadata.PackageNotFoundError(name)", "mcp is not installed"),
        full("return '1.9.4'", "mcp 1.9.4 is installed"),
        full("return '2.0.0rc1'", "mcp 2.0.0rc1 is installed"),
        full("return '3.0'", "mcp 3.0 is installed"),
    ],
    ids=["absent", "1.9", "2.0", "3.0"],
)
def test_without_the_extra_one_line_says_how_to_get_it(
    project: Path, tmp_path: Path, lookup: str, found: str
) -> None:
    """Architecture: one clear line that names the extra; a `mcp` folder is not the library."""
    (project / "mcp").mkdir()
    shim = {"PYTHONPATH": without_mcp(tmp_path / "shim", lookup)}
    done = run(project, "--cideldill-mcp", environment=shim)
    assert refusal(done) == (
        f"--cideldill-mcp needs the extra 'mcp' ({found}): pip install 'pytest-cideldill[mcp]'"
    )


def test_the_range_that_is_checked_is_that_of_the_extra() -> None:
    """One table per closed set: pyproject.toml rules."""
    required = importlib.metadata.requires("pytest-cideldill") or []
    ranges = {each.partition(";")[0].strip() for each in required if each.startswith("mcp")}
    assert ranges == {"mcp<3,>=2.1"}


@pytest.mark.full
@pytest.mark.skipif(os.name != "posix", reason="pty is POSIX only")
def test_at_a_terminal_it_says_how_to_configure_a_client_and_ends(project: Path) -> None:
    """It does not hang; the exit status is not 0, or a build would look green."""
    ours, theirs = os.openpty()
    command = [*module_command(), "--cideldill-mcp", "-k", "a b", "--cideldill-lease=60"]
    try:
        done = subprocess.run(
            command,
            cwd=project,
            env=clean_environment(),
            stdin=theirs,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert (done.returncode, done.stdout) == (USAGE_ERROR, "")
    (snippet,) = [line for line in done.stderr.splitlines() if "mcpServers" in line]
    server = json.loads(snippet)["mcpServers"]["pytest"]
    assert [server["command"], *server["args"]] == command
    assert "claude mcp add pytest -- " in done.stderr
    assert "-k 'a b'" in done.stderr
