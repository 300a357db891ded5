"""Which lines that a test ran were edited, by git: on generated repositories."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from cideldill_mcp.questions.patches import git_changes
from cideldill_mcp.questions.patches.git_changes import Commit, line_now, read_patch
from cideldill_mcp.questions.recordings.listing import SourceFiles
from cideldill_mcp.questions.recordings.ran import Remarks
from cideldill_mcp.questions.why.edited import edits
from pytest_cideldill.redaction.redactor import Redactor
from tests.server.ran_code import FILE, Runs
from tests.server.repositories import Repository

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")


def edited(
    repository: Repository,
    value: object = 1,
    root: Path | None = None,
    test_files: Sequence[str] = (),
) -> Remarks:
    """The answer for a test that calls `main` of the file as it is now."""
    folder = root or repository.folder
    redactor = Redactor(environ={"SERVICE_TOKEN": "zq81-plain-secret"}, key=b"k" * 32)
    files = SourceFiles(str(folder), redactor.redact_source)
    test = Runs(folder, None).test(value)
    return asyncio.run(edits(str(folder), test, files, redactor, test_files))


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "shop")


BEFORE = """
    def total(n):
        if n > 5:
            n = 5
        n += 1
        return n

    def unused(n):
        return n

    def main(n):
        '''Adds.'''
        found = total(n)
        return found
