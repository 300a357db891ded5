"""From `pytest --cideldill-mcp ARGS` to a front end whose runs are like plain ones."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.together.conftest import MakeProject
from tests.together.frontend import (
    DEADLINE_S,
    FrontEnd,
    clean_environment,
    front_end,
    module_command,
    wait_until,
)

pytestmark = [
    pytest.mark.long(55),
    pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="looks into /proc"),
]

SCRIPTS = Path(sys.executable).parent

# What a test sees of how its process was started.
PORTRAIT = """
    import json, os, sys

    def test_portrait(request):
        portrait = {
            "flags": list(sys.flags),
            "warnoptions": sys.warnoptions,
            "xoptions": {name: str(value) for name, value in sys._xoptions.items()},
            "path": sys.path,
            "argv0": sys.argv[0],
            "cwd": os.getcwd(),
            "environ": {k: v for k, v in os.environ.items() if k not in ("TMPDIR", "@MARK@")},
            "plugin": request.config.pluginmanager.hasplugin("early"),
            "asserts": __debug__,
            "mcp": "mcp" in sys.modules,
        }
        with open("portrait.json", "w", encoding="utf-8") as file:
            json.dump(portrait, file)
""".replace("@MARK@", "CIDELDILL_TEST_MARK")

HOSTILE = "raise AssertionError('a package of the user was taken for a library')"

# Every way to write to stdout that a test has.
NOISE = """
    import ctypes, os, subprocess, sys

    def make(place):
        print(place, "print")
        os.write(1, f"{place} fd\\n".encode())
        sys.__stdout__.write(f"{place} dunder\\n")
        sys.__stdout__.flush()
        libc = ctypes.CDLL(None)
        libc.puts(f"{place} puts".encode())
        libc.printf(b"%s printf\\n", place.encode())
        libc.fflush(None)
        subprocess.run(["echo", place, "echo"])
        subprocess.run([sys.executable, "-c", f"print('{place} python')"])
