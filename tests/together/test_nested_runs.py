"""pytest runs that tests of a recorded run start: neither recorded nor anything of ours printed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.together.conftest import MakeProject
from tests.together.frontend import clean_environment
from tests.together.records import QUIET, command
from tests.together.workbench import workbench

NESTED = """
    import contextlib, io, os, subprocess, sys
    import pytest

    OTHER = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "other.py"]

    def check(out):
        assert "1 passed" in out and "cideldill:" not in out, out

    @pytest.mark.parametrize("env", [{}, None], ids=["bare", "whole"])
    def test_child(env):
        check(subprocess.run(OTHER, env=env, capture_output=True, text=True).stdout)

    def test_grandchild():
        code = f"import subprocess; subprocess.run({OTHER!r}, env={{}})"
        line = [sys.executable, "-c", code]
        check(subprocess.run(line, env={}, capture_output=True, text=True).stdout)

    @pytest.mark.parametrize("clears", [False, True])
    def test_main(clears, monkeypatch):
        for name in list(os.environ) if clears else ():
            monkeypatch.delenv(name)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            assert pytest.main(OTHER[3:]) == 0
        check(out.getvalue())
"""
OTHER = "def test_other(): pass\n"
WAYS = ("recorded", "recorded by workers", "served", "served by workers")


@pytest.mark.full
@pytest.mark.sample("recorded", "served by workers")
@pytest.mark.parametrize("way", WAYS)
def test_runs_that_tests_start_leave_the_record_alone(make_project: MakeProject, way: str) -> None:
    """Whatever environment they get."""
    ini = "[pytest]\ncideldill_record = rec\n"
    project = make_project(test_it=NESTED, other=OTHER, **{"pytest.ini": ini})
    workers = 2 if "workers" in way else None
    if way.startswith("served"):
        with workbench(project) as bench:
            options = {} if workers is None else {"workers": workers}
            assert bench.run(["test_it.py"], pause_on="never", **options)["exit_code"] == 0
    else:
        line = command("test_it.py", *([] if workers is None else [f"-n{workers}"]))
        environment = clean_environment(PYTHONDONTWRITEBYTECODE="1")
        done = subprocess.run(line, cwd=project, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
        assert done.stdout.count("cideldill:") == 1
    assert len(list((project / "rec").glob("run-*"))) == 1


@pytest.mark.full
def test_runs_of_one_program_are_recorded_each(make_project: MakeProject) -> None:
    """One after the other, nobody's test has started them."""
    ini = "[pytest]\ncideldill_record = rec\n"
    project: Path = make_project(other=OTHER, **{"pytest.ini": ini})
    code = f"import pytest\nfor _ in range(2): assert pytest.main([*{QUIET!r}, 'other.py']) == 0"
    line = [*command()[:1], "-c", code]
    subprocess.run(line, cwd=project, env=clean_environment(), check=True, capture_output=True)
    assert len(list((project / "rec").glob("run-*"))) == 2