"""


@dataclass(frozen=True)
class Case:
    """What is replaced in the file, and the lines of the answer; the value is 1."""

    name: str
    old: str
    new: str
    lines: tuple[str, ...] = ()


CASES = (
    Case(
        "a_line",
        "n += 1",
        "n += 2",
        ("edited: shop.py:4 total  (working tree)  - n += 1 | + n += 2",),
    ),
    Case("a_line_that_did_not_run", "n = 5", "n = 6"),
    Case("a_function_that_did_not_run", "def unused(n):", "def unused(n, m=1):"),
    Case("a_comment", "    n += 1", "    # it is free\n        n += 1"),
    Case("a_docstring", "Adds.", "Adds, and more."),
    Case("blank_lines", "    n += 1\n", "\n\n        n += 1\n\n"),
    Case(
        "a_header",
        "def total(n):",
        "def total(n, m=0):",
        ("edited: shop.py:1 total  (working tree)  - def total(n): | + def total(n, m=0):",),
    ),
    Case(
        "more_lines_than_before",
        "    n += 1\n",
        "    n += 2\n        n *= 3\n        n -= 2\n",
        ("edited: shop.py:4–6 total  (working tree)  - n += 1 | + n += 2  (+2 more lines)",),
    ),
    Case(
        "a_part_of_a_statement",
        "found = total(n)",
        "found = total(\n            n\n        )",
        (
            "edited: shop.py:12–14 main  (working tree)  "
            "- found = total(n) | + found = total(  (+2 more lines)",
        ),
    ),
    Case(
        "a_deleted_line",
        "        n += 1\n",
        "",
        ("edited: shop.py:3 total  (working tree)  - n += 1  (deleted below line 3)",),
    ),
    Case(
        "a_deleted_end",
        "        n += 1\n        return n\n\n    def unused",
        "        n += 1\n\n    def unused",
        ("edited: shop.py:4 total  (working tree)  - return n  (deleted below line 4)",),
    ),
    Case(
        "a_deleted_block",
        "        if n > 5:\n            n = 5\n",
        "",
        (
            "edited: shop.py:1 total  (working tree)  "
            "- if n > 5:  (deleted below line 1)  (+1 more line)",
        ),
    ),
    Case("a_deleted_function", "def unused(n):\n        return n\n\n    ", ""),
    Case("nothing", "", ""),
    Case(
        "a_new_function",
        "def main(n):\n        '''Adds.'''\n        found = total(n)",
        "def add(n):\n        return total(n)\n\n    def main(n):\n        found = add(n)",
        (
            "edited: shop.py:10–11 add  (working tree)  is new",
            "edited: shop.py:14 main  (working tree)  - found = total(n) | + found = add(n)",
        ),
    ),
    Case(
        "a_function_inside_that_did_not_run",
        "        n += 1\n",
        "        n += 1\n        def inner():\n            return 1\n",
        ("edited: shop.py:5 total  (working tree)  + def inner():",),
    ),
    Case(
        "a_secret",
        "n += 1",
        "n += len('zq81-plain-secret') - 16",
        (
            "edited: shop.py:4 total  (working tree)  "
            "- n += 1 | + n += len('<redacted:env:SERVICE_TOKEN#TAG>') - 16",
        ),
    ),
)


def test_edits_of_what_ran_are_shown_and_no_others(repository: Repository) -> None:
    repository.commit(shop=BEFORE)
    for case in CASES:
        assert case.old in BEFORE, case
        repository.write(BEFORE.replace(case.old, case.new, 1))
        found = edited(repository)
        assert [_untagged(line) for line in found.lines] == list(case.lines), case
        assert len(found.evidence) == len(case.lines), case
        for each in found.evidence:
            assert each.first <= each.last, case
            assert each.reason.endswith("(working tree)"), case


@pytest.mark.parametrize("name", ["a_line", "a_deleted_line", "a_new_function"])
def test_what_is_staged_is_still_not_committed(repository: Repository, name: str) -> None:
    (case,) = (each for each in CASES if each.name == name)
    repository.commit(shop=BEFORE)
    repository.write(BEFORE.replace(case.old, case.new, 1))
    found = edited(repository)
    assert len(found.lines) == len(case.lines)
    repository.git("add", "-A")
    assert edited(repository) == found


def _untagged(line: str) -> str:
    head, mark, rest = line.partition("#")
    return f"{head}#TAG{rest[rest.index('>') :]}" if mark and ">" in rest else line


def test_lines_that_were_deleted_in_a_branch_count_if_it_ran(repository: Repository) -> None:
    source = "def main(n):\n    if n > 5:\n        n = 5\n        n += 1\n    return n\n"
    repository.commit(shop=source)
    for deleted in ("        n = 5\n", "        n += 1\n"):
        repository.write(source.replace(deleted, ""))
        assert edited(repository, 1) == Remarks(), deleted
        (line,) = edited(repository, 6).lines
        assert f"- {deleted.strip()}  (deleted below line " in line


@pytest.mark.full
def test_the_last_commit_is_shown_if_the_working_tree_did_not_change_what_ran(
    repository: Repository,
) -> None:
    repository.commit(shop=BEFORE)
    repository.commit("Take zq81-plain-secret", shop=BEFORE.replace("n += 1", "n += 2"))
    name = repository.git("log", "-1", "--format=%h").strip()
    lines = edited(repository).lines
    assert lines[0].startswith(f"last commit: {name} Take <redacted:")
    assert lines[0].endswith("  (just now)")
    assert lines[1:] == [f"edited: shop.py:4 total  ({name})  - n += 1 | + n += 2"]
    # Later changes above move the line, and those of the line itself are the news.
    moved = BEFORE.replace("n += 1", "n += 2").replace("def total", "RATE = 1\n\n    def total")
    repository.write(moved)
    assert edited(repository).lines[1:] == [
        f"edited: shop.py:6 total  ({name})  - n += 1 | + n += 2"
    ]
    repository.write(moved.replace("n += 2", "n += 3"))
    assert edited(repository).lines == [
        "edited: shop.py:6 total  (working tree)  - n += 2 | + n += 3"
    ]
    repository.commit(
        "Nothing that ran",
        shop=moved.replace("return n\n\n    def main", "return 1\n\n    def main"),
    )
    repository.commit("Empty")
    assert edited(repository) == Remarks()


def test_edits_of_tests_alone_come_behind_those_of_the_last_commit(
    repository: Repository,
) -> None:
    repository.commit(shop=BEFORE)
    repository.commit(shop=BEFORE.replace("n += 1", "n += 2"))
    repository.write(BEFORE.replace("n += 1", "n += 2").replace("main(n)", "main(n, m=1)"))
    assert len(edited(repository).lines) == 1
    lines = edited(repository, test_files=[FILE]).lines
    assert lines[0].startswith("last commit: ")
    assert lines[1].endswith("  - n += 1 | + n += 2")
    assert lines[2:] == [
        "edited: shop.py:10 main  (working tree)  - def main(n): | + def main(n, m=1):"
    ]


@pytest.mark.full
def test_renamed_untracked_and_ignored_files(repository: Repository) -> None:
    repository.commit(old=BEFORE, other="A = 1\n")
    repository.git("mv", "old.py", FILE)
    assert edited(repository) == Remarks()
    repository.write(BEFORE.replace("n += 1", "n += 2"))
    expected = ["edited: shop.py:4 total  (working tree)  - n += 1 | + n += 2"]
    assert edited(repository).lines == expected
    repository.commit("Rename it")
    assert [line.partition("  (")[0] for line in edited(repository).lines[1:]] == [
        "edited: shop.py:4 total"
    ]
    repository.git("rm", "-q", "--cached", FILE)
    repository.git("commit", "-qm", "Forget it")
    assert edited(repository).lines == [
        "edited: shop.py  (working tree)  is new: main, total ran",
    ]
    repository.write(f"{FILE}\n", ".gitignore")
    assert edited(repository) == Remarks()


def test_ends_of_lines_are_no_edits(repository: Repository) -> None:
    repository.commit(shop=BEFORE)
    path = repository.folder / FILE
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert edited(repository) == Remarks()
    path.write_bytes(path.read_bytes().replace(b"n += 1\r", b"n += 2\r"))
    expected = ["edited: shop.py:4 total  (working tree)  - n += 1 | + n += 2"]
    assert edited(repository).lines == expected
    path.write_bytes(path.read_bytes().rstrip(b"\r\n"))
    assert edited(repository).lines == expected


def test_a_project_in_a_folder_of_a_repository(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "mono repo")
    repository.write(BEFORE, "pärts/shop.py")
    repository.commit()
    repository.write(BEFORE.replace("n += 1", "n += 2"), "pärts/shop.py")
    found = edited(repository, root=repository.folder / "pärts")
    assert found.lines == ["edited: shop.py:4 total  (working tree)  - n += 1 | + n += 2"]


def test_without_a_repository_or_commits_nothing_is_shown(tmp_path: Path) -> None:
    plain = Repository(tmp_path / "shop")
    plain.write(BEFORE)
    assert edited(plain) == Remarks()  # no commit yet
    plain.commit()
    assert edited(plain) == Remarks()  # the first commit: all is new
    shutil.rmtree(plain.folder / ".git")
    (plain.folder / ".git").write_text("gitdir: nowhere\n")
    assert edited(plain) == Remarks()


def test_without_git_nothing_is_shown(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    repository.commit(shop=BEFORE)
    repository.write(BEFORE.replace("n += 1", "n += 2"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert edited(repository) == Remarks()


@pytest.mark.full
@pytest.mark.skipif(os.name != "posix", reason="it is a shell script")
def test_a_git_that_hangs_is_ended(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    repository.commit(shop=BEFORE)
    fake = tmp_path / "git"
    fake.write_text("#!/bin/sh\nsleep 60 & sleep 60\n")
    fake.chmod(0o755)
    monkeypatch.setattr(git_changes, "_TIMEOUT_S", 0.2)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    begun = time.monotonic()
    assert edited(repository) == Remarks()
    assert time.monotonic() - begun < 10


def test_settings_of_the_user_and_variables_of_hooks_change_nothing(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    repository.commit(shop=BEFORE)
    repository.write(BEFORE.replace("n += 1", "n += 2"))
    settings = {
        ("diff", "noprefix"): "true",
        ("diff", "mnemonicPrefix"): "true",
        ("diff", "external"): "false",
        ("diff", "renames"): "false",
        ("diff", "context"): "9",
        ("diff", "interHunkContext"): "9",
        ("diff", "wordRegex"): ".",
        ("diff", "algorithm"): "patience",
        ("diff", "relative"): "false",
        ('diff "py"', "textconv"): "false",
        ("color", "ui"): "always",
        ("color", "diff"): "always",
        ("core", "quotepath"): "true",
        ("core", "pager"): "false",
        ("core", "fsmonitor"): "false-program",
        ("log", "showSignature"): "true",
        ("log", "decorate"): "full",
        ("format", "pretty"): "raw",
    }
    lines = (f"[{name}]\n\t{key} = {value}\n" for (name, key), value in settings.items())
    with (repository.folder / ".git" / "config").open("a", encoding="utf-8") as file:
        file.writelines(lines)
    repository.write("*.py diff=py -text\n", ".git/info/attributes")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "false")
    monkeypatch.setenv("GIT_DIFF_OPTS", "--unified=9")
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    index = (repository.folder / ".git" / "index").stat().st_mtime_ns
    expected = ["edited: shop.py:4 total  (working tree)  - n += 1 | + n += 2"]
    assert edited(repository).lines == expected
    assert (repository.folder / ".git" / "index").stat().st_mtime_ns == index
    repository.commit()
    assert edited(repository).lines[1].endswith("- n += 1 | + n += 2")


@pytest.mark.full
def test_a_submodule_is_no_obstacle(tmp_path: Path) -> None:
    inner = Repository(tmp_path / "inner")
    inner.commit(lib="A = 1\n")
    outer = Repository(tmp_path / "outer")
    outer.commit(shop=BEFORE)
    allowed = ("-c", "protocol.file.allow=always")
    outer.git(*allowed, "submodule", "--quiet", "add", str(inner.folder), "sub")
    outer.commit("Add it")
    (outer.folder / "sub" / "lib.py").write_text("A = 2\n")
    outer.write(BEFORE.replace("n += 1", "n += 2"))
    assert edited(outer).lines == ["edited: shop.py:4 total  (working tree)  - n += 1 | + n += 2"]


def test_much_is_cut(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "".join(f"    n += {at}\n    # {at}\n" for at in range(20))
    source = f"def main(n):\n{lines}    return n\n"
    repository.commit(shop=source)
    repository.write(source.replace("n += ", "n -= "))
    found = edited(repository)
    assert len(found.lines) == 7
    assert found.lines[-1] == "… 14 more edits of what ran"
    assert len(found.evidence) == 20
    monkeypatch.setattr(git_changes, "_MOST", 600)
    cut = edited(repository)
    assert cut.lines[:3] == found.lines[:3]
    assert 3 <= len(cut.evidence) < 20


def test_lines_are_found_behind_later_changes() -> None:
    patch = (
        "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n"
        "@@ -2 +2,2 @@\n-old\n+new\n+er\n@@ -5,0 +7,3 @@ def f():\n+a\n+b\n+c\n"
        "@@ -8,2 +12,0 @@\n-x\n-y\n"
    )
    hunks = read_patch(patch)["x.py"]
    now: Mapping[int, int | None] = {line: line_now(line, hunks) for line in range(1, 12)}
    assert list(now.values()) == [1, None, 4, 5, 6, 10, 11, None, None, 12, 13]


def test_ages() -> None:
    for seconds, age in (
        (-5, "just now"),
        (59, "just now"),
        (60, "1 minute ago"),
        (7_300, "2 hours ago"),
        (86_400 * 1_200, "1,200 days ago"),
    ):
        assert Commit("abc", "", time.time() - seconds).age == age