"""


def portrait(project: Path) -> dict[str, Any]:
    """What the test saw; the file is taken away."""
    path = project / "portrait.json"
    seen = json.loads(path.read_text(encoding="utf-8"))
    path.unlink()
    assert isinstance(seen, dict)
    return seen


def run_plainly(project: Path, command: list[str], **environment: str) -> dict[str, Any]:
    """The portrait of a run without us."""
    done = subprocess.run(
        command,
        cwd=project,
        env=clean_environment(**environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done
    return portrait(project)


def outcomes(server: FrontEnd) -> dict[str, str]:
    """Of the newest run: test name → outcome."""
    tests = server.call("test_results")["tests"]
    return {test["nodeid"].partition("::")[2]: test["outcome"] for test in tests}


@pytest.mark.full
@pytest.mark.sample("python -X -O -W -m pytest", "coverage run -m pytest", "python -I -m pytest")
@pytest.mark.parametrize(
    ("command", "environment"),
    [
        pytest.param(
            module_command("-X", "dev", "-O", "-W", "error::UserWarning"),
            {"PYTHONPATH": f"{os.curdir}{os.pathsep}lib{os.pathsep}"},
            id="python -X -O -W -m pytest",
        ),
        pytest.param(
            module_command("-I", "-X", "utf8"),
            {"PYTHONPATH": "lib", "PYTHONHOME": "nowhere"},
            id="python -I -m pytest",
        ),
        pytest.param(
            [str(SCRIPTS / "pytest")],
            {"PYTHONPATH": f"lib{os.pathsep}{os.pathsep}"},
            id="pytest",
        ),
        pytest.param(
            [sys.executable, "-m", "coverage", "run", "-m", "pytest"],
            {"PYTHONPATH": "lib"},
            id="coverage run -m pytest",
            marks=pytest.mark.skipif(not find_spec("coverage"), reason="coverage is not installed"),
        ),
    ],
)
def test_a_run_is_started_like_a_plain_one(
    make_project: MakeProject, command: list[str], environment: dict[str, str]
) -> None:
    """Flags, warnings, path, argv[0], cwd and environment are equal.

    A package and a module `mcp` of the user lie in the working directory and on PYTHONPATH; an
    empty entry of that means the working directory too.
    """
    hostile = {"mcp/__init__.py": HOSTILE, "lib/mcp.py": HOSTILE}
    project = make_project(test_it=PORTRAIT, **hostile, **{"early.py": ""})
    arguments = ["-p", "no:cacheprovider"]
    if "-I" not in command and command[0] == sys.executable:
        arguments += ["-p", "early"]  # found in the working directory, or not at all
    plain = run_plainly(project, [*command, *arguments], **environment)
    with front_end(project, *arguments, command=command, **environment) as server:
        server.initialize()
        reply = server.call("test_run")
        assert (reply["exit_code"], reply["outcomes"]["passed"]) == (0, 1), reply
        assert server.leave() == 0
    assert portrait(project) == plain
    assert plain["plugin"] == ("early" in arguments)


@pytest.mark.full
def test_stdout_carries_json_rpc_only_and_nothing_is_loaded_before_it_is_asked_for(
    make_project: MakeProject,
) -> None:
    """Measured on the bytes that a client reads."""
    project = make_project(
        noise=NOISE,
        conftest="import noise; noise.make('conftest'); open('loaded', 'w').close()",
        test_it="""
            import atexit, noise
            noise.make("module")

            def test_it():
                noise.make("test")
                atexit.register(noise.make, "atexit")
        """,
    )
    with front_end(project) as server:
        assert server.initialize()["serverInfo"]["name"] == "pytest-cideldill"
        server.request("tools/list")
        assert not (project / "loaded").exists()
        for further in ([], ["-s"]):
            reply = server.call("test_run", args=further)
            assert (reply["exit_code"], reply["outcomes"]["passed"]) == (0, 1), reply
            assert (project / "loaded").exists()
        server.hang_up()
        lines = server.read_to_the_end()
        server.wait_until_nothing_is_left()
    assert {json.loads(line)["jsonrpc"] for line in lines} == {"2.0"}
    assert b"conftest" not in server.written


@pytest.mark.full
def test_the_first_run_starts_by_itself_when_asked_to(make_project: MakeProject) -> None:
    """`--cideldill-start=run`; our options don't reach the run."""
    project = make_project(test_it="def test_it(): pass")
    options = ["--cideldill-start=run", "--cideldill-lease", "60"]
    with front_end(project, *options) as server:
        server.initialize()
        wait_until(lambda: server.call("debug_state")["state"] == "finished", "the run is over")
        assert outcomes(server) == {"test_it": "passed"}


@pytest.mark.full
def test_a_front_end_that_a_test_in_an_xdist_worker_started_is_no_worker(
    make_project: MakeProject,
) -> None:
    """Else its runs, which inherit the variable, would greet as worker `gw3` of nobody."""
    project = make_project(test_it="def test_it(): pass")
    with front_end(project, PYTEST_XDIST_WORKER="gw3", PYTEST_XDIST_WORKER_COUNT="4") as server:
        server.initialize()
        assert server.call("test_run")["outcomes"]["passed"] == 1
        (test,) = server.call("test_results")["tests"]
        assert test.get("worker", "main") == "main"


@pytest.mark.full
def test_the_console_script_serves_another_interpreters_tests(make_project: MakeProject) -> None:
    """`cideldill-mcp --python PATH -- ARGS`; `mcp` of the user as above."""
    project = make_project(test_it="def test_it(): pass", **{"lib/mcp.py": HOSTILE})
    script = [str(SCRIPTS / "cideldill-mcp"), "--python", sys.executable, "--", "-q"]
    with front_end(project, command=script, PYTHONPATH="lib", PYTEST_ADDOPTS="--pdb") as server:
        server.initialize()
        reply = server.call("test_run")
        assert reply["outcomes"]["passed"] == 1
        assert reply["warnings"] == [
            "--pdb of addopts or PYTEST_ADDOPTS is left out: it reads the terminal"
        ]
    with front_end(project, command=script, PYTHONPATH="lib") as server:
        server.initialize()
        assert server.call("test_run")["outcomes"]["passed"] == 1
        assert server.leave() == 0


