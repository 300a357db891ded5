"""What a recorded run leaves for people: page, summary, `cideldill show`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.together.driver import DEADLINE_S
from tests.together.records import recorded
from tests.together.test_recorded_runs import TEST, TILL, TRACE
from tests.together.transcript import blocks

ROOT = Path(__file__).resolve().parents[2]

NO_EXTRA = "import sys; sys.modules.update(dict.fromkeys(('mcp', 'anyio', 'cideldill_mcp'))); "


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A project with a test that fails."""
    for name, text in {"till.py": TILL, "test_till.py": TEST, "conftest.py": ""}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def cideldill(project: Path, *arguments: str) -> str:
    """What the console script prints, where the extra is not installed."""
    code = NO_EXTRA + "from pytest_cideldill.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=project,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=DEADLINE_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def page_data(page: Path) -> dict[str, Any]:
    """What a page of one run has for its script."""
    text = page.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text)
    assert found
    (reported,) = json.loads(found[1])
    return dict(reported)


@pytest.mark.full
@pytest.mark.parametrize(
    "workers",
    [pytest.param((), id="alone"), pytest.param(("-n2",), id="n2", marks=pytest.mark.soak)],
)
def test_page_summary_and_show_report_the_same_run(shop: Path, workers: tuple[str, ...]) -> None:
    """Made by the run itself, which ends as without them; again by the console script."""
    calls = "--cideldill-record-calls=till.*"
    run = recorded(shop, "--cideldill-summary=sum.md", TRACE, calls, *workers)
    assert run.exit_code == 1
    assert run.out.splitlines()[-1].endswith(" 4 hits, 3 calls, 0 dropped")

    page = run.record / "report.html"
    text = page.read_text(encoding="utf-8")
    (events,) = run.record.glob("run-*/events.jsonl")
    assert {each.stat().st_mode & 0o777 for each in (page, events)} == {0o600}
    assert "1 failed, 2 passed, 1 skipped in " in text
    assert "assert total([1, 2]) == 4" in text
    reported = page_data(page)
    assert (len(reported["hits"]), len(reported["calls"])) == (4, 3)
    assert reported["tracepoints"] == [
        ["till.py:5", "price={price} amount={amount}", "price > 1", 4]
    ]
    assert {row[0]: row[4] for row in reported["tests"]} == {
        "test_till.py::test_total[1]": "passed",
        "test_till.py::test_total[2]": "passed",
        "test_till.py::test_wrong": "failed",
        "test_till.py::test_later": "skipped",
    }
    assert all(each for each in reported["objects"])

    summary = (shop / "sum.md").read_text(encoding="utf-8")
    assert summary.startswith("### ❌ 1 failed, 2 passed, 1 skipped in ")
    assert "- **`test_till.py::test_wrong`** at `test_till.py:10`" in summary
    assert "AssertionError: assert 3 == 4" in summary
    assert summary.endswith("Recorded in `rec`: 4 hits, 3 calls, 0 dropped beyond the limits.\n")

    shown = cideldill(shop, "show", "rec")
    assert "FAILED test_till.py::test_wrong - AssertionError: assert 3 == 4" in shown
    assert "1 failed, 2 passed, 1 skipped in " in shown
    cideldill(shop, "report", "rec", "-o", "again.html", "--summary", "again.md")
    assert (shop / "again.html").read_text(encoding="utf-8") == text
    assert (shop / "again.md").read_text(encoding="utf-8") == summary


