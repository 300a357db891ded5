"""What the front end knows of sources: asked of a helper process, kept until files change."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cideldill_mcp.breakpoints import inspection
from cideldill_mcp.breakpoints.inspection import (
    Sources,
    Survey,
    find_places,
    path_of,
    shown_path,
    sources_of,
)
from cideldill_mcp.processes.launch import Recipe
from cideldill_mcp.runs.nodeids import relative
from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.protocol import AddBreakpoint, Replied
from pytest_cideldill.sourcecode.names import parse_function_name
from tests.server.processes import answered_here, in_loop, serving

CART = """
class Cart:
    def total(self, tax=0):
        return tax

def total(items):
    return sum(items)
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with a package and a test module."""
    for name, text in {
        "shop/__init__.py": "",
        "shop/cart.py": CART,
        "tests/test_cart.py": "def test_total(): pass\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def recipe_of(root: Path, *interpreter: str) -> Recipe:
    return Recipe([*(interpreter or (sys.executable,)), "-m", "pytest"], [], str(root))


def names(survey: Survey) -> list[str]:
    return [each.name for each in survey.functions]


@pytest.fixture
def here() -> Iterator[None]:
    """No helper process is started; how one is asked is seen where this is not used."""
    with answered_here(sys.executable):
        yield


EVERYTHING = ["shop.cart.Cart.total", "shop.cart.total", "test_cart.test_total"]


class Spy:
    """Notes what the helper is asked and answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.replies: list[dict[str, Any]] = []
        self._ask = inspection._ask
        monkeypatch.setattr(inspection, "_ask", self.ask)

    async def ask(self, *arguments: Any) -> dict[str, Any]:
        reply = await self._ask(*arguments)
        self.replies.append(reply)
        return reply

    @property
    def read(self) -> list[set[str]]:
        """The files that were read, by request."""
        return [set(reply["contents"]) for reply in self.replies]