@pytest.mark.full
def test_an_interpreter_that_cannot_be_started_is_reported_by_the_run(
    make_project: MakeProject,
) -> None:
    """The server lives on, the error names the thing."""
    project = make_project()
    missing = str(project / "no-python")
    script = [str(SCRIPTS / "cideldill-mcp"), "--python", missing, "--", "--cideldill-start=run"]
    with front_end(project, command=script) as server:
        server.initialize()
        result = server.request("tools/call", {"name": "test_run", "arguments": {}})
        assert result["isError"]
        assert missing in result["content"][0]["text"]
        assert server.leave() == 0


@pytest.mark.full
def test_pytest_inside_a_test_knows_nothing_of_the_front_end(make_project: MakeProject) -> None:
    """Subprocesses and nested runs don't connect.

    Each process that connects has a position file; a nested server is one of its own.
    """
    project = make_project(
        conftest="pytest_plugins = ['pytester']",
        test_it="""
            import os, subprocess, sys

            def run(*command):
                return subprocess.run(
                    [sys.executable, *command], stdin=subprocess.DEVNULL, capture_output=True,
                    text=True,
                )

            def test_the_environment_says_nothing():
                command = "import os; print([name for name in os.environ if 'CIDELDILL_C' in name])"
                assert run("-c", command).stdout == "[]\\n"
                assert "CIDELDILL_CHILD" not in os.environ

            def test_in_a_subprocess(pytester):
                path = pytester.makepyfile("def test_nested(): assert 0")
                assert run("-m", "pytest", str(path)).returncode == 1

            def test_in_process(pytester):
                pytester.makepyfile("def test_nested(): assert 0")
                pytester.inline_run().assertoutcome(failed=1)

            def test_as_a_server_of_its_own():
                done = run("-m", "pytest", "--cideldill-mcp")
                assert (done.returncode, done.stdout) == (0, "")

            def test_what_is_there_meanwhile():
                assert 0
        """,
    )
    with front_end(project, "-p", "no:cacheprovider") as server:
        server.initialize()
        (stop,) = server.call("test_run")["stops"]
        assert stop["nodeid"].endswith("test_what_is_there_meanwhile")
        (private,) = server.private()
        assert len(list(private.glob("*.position"))) == 1
        server.call("breakpoint_continue", pause_id=stop["pause_id"], wait=True)
        expected = dict.fromkeys(
            (
                "test_the_environment_says_nothing",
                "test_in_a_subprocess",
                "test_in_process",
                "test_as_a_server_of_its_own",
            ),
            "passed",
        )
        assert outcomes(server) == {"test_what_is_there_meanwhile": "failed"} | expected
        assert server.leave() == 0


@pytest.mark.full
@pytest.mark.sample("arguments0-*", "arguments3-*", "arguments4-*")
@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["-m", "pytest", "--cideldill-mcp"], 4),
        (["-m", "pytest", "--cideldill-http"], 4),
        (["-m", "pytest", "--cideldill-record=rec"], 4),
        (["-m", "cideldill_mcp"], 2),
        (["-m", "cideldill_mcp", "demo"], 1),
    ],
)
def test_where_nothing_can_be_written_one_line_says_so(
    make_project: MakeProject, arguments: list[str], status: int
) -> None:
    """No traceback; also where the disk is full, as here."""
    done = subprocess.run(
        [sys.executable, "-B", *arguments],
        cwd=make_project(test_it="def test_it(): pass"),
        env=clean_environment(),
        input="",
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
    )
    assert done.returncode == status
    said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    said = [line for line in said if not line.startswith(("usage:", " "))]
    assert len(said) == 1 or arguments[-1] == "demo", said  # which wraps its lines
    if "rec" not in arguments[-1]:
        assert "can be made: No usable temporary directory found in" in " ".join(said)
        assert " ".join(said).endswith("set TMPDIR to one that can be written")