@pytest.mark.full
def test_a_summary_needs_a_record(shop: Path) -> None:
    """As `--cideldill-trace` does."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--cideldill-summary=sum.md"],
        cwd=shop,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 4
    assert "--cideldill-summary needs --cideldill-record=DIR" in done.stderr
    assert not (shop / "sum.md").exists()


@pytest.mark.full
def test_what_can_not_be_written_is_reported_and_changes_nothing(shop: Path) -> None:
    """In the one line at the end; the record itself is there."""
    (shop / "rec" / "report.html").mkdir(parents=True)
    run = recorded(shop, "--cideldill-summary=no/sum.md")
    assert run.exit_code == 1
    last = run.out.splitlines()[-1]
    assert last.startswith(f"cideldill: recorded in {run.run}: ")
    assert "; no report.html: " in last
    assert last.endswith("; no no/sum.md: No such file or directory")
    assert cideldill(shop, "show", "rec")
    assert not [each for each in run.record.iterdir() if each.name.endswith(".tmp")]


LOOP = """
def once(number):
    return number

def test_it():
    for number in range(1_200):
        once(number)
"""


@pytest.mark.full
def test_the_page_that_a_run_makes_has_the_first_and_the_last_ones(tmp_path: Path) -> None:
    """As many as docs/recording.md says; made anew it has more."""
    (tmp_path / "test_it.py").write_text(LOOP)
    calls = "--cideldill-record-calls=test_it.once"
    run = recorded(tmp_path, "--cideldill-trace=test_it.py:3={number}", calls)
    assert run.exit_code == 0, run.out + run.err
    cideldill(tmp_path, "report", "rec", "-o", "whole.html")
    quick, whole = page_data(run.record / "report.html"), page_data(tmp_path / "whole.html")
    ends = [*range(500), *range(700, 1_200)]
    assert [int(each[5]) for each in quick["hits"]] == ends
    assert (len(quick["calls"]), quick["left_out"]) == (1_000, "200 hits and 200 calls")
    assert (len(whole["hits"]), len(whole["calls"]), whole["left_out"]) == (1_200, 1_200, "")


@pytest.mark.full
def test_a_page_reports_the_runs_of_a_record(shop: Path) -> None:
    """The newest first; what is broken in another run harms nobody."""
    first = recorded(shop)
    (first.record / "run-20000101T000000Z-c0").mkdir()
    (first.record / "run-20000101T000000Z-c0" / "events.jsonl").write_text(
        '{"n":1,"ts":1.0,"type":"worker_up","worker":"main"}\n'
    )
    run = recorded(shop, "test_till.py::test_later")
    assert run.exit_code == 0
    text = (run.record / "report.html").read_text(encoding="utf-8")
    found = re.findall(r'<section id="run\d" class="run" aria-label="([^"]+)">', text)
    newest, older = run.runs[-1], run.runs[-2]
    assert found == [newest.name, older.name]
    assert "1 older run in the record" in text
    assert newest.name in cideldill(shop, "show", "rec", "--run", newest.name[-6:])


APART = """
import pathlib, sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from till import Till, total


def add(a, b):
    def outside(): return a
    return outside() + b


def test_one():
    assert add(total([1]), Till().ring()) == 3


def test_two():
    pass
