"""One line when a plain run fails that an agent started, and nothing otherwise."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_cideldill.config import agents
from tests.together.driver import DEADLINE_S
from tests.together.frontend import clean_environment

BAD = "def test_good(): pass\ndef test_bad(): assert 1 == 2\n"
LINE = "cideldill: why? → cideldill why 'test_it.py::test_bad'"
PLAIN = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider")


def run(
    project: Path, *arguments: str, agent: str | None = "CLAUDECODE", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run pytest in a project as an agent does."""
    set_by_agent = {} if agent is None else {agent: "1"}
    return subprocess.run(
        [*PLAIN, *arguments],
        cwd=project,
        env=clean_environment(**set_by_agent, **environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=DEADLINE_S,
        check=False,
    )


def hints(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The lines that are ours."""
    printed = (done.stdout + done.stderr).splitlines()
    return [each for each in printed if re.match(r"(pytest-)?cideldill: |pytest_", each)]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "test_it.py").write_text(BAD, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:randomly\n", encoding="utf-8")
    return tmp_path


def timeless(output: str) -> str:
    return re.sub(r"=+ (.*) in \d+\.\d+s =+", r"\1 in TIME", output)


@pytest.mark.full
def test_an_agents_run_that_fails_ends_with_the_command_for_its_first_failure(
    project: Path,
) -> None:
    """Below all other summaries; the line with the counts, which programs read, stays the last."""
    done = run(project)
    assert done.returncode == 1
    *_, failed, line, last = done.stdout.splitlines()
    assert failed.startswith("FAILED test_it.py::test_bad")
    assert line == LINE
    assert "1 failed, 1 passed" in last
    plain = run(project, agent=None)
    assert timeless(plain.stdout) == timeless(done.stdout.replace(f"{LINE}\n", ""))


def test_every_variable_of_the_table_counts_if_it_is_not_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert list(agents.VARIABLES[2:]) == sorted(set(agents.VARIABLES[2:]))
    for name in agents.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert not agents.is_here()
    for name in agents.VARIABLES:
        monkeypatch.setenv(name, "")
        assert not agents.is_here()
        monkeypatch.setenv(name, "codex_cli@1.2")
        assert agents.is_here(), name
        monkeypatch.delenv(name)


@pytest.mark.full
@pytest.mark.parametrize(
    "arguments",
    [("-q", "-x", "--tb=no"), ("-n1",)],
    ids=" ".join,
)
def test_the_line_is_there_whatever_else_is_shown(
    project: Path, arguments: tuple[str, ...]
) -> None:
    assert hints(run(project, *arguments)) == [LINE]


@pytest.mark.full
@pytest.mark.parametrize(
    "arguments",
    [
        ("-k", "good"),
        ("--no-summary",),
        ("-p", "no:terminal"),
        ("--collect-only",),
        ("--cideldill-record=rec", "-q", "-q"),
        ("-o", "cideldill_hint=false"),
    ],
    ids=" ".join,
)
def test_there_is_no_line_without_a_reason(project: Path, arguments: tuple[str, ...]) -> None:
    assert hints(run(project, *arguments)) == []


@pytest.mark.full
def test_the_table_of_the_project_switches_it_off(project: Path) -> None:
    (project / "cideldill.toml").write_text("hint = false\n", encoding="utf-8")
    assert hints(run(project)) == []
    (project / "cideldill.toml").write_text("hint = 'maybe'\n", encoding="utf-8")
    (reported,) = hints(run(project))
    assert "cideldill_hint: 'maybe' is neither true nor false" in reported
    assert run(project).returncode == 1


@pytest.mark.full
@pytest.mark.parametrize(
    "text", ["def test_stops(): raise KeyboardInterrupt\n" + BAD, "import no_such_module\n"]
)
def test_a_run_that_ended_before_a_test_failed_has_no_line(project: Path, text: str) -> None:
    """A file that can't be collected is no test."""
    (project / "test_it.py").write_text(text, encoding="utf-8")
    done = run(project)
    assert (done.returncode, hints(done)) == (2, [])


@pytest.mark.full
def test_a_failing_fixture_is_a_failure_of_its_test(project: Path) -> None:
    (project / "test_it.py").write_text(
        "import pytest\n@pytest.fixture\ndef broken(): assert 0\ndef test_bad(broken): pass\n",
        encoding="utf-8",
    )
    assert hints(run(project)) == [LINE]


@pytest.mark.full
def test_a_node_id_reaches_the_command_as_it_is(project: Path) -> None:
    """Read by a shell."""
    (project / "test_it.py").write_text(
        "import pytest\n@pytest.mark.parametrize('word', ['it\\'s $HOME `x` \\\\ \"q\"'])\n"
        "def test_bad(word): assert 0\n",
        encoding="utf-8",
    )
    (line,) = hints(run(project, "--tb=no", "-rN"))
    command = line.partition("→ ")[2]
    echoed = subprocess.run(
        ["sh", "-c", f'cideldill() {{ printf "%s\\n" "$2"; }}; {command}'],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    wanted = 'test_it.py::test_bad[it\'s $HOME `x` \\\\ "q"]'
    assert echoed.stdout == f"{wanted}\n"
    assert shlex.split(command) == ["cideldill", "why", wanted]


@pytest.mark.full
def test_runs_that_tests_start_print_what_the_tests_expect(project: Path) -> None:
    """In the same process, and in one of their own."""
    inner = project / "inner"
    inner.mkdir()
    (inner / "test_inner.py").write_text(BAD, encoding="utf-8")
    (project / "test_it.py").write_text(
        "import subprocess, sys, pytest\n"
        "def test_inside(): assert pytest.main(['-q', 'inner']) == 1\n"
        "def test_beside(): subprocess.run([sys.executable, '-m', 'pytest', 'inner'])\n",
        encoding="utf-8",
    )
    done = run(project, "-s", "test_it.py")
    assert done.stdout.count("1 failed") == 2
    assert hints(done) == []


@pytest.mark.full
def test_nothing_is_imported_for_it_without_an_agent(project: Path) -> None:
    (project / "conftest.py").write_text(
        "import pathlib, sys\n"
        "def pytest_unconfigure():\n"
        "    ours = [each for each in sys.modules if each.startswith('pytest_cideldill')]\n"
        "    pathlib.Path('modules').write_text(' '.join(sorted(ours)))\n",
        encoding="utf-8",
    )
    run(project, agent=None)
    modules = (project / "modules").read_text(encoding="utf-8").split()
    assert "pytest_cideldill.config.agents" in modules
    assert not [each for each in modules if each.startswith("pytest_cideldill.hooks.")]
    run(project)
    assert "pytest_cideldill.hooks.hint" in (project / "modules").read_text(encoding="utf-8")


def test_no_agent_is_known_to_our_own_tests() -> None:
    """Their runs would end with the line."""
    assert not [name for name in agents.VARIABLES if name in os.environ]
