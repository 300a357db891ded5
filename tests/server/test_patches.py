"""What clients send as a patch becomes whole texts, or a refusal that shows the place."""

from __future__ import annotations

import difflib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cideldill_mcp.processes.launch import Recipe
from cideldill_mcp.questions.patches.unified_diff import apply, read_diff
from cideldill_mcp.questions.patches.whole_texts import PatchedFile, patched_files, patched_start
from pytest_cideldill.errors import Refusal
from pytest_cideldill.experiments import MODULE
from pytest_cideldill.project import Project

CART = """\
class Cart:
    def total(self):
        return sum(self.prices)

    def count(self):
        return len(self.prices)

    def empty(self):
        return not self.prices
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "cart.py").write_bytes(CART.encode())
    (tmp_path / "notes.txt").write_text("text\n", encoding="utf-8")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "x.py").write_text("x = 1\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return Project(str(tmp_path))


def edit(old: str, new: str, file: str = "shop/cart.py") -> dict[str, str]:
    return {"file": file, "old": old, "new": new}


def one(project: Project, *edits: dict[str, str], diff: str = "") -> PatchedFile:
    (found,) = patched_files(project, edits, diff)
    return found


def refusal(project: Project, *edits: Any, diff: str = "") -> dict[str, Any]:
    with pytest.raises(Refusal) as caught:
        patched_files(project, edits, diff)
    return caught.value.to_plain()


# --- passages -------------------------------------------------------------------------------------


def test_a_passage_is_replaced_and_the_changed_lines_are_named(project: Project) -> None:
    found = one(project, edit("sum(self.prices)", "sum(\n            self.prices)"))
    assert found.text == CART.replace("sum(self.prices)", "sum(\n            self.prices)")
    assert (found.file, found.first, found.last) == ("shop/cart.py", 3, 4)
    assert found.path == os.path.realpath("shop/cart.py")


def test_edits_of_a_file_follow_each_other(project: Project) -> None:
    """Each one is found in what the earlier ones made, by whatever name the file has."""
    edits = [
        edit("sum(self.prices)", "MARK"),
        edit("MARK", "0", str(Path("shop/cart.py").resolve())),
        edit("not self.prices", "True", "./shop/../shop/cart.py"),
    ]
    found = one(project, *edits)
    assert found.text == CART.replace("sum(self.prices)", "0").replace("not self.prices", "True")
    assert (found.first, found.last) == (3, 9)


def test_lines_that_are_taken_out_leave_no_range(project: Project) -> None:
    found = one(project, edit("    def count(self):\n        return len(self.prices)\n\n", ""))
    assert (found.first, found.last) == (5, 4)


@pytest.mark.parametrize(
    ("old", "shown"),
    [
        pytest.param(
            "        return  len(self.prices)",
            "it differs by whitespace only from 6: 'return len(self.prices)'",
            id="spaces",
        ),
        pytest.param(
            "def count(self):\n    return len(self.prices)",
            "it differs by whitespace only from 5: 'def count(self):'",
            id="indentation",
        ),
        pytest.param(
            "def count(self):\n        return length(self.prices)",
            "the nearest lines are 6: 'return len(self.prices)', 9: ",
            id="nearest",
        ),
    ],
)
def test_an_absent_passage_is_refused_with_what_is_like_it(
    project: Project, old: str, shown: str
) -> None:
    refused = refusal(project, edit(old, "x"))
    assert refused["error"] == "invalid_parameter"
    assert refused["message"].startswith("'old' is not in shop/cart.py; ")
    assert shown in refused["message"]
    assert refused["lines"][0] == int(shown.partition(":")[0].rpartition(" ")[2])


def test_an_absent_passage_that_is_like_nothing_is_refused(project: Project) -> None:
    assert refusal(project, edit("qqqq", "x"))["message"] == "'old' is not in shop/cart.py"


def test_an_ambiguous_passage_is_refused_with_its_lines(project: Project) -> None:
    refused = refusal(project, edit("self.prices", "x"))
    assert (refused["error"], refused["lines"], refused["file"]) == (
        "invalid_parameter",
        [3, 6, 9],
        "shop/cart.py",
    )
    assert "3 times, at lines 3, 6, 9" in refused["message"]


def test_a_passage_that_overlaps_itself_is_ambiguous(project: Project) -> None:
    Path("x.py").write_text("x = 'aaa'\n", encoding="utf-8")
    assert "2 times" in refusal(project, edit("aa", "b", "x.py"))["message"]


@pytest.mark.parametrize(
    "edits",
    [
        pytest.param([edit("len", "len")], id="equal"),
        pytest.param([edit("", "x")], id="empty"),
        pytest.param([edit("len(", "size("), edit("size(", "len(")], id="taken back"),
    ],
)
def test_a_patch_that_changes_nothing_is_refused(project: Project, edits: list[Any]) -> None:
    refused = refusal(project, *edits)
    assert (refused["error"], refused["parameter"]) == ("invalid_parameter", "patch")
    assert "changes nothing" in refused["message"]


def test_what_is_no_edit_is_refused(project: Project) -> None:
    for wrong in (
        *(None, 1, "shop/cart.py", {}, {"file": "shop/cart.py", "old": "x"}),
        {**edit("a", "b"), "n": 1},
        *({**edit("len", "x"), key: 1} for key in ("file", "old", "new")),
    ):
        assert refusal(project, wrong)["error"] == "invalid_parameter", wrong


def test_no_patch_at_all_is_refused(project: Project) -> None:
    assert refusal(project)["error"] == "missing_parameter"


# --- files ----------------------------------------------------------------------------------------


def test_a_file_that_is_not_there_is_refused_with_those_that_are_called_alike(
    project: Project,
) -> None:
    refused = refusal(project, edit("a", "b", "shop/carts.py"))
    assert (refused["error"], refused["nearest"]) == ("file_not_found", ["shop/cart.py"])
    assert refusal(project, edit("a", "b", "\0"))["error"] == "file_not_found"
    assert refusal(project, edit("a", "b", "shop"))["error"] == "file_not_found"


def test_files_that_are_no_sources_of_the_project_are_refused(project: Project) -> None:
    for file in ("notes.txt", ".hidden/x.py", os.__file__):
        refused = refusal(project, edit("x", "y", file))
        assert (refused["error"], refused["parameter"]) == ("invalid_parameter", "patch"), file


@pytest.mark.parametrize(
    ("data", "new", "text"),
    [
        pytest.param(b"a = 1\r\nb = 2\r\n", "b = 3\r\nc = 4", "a = 1\nb = 3\nc = 4\n", id="CRLF"),
        pytest.param(b"\xef\xbb\xbfb = 2\n", "b = 3", "b = 3\n", id="byte order mark"),
        pytest.param(
            b"# coding: latin-1\nb = 2  # \xe4\n",
            "b = '\xf6'",
            "# coding: latin-1\nb = '\xf6'  # \xe4\n",
            id="cookie",
        ),
        pytest.param(b"b = 2", "b = 3", "b = 3", id="no newline at the end"),
    ],
)
def test_files_are_read_as_python_reads_them(
    project: Project, data: bytes, new: str, text: str
) -> None:
    Path("x.py").write_bytes(data)
    assert one(project, edit("b = 2", new, "x.py")).text == text


def test_text_that_the_declared_encoding_lacks_is_refused(project: Project) -> None:
    Path("x.py").write_bytes(b"# coding: latin-1\nb = 2\n")
    refused = refusal(project, edit("2", "'\u20ac'", "x.py"))
    assert refused["error"] == "invalid_source"
    assert refusal(project, edit("2", "'\ud800'", "x.py"))["error"] == "invalid_source"
    assert refusal(project, edit("latin-1", "no-such", "x.py"))["error"] == "invalid_source"


@pytest.mark.parametrize(
    ("old", "new", "place", "source"),
    [
        ("sum(self.prices)", "sum(self.prices", (3, 19), "return sum(self.prices"),
        ("return len(self.prices)", "yield = 1", (6, 9), "yield = 1"),
        ("class Cart:", "return 1\nclass Cart:", (1, 1), "return 1"),
        ("def count", "nonlocal x\n    def count", (5, 5), "nonlocal x"),
        ("class", "x = 1\nfrom __future__ import division\nclass", (2, 1), "from __future__ "),
    ],
)
def test_a_text_that_does_not_compile_is_refused_with_its_place(
    project: Project, old: str, new: str, place: tuple[int, int], source: str
) -> None:
    refused = refusal(project, edit(old, new))
    assert (refused["error"], refused["file"]) == ("invalid_source", "shop/cart.py")
    assert (refused["line"], refused["column"]) == place
    assert refused["source"].startswith(source)
    assert f"(line {place[0]}, column {place[1]}): {source}" in refused["message"]


def test_a_file_that_this_python_cant_compile_is_left_to_that_of_the_tests(
    project: Project,
) -> None:
    Path("x.py").write_text("match match:\n    of\n", encoding="utf-8")
    assert one(project, edit("of", "on", "x.py")).text == "match match:\n    on\n"


def test_lines_in_refusals_have_no_secrets(project: Project) -> None:
    Path("x.py").write_text("password = 'tulip'\n", encoding="utf-8")
    with pytest.raises(Refusal) as caught:
        patched_files(
            project,
            [edit("password = 'tulpi'", "", "x.py")],
            redact=lambda text: text.replace("tulip", "<redacted>"),
        )
    assert "1: \"password = '<redacted>'\"" in caught.value.message


# --- diffs ----------------------------------------------------------------------------------------

HUNK = """\
@@ -5,5 +5,5 @@ class Cart:
     def count(self):
