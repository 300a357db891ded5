"""Experiments on released projects in which one function is broken: which of five fixes is true?

Two of them are imported by pytest itself, before any plugin.
"""

from __future__ import annotations

import difflib
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.together.real_package import CLICK, Breakage, Release, environment, unpacked
from tests.together.test_experiments import COMMAND, digest_of

pytestmark = pytest.mark.long(30)

ANSWER_S = 240.0


@dataclass(frozen=True)
class Project:
    """A broken project.

    Attributes:
        tests: The test file, some of whose tests fail by the breakage.
        wrong: What else stands in the place of the broken text, in four wrong fixes.
        source: The folder that is imported, relative to the unpacked one.
    """

    release: Release
    breakage: Breakage
    tests: str
    wrong: tuple[str, str, str, str]
    source: str = "."


PROJECTS = (
    Project(
        Release(
            "toolz",
            "1.2.0",
            "9667a038e9d6ecba37995e26cb2f59ec6420b6ad8dd9677de59db9b956b08490",
            "toolz-1.2.0",
            "toolz",
        ),
        Breakage(
            "toolz.itertoolz.interpose",
            "toolz/itertoolz.py",
            "concat(zip(itertools.repeat(el), seq))",
            "concat(zip(seq, itertools.repeat(el)))",
        ),
        "toolz/tests/test_itertoolz.py",
        (
            "concat(zip(seq, seq))",
            "concat(zip(seq, itertools.repeat(None)))",
            "concat(zip([el], seq))",
            "zip(itertools.repeat(el), seq)",
        ),
    ),
    Project(
        Release(
            "tabulate",
            "0.10.0",
            "e2cfde8f79420f6deeffdeda9aaec3b6bc5abce947655d17ac662b126e48a60d",
            "tabulate-0.10.0",
            "tabulate",
        ),
        Breakage(
            "tabulate._padboth",
            "tabulate/__init__.py",
            'fmt = "{0:^%ds}" % width',
            'fmt = "{0:>%ds}" % (width)',
        ),
        "test/test_output.py",
        (
            'fmt = "{0:^%ds}" % (width + 1)',
            'fmt = "{0:>%ds}" % (width + 1)',
            'fmt = "{0:<%ds}" % (width)',
            'fmt = "{0:.%ds}" % width',
        ),
    ),
    Project(
        Release(
            "iniconfig",
            "2.3.1",
            "67f4b9c50da0dedf52af349e7749a80a9057a5031199791b906c3bb3ae878960",
            "iniconfig-2.3.1",
            "src/iniconfig",
        ),
        Breakage(
            "iniconfig.IniConfig.lineof",
            "src/iniconfig/__init__.py",
            "return None if lineno is None else lineno + 1",
            "return lineno or None",
        ),
        "testing/test_iniconfig.py",
        (
            "return None",
            "return (lineno or 0) + 1",
            "return None if lineno is None else lineno",
            "return 1",
        ),
        "src",
    ),
    Project(
        Release(
            "pluggy",
            "1.7.0",
            "d1eaa46ebb595891b860ab086b4d09c8588af65ebd4361b8e8f4bb8920b90ba8",
            "pluggy-1.7.0",
            "src/pluggy",
        ),
        Breakage(
            "pluggy._tracing.TagTracer._format_message",
            "src/pluggy/_tracing.py",
            'indent = "  " * self.indent',
            'indent = "  " * (self.indent + 1)',
        ),
        "testing/test_tracer.py",
        (
            'indent = ""',
            'indent = "  " * (self.indent - 1)',
            'indent = " " * self.indent + " "',
            'indent = "  "',
        ),
        "src",
    ),
    Project(
        CLICK,
        Breakage(
            "click.formatting.measure_table",
            "src/click/formatting.py",
            "widths[idx] = max(widths.get(idx, 0), term_len(col))",
            "widths[idx] = min(widths.get(idx, 0), term_len(col))",
        ),
        "tests/test_formatting.py",
        (
            "widths[idx] = term_len(col)",
            "widths[idx] = max(widths.get(idx, 0), term_len(col) + 1)",
            "widths[idx] = 0",
            "widths[0] = max(widths.get(0, 0), term_len(col))",
        ),
        "src",
    ),
)


@pytest.mark.parametrize(
    "project",
    [
        pytest.param(
            each,
            id=each.release.name,
            marks=pytest.mark.full if each.release.name == "iniconfig" else pytest.mark.soak,
        )
        for each in PROJECTS
    ],
)
def test_the_true_fix_is_named(project: Project, tmp_path: Path) -> None:
    breakage = project.breakage
    root = unpacked(project.release, tmp_path)
    path = root / breakage.file
    true = path.read_text(encoding="utf-8").splitlines(keepends=True)
    breakage.apply(root)
    broken = path.read_text(encoding="utf-8").splitlines(keepends=True)
    names = f"a/{breakage.file}", f"b/{breakage.file}"
    diff = tmp_path / "fix.diff"
    diff.write_text("".join(difflib.unified_diff(broken, true, *names)), encoding="utf-8")
    before = digest_of(root)
    words = ["try", project.tests, "--diff", str(diff)]
    for text in project.wrong:
        words += ["--patch", breakage.file, breakage.broken, text]
    env = environment(root / project.source) | {"XDG_STATE_HOME": str(tmp_path / "states")}
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *words, "--json", "--timeout", "200"],
        cwd=root,
        env=env,
        capture_output=True,
        text=True,
        timeout=ANSWER_S,
    )
    assert done.returncode == 0, done.stderr
    reply = json.loads(done.stdout)
    assert reply["cause"] == "diff", reply["text"]
    first, *others = reply["experiments"]
    assert first["name"] == "diff"
    assert first["breaks"] == []
    assert set(first["flips"]) == {
        nodeid for nodeid, outcome in reply["baseline"].items() if outcome == "failed"
    }
    for each in others:
        assert each["applied"], reply["text"]
        assert each["breaks"] or len(each["flips"]) < len(first["flips"]), reply["text"]
    assert len(reply["baseline"]) > len(first["flips"])
    assert digest_of(root) == before
