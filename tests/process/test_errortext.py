"""The text of an exception is that of `str`, made without a call of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_cideldill.project import Project
from pytest_cideldill.redaction.redactor import Redactor
from pytest_cideldill.rendering.display import Lens
from pytest_cideldill.rendering.exception_text import ASK, message_of, without_hint
from tests.each_case import for_each

ROOT = Path(__file__).parents[2]


def shown(error: BaseException) -> str:
    return message_of(error, Lens(Project(str(ROOT)), Redactor(environ={})))


def caught(work: Callable[[], object]) -> BaseException:
    try:
        work()
    except BaseException as error:  # noqa: BLE001 - any is told
        return error
    raise AssertionError("it raised nothing")


def fail_with(error: BaseException) -> None:
    raise error


@for_each(
    "work",
    [
        lambda: os.rename("/no such file", "/no other file"),
        lambda: Path("/no such file").stat(),
        lambda: dict[str, str]()[""],
        lambda: b"abc\xe9".decode("utf-8"),
        lambda: "abc\xe9".encode("ascii"),
        lambda: compile("x = (", "deep/below/it.py", "exec"),
        lambda: __import__("os.nothing"),
        lambda: json.loads("{"),
        lambda: subprocess.run([sys.executable, "-c", "exit(3)"], check=True),
        lambda: int("x"),
        lambda: next(iter(())),
        lambda: pytest.fail("too\nlate"),
        lambda: pytest.skip("not here"),
        lambda: fail_with(pytest.fail.Exception()),
    ],
)
def test_what_python_and_pytest_raise_is_shown_as_they_show_it(work: Callable[[], object]) -> None:
    error = caught(work)
    assert shown(error) == str(error)


@pytest.mark.full
def test_every_exception_of_the_standard_library_is_shown_as_str_does() -> None:
    program = [sys.executable, "-m", "tests.process.all_exceptions"]
    reported = json.loads(subprocess.run(program, capture_output=True, cwd=ROOT, check=True).stdout)
    assert len(reported["made"]) > 250
    # What a failed example is told by is the `repr` of the doctest, which runs for pytest alone.
    of_doctest = ("doctest.DocTestFailure", "doctest.UnexpectedException")
    wrong = {name: texts for name, texts in reported["wrong"].items() if of_doctest[0] not in name}
    assert not {name: texts for name, texts in wrong.items() if of_doctest[1] not in name}


class Reported(Exception):
    def __init__(self, code: int) -> None:
        super().__init__("args")
        self.code = code

    def __str__(self) -> str:
        raise AssertionError("code of the program ran")


class Text(str):
    __slots__ = ()
    __str__ = __repr__ = Reported.__str__


def test_a_text_that_the_program_makes_is_reported_by_its_fields_and_how_to_ask() -> None:
    assert shown(Reported(7)) == f"args, code=7 ({ASK})"
    long = Reported(7)
    long.args = ("x" * 10_000,)
    assert shown(long) == f"{'x' * 500} ({ASK})"


def test_the_hint_is_left_out_where_nothing_can_be_asked() -> None:
    assert without_hint(shown(Reported(7))) == "args, code=7"
    assert without_hint(f"({ASK})") == ""
    assert without_hint("a plain (text)") == "a plain (text)"


def test_no_code_of_what_an_exception_holds_runs() -> None:
    class Odd:
        __str__ = __repr__ = Reported.__str__

    odd: Any = Odd()
    text = Text("it")
    for error in (
        ValueError(odd),
        ValueError(odd, text),
        ValueError(Reported(1)),
        KeyError(text),
        OSError(odd, text, odd),
        ImportError(text),
        SyntaxError(text, (text, 3, 1, text)),
        UnicodeDecodeError("utf-8", b"abc\xe9", 3, 4, text),
        ExceptionGroup(text, [ValueError(odd)]),
        subprocess.CalledProcessError(1, odd),
        subprocess.TimeoutExpired(odd, odd),
    ):
        assert shown(error)
    assert shown(ValueError(Reported(1))).startswith("Reported(")


def test_a_class_that_only_looks_like_one_of_the_standard_library_is_none() -> None:
    fake = type("CalledProcessError", (Exception,), {"__str__": Reported.__str__})
    fake.__module__ = "subprocess"
    assert shown(fake("x")) == f"x ({ASK})"


def test_secrets_in_it_are_hidden() -> None:
    assert "hunter2hunter2" not in shown(ValueError("password=hunter2hunter2"))
    error = OSError(2, "no file", "/x?token=hunter2hunter2")
    assert "hunter2hunter2" not in shown(error)
    assert shown(ValueError("x" * 1_000)) == "x" * 500