-        return len(self.prices)
+        return 0

     def empty(self):
         return not self.prices
"""
HEADERS = {
    "git": "diff --git a/shop/cart.py b/shop/cart.py\nindex 1..2 100644\n"
    "--- a/shop/cart.py\n+++ b/shop/cart.py\n",
    "plain": "--- shop/cart.py\n+++ shop/cart.py\n",
    "times": "--- shop/cart.py\t2026-01-01 00:00:00\n+++ shop/cart.py\t2026-01-01 00:00:01\n",
    "mnemonic": "--- i/shop/cart.py\n+++ w/shop/cart.py\n",
    "text above": "Some words.\n\n--- a/shop/cart.py\n+++ b/shop/cart.py\n",
    "quoted": '--- "a/shop/cart.py"\n+++ "b/shop/cart.py"\n',
}
AFTER = CART.replace("len(self.prices)", "0")


def test_a_diff_names_files_as_tools_do(project: Project) -> None:
    for tool, header in HEADERS.items():
        found = one(project, diff=header + HUNK)
        assert (found.text, found.first, found.last) == (AFTER, 6, 6), tool


@pytest.mark.parametrize(
    "hunk",
    [
        pytest.param(HUNK.replace("-5,5 +5,5", "-1,9 +100,2"), id="wrong numbers"),
        pytest.param(HUNK.replace("@@ -5,5 +5,5 @@ class Cart:", "@@"), id="no numbers"),
        pytest.param(HUNK.replace("@@ -5,5 +5,5 @@", "@@ ... @@"), id="dots"),
        pytest.param(HUNK.replace("\n", "\r\n"), id="CRLF"),
        pytest.param(HUNK.replace("\n\n", "\n \n"), id="spaces in empty lines"),
        pytest.param(HUNK + "\n\n", id="gap behind"),
        pytest.param(HUNK.rstrip("\n"), id="no end"),
        pytest.param("@@ -6 +6 @@\n-        return len(self.prices)\n+        return 0\n", id="U0"),
    ],
)
def test_a_hunk_is_found_by_its_context(project: Project, hunk: str) -> None:
    for end in ("\n", "\r\n"):
        Path("shop/cart.py").write_bytes(CART.replace("\n", end).encode())
        assert one(project, diff=HEADERS["git"] + hunk).text == AFTER, repr(end)


def test_a_diff_of_several_files_is_applied_after_the_edits(project: Project) -> None:
    Path("x.py").write_text("a = 1\nb = 2\n", encoding="utf-8")
    further = "\n--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,3 @@\n a = 3\n+c = 4\n b = 2\n"
    found = patched_files(
        project, [edit("a = 1", "a = 3", "x.py")], HEADERS["git"] + HUNK + further
    )
    assert [(each.file, each.text) for each in found] == [
        ("x.py", "a = 3\nc = 4\nb = 2\n"),
        ("shop/cart.py", AFTER),
    ]


@pytest.mark.parametrize(
    ("hunk", "shown"),
    [
        pytest.param(
            "@@ -6 +6 @@\n-        return length(self.prices)\n+        return 0\n",
            "line 3 of the diff is not in shop/cart.py; the nearest lines are 6: ",
            id="absent",
        ),
        pytest.param(
            "@@\n         return sum(self.price\n+x\n",
            "is not in shop/cart.py; the nearest",
            id="part",
        ),
        pytest.param("@@\n+x = 1\n@@\n \n+y = 1\n", "2 times, at lines 4, 7", id="ambiguous"),
        pytest.param(
            "@@ -99,0 +100 @@\n+x = 1\n", "has no context and no line", id="behind the end"
        ),
    ],
)
def test_a_hunk_without_one_place_is_refused(project: Project, hunk: str, shown: str) -> None:
    refused = refusal(project, diff=HEADERS["plain"] + hunk)
    assert (refused["error"], refused["parameter"]) == ("invalid_parameter", "diff")
    assert shown in refused["message"]


@pytest.mark.parametrize(
    ("diff", "shown"),
    [
        ("--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+x\n", "makes a new file"),
        ("--- a/shop/cart.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n", "removes a file"),
        ("--- a/shop/cart.py\n+++ b/shop/other.py\n@@ -1 +1 @@\n-x\n+y\n", "renames a file"),
        ("Binary files a/x.py and b/x.py differ\n", "no text"),
        ("@@ -1 +1 @@\n-x\n+y\n", "a hunk without --- and +++"),
        ("return 0\n", "no file with hunks"),
        ("--- a/x.py\n+++ b/x.py\n", "no file with hunks"),
        ('--- "a/\\377"\n+++ "b/\\377"\n@@\n-x\n', "can't be read"),
        ("--- shop/cart.py\n+++ shop/cart.py\n@@ -1 +1 @@\n class Cart:\n", "changes nothing"),
    ],
)
def test_other_diffs_are_refused(project: Project, diff: str, shown: str) -> None:
    refused = refusal(project, diff=diff)
    assert (refused["error"], refused["parameter"]) == ("invalid_parameter", "diff")
    assert shown in refused["message"]


def test_a_diff_of_a_file_that_is_not_there_is_refused(project: Project) -> None:
    refused = refusal(project, diff="--- a/shop/carts.py\n+++ b/shop/carts.py\n@@\n-x\n")
    assert (refused["error"], refused["nearest"]) == ("file_not_found", ["shop/cart.py"])


LINES = st.lists(st.sampled_from(["a", "b", "c", "", "  d", "-- e", "++ f", "\f"]), max_size=12)


DIFFS = given(
    before=LINES,
    after=LINES,
    context=st.integers(0, 4),
    ends=st.tuples(st.booleans(), st.booleans()),
)


@example(["-- e", "b", "a", "a"], ["++ f", "b", "a"], 0, (False, False))
@DIFFS
@settings(max_examples=40, deadline=None)
def test_what_difflib_writes_is_read(
    before: list[str], after: list[str], context: int, ends: tuple[bool, bool]
) -> None:
    check_diff(before, after, context, ends)


@pytest.mark.full
@DIFFS
@settings(max_examples=150, deadline=None)
def test_more_of_what_difflib_writes_is_read(
    before: list[str], after: list[str], context: int, ends: tuple[bool, bool]
) -> None:
    check_diff(before, after, context, ends)


def check_diff(before: list[str], after: list[str], context: int, ends: tuple[bool, bool]) -> None:
    """difflib has no mark for a missing line feed at the end; here it is set as git does."""
    texts = ["\n".join(each) + "\n" * end for each, end in zip((before, after), ends, strict=True)]
    lines = [text.split("\n") for text in texts]
    lines = [[*(f"{x}\n" for x in each[:-1]), *filter(None, each[-1:])] for each in lines]
    diff = "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in difflib.unified_diff(lines[0], lines[1], "a/x.py", "b/x.py", n=context)
    )
    if not diff:
        return
    (file,) = read_diff(diff)
    placed = [(hunk.places(lines[0], 0)[0], hunk) for hunk in file.hunks]
    assert "".join(apply(placed, lines[0])) == texts[1]


@pytest.mark.full
def test_a_diff_of_git_is_read(project: Project, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A name beyond ASCII, quoted by git, and several hunks in several files."""
    names = ["shop/cart.py", "m\xfctze.py", "with space.py"]
    for name in names[1:]:
        Path(name).write_text("x = 1\n" * 20, encoding="utf-8")

    def git(*words: str) -> str:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
        return subprocess.run(
            command, check=True, capture_output=True, text=True, encoding="utf-8"
        ).stdout

    git("init", "-q")
    git("add", "-A")
    before = {name: Path(name).read_text(encoding="utf-8") for name in names}
    after = {names[0]: AFTER.rstrip("\n"), **dict.fromkeys(names[1:], "y = 2\n" + "x = 1\n" * 21)}
    for name, text in after.items():
        Path(name).write_text(text, encoding="utf-8")
    diff = git("diff")
    for name, text in before.items():
        Path(name).write_text(text, encoding="utf-8")
    assert {each.file: each.text for each in patched_files(project, diff=diff)} == after