"""

GLOBS = {
    "test_it.add": None,
    "test_it.add.*": None,
    "test_it.nothing": "never_imported (nothing of this name was loaded)",
    "add": "no_code (the dotted path is test_it.add)",
    "total": "no_code (the dotted path is till.total)",
    "till.T*": "no_code (till.Till.ring is beside the rootdir: cideldill_user_paths = ../till.py",
    "json.*": "is not in user code",
}
"""What `--cideldill-record-calls` may be given → why nothing is recorded of it."""


@pytest.mark.full
@pytest.mark.sample("alone")
@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "n2"])
def test_globs_that_recorded_no_call_say_why(tmp_path: Path, workers: tuple[str, ...]) -> None:
    """Of several workers some never load what others do; a function may just not be called."""
    (tmp_path / "till.py").write_text(
        "def total(xs): return sum(xs)\n\nclass Till:\n    def ring(self): return 2\n"
    )
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "pytest.ini").touch()
    (tests / "test_it.py").write_text(APART)
    run = recorded(
        tmp_path, "tests", *workers, *(f"--cideldill-record-calls={each}" for each in GLOBS)
    )
    assert run.exit_code == 0, run.out
    reported = cideldill(tmp_path, "show", "rec")
    for glob, why in GLOBS.items():
        (line,) = [each for each in reported.splitlines() if f" calls of {glob}:" in each] or [""]
        assert (why or "") in line, reported
        assert bool(line) is (why is not None), reported


# --- docs/recording.md and examples/ci ----------------------------------------------------------


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """A copy of the example shop; `python`, `cideldill` and a summary file for a shell there."""
    shop = shutil.copytree(ROOT / "examples" / "shop", tmp_path / "shop")
    folder = tmp_path / "bin"
    folder.mkdir()
    modules = {
        "python": "",
        "cideldill": "-m pytest_cideldill",
        "cideldill-mcp": "-m cideldill_mcp",
    }
    for name, arguments in modules.items():
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
        script.chmod(0o755)
    return shop


def shell(shop: Path, line: str, exit_code: int) -> str:
    """What a line of a page, or of a recipe, prints."""
    more = {
        "PATH": f"{shop.parent / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "GITHUB_STEP_SUMMARY": str(shop / "page.md"),
        "CI_JOB_STATUS": "failed",
    }
    done = subprocess.run(
        ["bash", "-ec", line],
        cwd=shop,
        env=os.environ | more,
        stdin=subprocess.DEVNULL,  # a server ends at its end
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=DEADLINE_S * 4,
        check=False,
    )
    assert (line, done.returncode) == (line, exit_code), done.stderr
    return done.stdout


def is_as_shown(shown: str, reported: str) -> bool:
    """Whether a text is there but for what `…` stands for; runs of `=` are as long as they are."""
    pattern = re.escape(shown.strip()).replace("…", ".*")
    return re.search(re.sub(r"=+", "=+", pattern), reported) is not None


@pytest.mark.full
def test_the_page_about_recording_reports_what_happens(example: Path) -> None:
    page = (ROOT / "docs" / "recording.md").read_text(encoding="utf-8")
    lines = [line for text in blocks(page, "sh") for line in text.strip().splitlines()]
    reported = [shell(example, line, 1 if " -m pytest " in line else 0) for line in lines]
    shown = blocks(page, "text")
    assert len(shown) == 2
    for text in shown:
        assert any(is_as_shown(text, each) for each in reported), (text, reported)
    (test,) = blocks(page, "python")
    (example / "tests" / "test_checkout.py").write_text(test, encoding="utf-8")
    run = recorded(example, "tests/test_checkout.py", record="own")
    assert [each["values"] for each in run.of("log")] == [{"total": "42"}]
    assert (example / "report.html").is_file()
    assert "1 failed, 3 passed" in (example / "page.md").read_text(encoding="utf-8")


RECIPES = sorted((ROOT / "examples" / "ci").glob("*.yml"))


@pytest.mark.full
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.stem)
def test_the_commands_of_a_recipe_keep_what_failed(example: Path, recipe: Path) -> None:
    """As they stand in the file; but for what installs the project."""
    text = recipe.read_text(encoding="utf-8")
    lines = r"(?m)^ *(?:- )?(?:run: )?((?:python|cideldill|if \[) .*?)(?: #.*)?$"
    install, tests, after = re.findall(lines, text)
    assert install.startswith("python -m pip install ")
    shell(example, tests, 1)
    (example / "record" / "report.html").unlink()
    shell(example, after, 0)
    assert (example / "record" / "report.html").is_file()
    assert re.search(r"(?m)^ +(?:path: |paths: \[)record\]?$", text)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.stem)
def test_a_recipe_is_yaml(recipe: Path) -> None:
    yaml = pytest.importorskip("yaml", reason="no parser of YAML is installed")
    assert isinstance(yaml.safe_load(recipe.read_text(encoding="utf-8")), dict)