@pytest.mark.full
@in_loop
async def test_files_are_read_once_and_again_when_they_change(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second look costs a directory walk; edits are seen."""
    spy, sources = Spy(monkeypatch), sources_of(recipe_of(root))
    assert names(await sources.all()) == EVERYTHING
    assert sources_of(recipe_of(root)) is sources
    assert names(await sources.all()) == EVERYTHING
    (root / "shop" / "cart.py").write_text("def summed(): pass\n", encoding="utf-8")
    (root / "tests" / "test_cart.py").unlink()
    assert names(await sources.all()) == ["shop.cart.summed"]
    assert spy.read == [
        {"shop/__init__.py", "shop/cart.py", "tests/test_cart.py"},
        set(),
        {"shop/cart.py"},
    ]


@pytest.mark.usefixtures("here")
@in_loop
async def test_a_name_needs_few_files_and_keeps_what_is_known(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cost of `breakpoint_add` without a run does not grow with the project."""
    spy, sources = Spy(monkeypatch), Sources([sys.executable], str(root))
    survey = await sources.find(parse_function_name("shop.cart.Cart.total"))
    (function,) = survey.functions
    assert (function.name, function.qualname, function.file, function.line, function.kind) == (
        "shop.cart.Cart.total", "Cart.total", "shop/cart.py", 3, "method",
    )  # fmt: skip
    assert function.signature == "(self, tax=0)"
    assert survey.is_certain
    await sources.find(parse_function_name("total"))
    await sources.all()
    assert spy.read == [{"shop/cart.py"}, {"tests/test_cart.py"}, {"shop/__init__.py"}]


@pytest.mark.usefixtures("here")
@in_loop
async def test_other_names_that_a_file_may_have_are_found_but_not_certain(root: Path) -> None:
    """`tests/` has no `__init__.py`: by default pytest imports `test_cart`."""
    sources = Sources([sys.executable], str(root))
    for text, is_certain in (("test_cart.test_total", True), ("tests.test_cart.test_*", False)):
        survey = await sources.find(parse_function_name(text))
        assert (names(survey), survey.is_certain) == (["test_cart.test_total"], is_certain)
    survey = await sources.find(parse_function_name("shop.cart.nothing"))
    assert (survey.functions, survey.is_certain) == ([], False)


@pytest.mark.usefixtures("here")
@in_loop
async def test_a_new_package_changes_the_names_of_files_that_did_not_change(root: Path) -> None:
    sources = Sources([sys.executable], str(root))
    await sources.all()
    (root / "tests" / "__init__.py").touch()
    assert "tests.test_cart.test_total" in names(await sources.all())


@pytest.mark.usefixtures("here")
@in_loop
async def test_close_names_come_from_the_whole_project(root: Path) -> None:
    sources = Sources([sys.executable], str(root))
    assert await sources.close_to(parse_function_name("shop.crat.test_totl")) == [
        "test_cart.test_total"
    ]
    assert await sources.close_to(parse_function_name("shop.crat.*")) == []


def test_what_is_missing_is_reported() -> None:
    """What was cut says so."""
    skipped = {f"m{number}.py": "line 1: invalid syntax" for number in range(5)}
    message = Survey([], True, skipped, 7, False).message or ""
    assert "m0.py (line 1: invalid syntax)" in message
    assert "2 more" in message
    assert "7 files were not read in time" in message
    assert "too large" in message
    assert Survey([], True, {}, 0, True).message is None


@in_loop
@pytest.mark.parametrize("interpreter", ["no-such-python-at-all", "false"])
async def test_an_interpreter_that_does_not_answer_is_named(root: Path, interpreter: str) -> None:
    for asking in (
        sources_of(recipe_of(root, interpreter)).all(),
        find_places(recipe_of(root, interpreter), root / "shop" / "cart.py", line=3),
    ):
        with pytest.raises(Refusal) as caught:
            await asking
        assert caught.value.code is ErrorCode.INTERNAL_ERROR
        assert interpreter in caught.value.message


@in_loop
async def test_an_interpreter_without_our_package_says_so_itself(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that was given with `--python` may be."""
    monkeypatch.setattr(inspection, "HELPER", "no_such_package")
    with pytest.raises(Refusal, match="No module named no_such_package"):
        await sources_of(recipe_of(root)).all()


@pytest.mark.full
@in_loop
async def test_a_helper_that_hangs_is_ended(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every wait is bounded."""
    monkeypatch.setattr(inspection, "TIMEOUT_S", 0.2)
    (root / "sleep").write_text("#!/bin/sh\nexec sleep 60\n", encoding="utf-8")
    (root / "sleep").chmod(0o700)
    with pytest.raises(Refusal) as caught:
        await sources_of(recipe_of(root, str(root / "sleep"))).all()
    assert "TimeoutError" in caught.value.message


def test_paths_are_shown_relative_to_the_rootdir(root: Path) -> None:
    recipe = recipe_of(root)
    for given in ("shop/cart.py", "./shop/../shop/cart.py", str(root / "shop" / "cart.py")):
        path = path_of(recipe, given)
        assert path == (root / "shop" / "cart.py").resolve()
        assert shown_path(recipe, path) == "shop/cart.py"
    assert shown_path(recipe, Path(json.__file__)) == json.__file__
    for given in ("shop", "", "é" * 1000, "a\0b", "\ud800"):
        with pytest.raises(Refusal) as caught:
            path_of(recipe, given)
        assert caught.value.code is ErrorCode.FILE_NOT_FOUND


def test_node_ids_may_begin_where_the_server_was_started(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on pytest's command line; one of a record is never looked for on this machine."""
    monkeypatch.chdir(root)
    rootdir = str(root / "shop")
    for given in ("cart.py::test_a", "shop/cart.py::test_a", f"{rootdir}/cart.py::test_a"):
        assert relative(given, rootdir) == "cart.py::test_a"
    assert relative("other.py::test_a", rootdir) == "other.py::test_a"
    assert relative("shop/cart.py::test_a", "/gone") == "shop/cart.py::test_a"


# --- breakpoint_add -----------------------------------------------------------------------------


@in_loop
async def test_a_process_that_is_alive_answers_and_no_helper_is_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only with no test process alive are the sources asked."""
    spy = Spy(monkeypatch)
    async with serving() as front:
        await front.start()
        (process,) = await front.live("main")
        adding = front.call("breakpoint_add", function_name="total")
        command = await process.next(AddBreakpoint)
        answer = {"functions": ["a.total"], "verified": True, "message": None}
        await process.send(Replied(command.request, answer))
        assert (await adding)["functions"] == ["a.total"]
    assert spy.replies == []


@in_loop
async def test_a_breakpoint_is_accepted_when_the_sources_cannot_be_asked() -> None:
    """What can't be known is accepted with `verified: false`."""
    async with serving() as front:  # its interpreter is `sleep`
        reply = await front.call("breakpoint_add", function_name="total")
        assert (reply["status"], reply["functions"], reply["verified"]) == ("ok", [], False)
        assert "sleep could not be asked" in reply["message"]


@pytest.mark.usefixtures("here")
@in_loop
async def test_what_the_sources_say_is_kept_as_long_as_there_is_no_run(root: Path) -> None:
    """Then its processes tell; until one is there, the sources are told and not kept."""
    async with serving() as front:
        sleeping, recipe = front.runs.recipe, recipe_of(root)
        name = "shop.cart.total"
        front.runs.recipe = recipe
        assert (await front.call("breakpoint_add", function_name=name))["functions"] == [name]
        assert [each.verified for each in front.desired] == [True]
        front.runs.recipe = sleeping
        await front.start()
        front.runs.recipe = recipe
        assert [each.verified for each in front.desired] == [False]
        reply = await front.call("breakpoint_add", function_name=name)
        assert (reply["functions"], reply["verified"]) == ([name], True)
        assert [each.verified for each in front.desired] == [False]