# --- the process ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "patched", "start"),
    [
        (["py", "-m", "pytest"], ["py", "-m", MODULE], "-m pytest"),
        (["py", "-W", "error", "-X", "dev", "bin/pytest"], None, "bin/pytest"),
        (["py", "-m", "coverage", "run", "-m", "pytest"], None, "-m coverage"),
        (["py", "-I", "-c", "code"], ["py", "-I", "-m", MODULE], None),
    ],
)
def test_pytest_is_started_as_the_user_does_it(
    tmp_path: Path, command: list[str], patched: list[str] | None, start: str | None
) -> None:
    recipe = Recipe(command, ["-v"], "/rootdir")
    files = [PatchedFile("x.py", "/rootdir/x.py", "\u20ac = 1\n", 1, 1)]
    found, variables = patched_start(recipe, files, str(tmp_path))
    at = len(recipe.interpreter)
    behind = command[at + 2 :] if command[at] == "-m" else command[at + 1 :]
    assert found.command == (patched or [*command[:at], "-m", MODULE, *behind])
    assert (found.arguments, found.rootdir, variables.get("CIDELDILL_START")) == (
        ["-v"],
        "/rootdir",
        start,
    )
    texts = json.loads(Path(variables["CIDELDILL_PATCHES"]).read_text(encoding="utf-8"))
    assert texts == [{"file": "/rootdir/x.py", "text": "\u20ac = 1\n"}]
    assert "CIDELDILL_PATCHES" not in patched_start(recipe, [], str(tmp_path))[1]
