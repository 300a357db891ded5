"""Parsing, compiling and reading tokens of any text leaves the program's warnings alone."""

from __future__ import annotations

import ast
import io
import random
import subprocess
import sys
import threading
import tokenize
import warnings
from pathlib import Path
from types import CodeType
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cideldill.sourcecode.quiet import compiled, literal, parse, parse_expression, tokens
from tests.each_case import for_each

WARNED = {
    "an escape": r'"\d"',
    "an escape of bytes": r'b"\d \N"',
    "an escape beside right ones": r'"\n\x41\\\d\N{EM DASH}"',
    "an octal escape": r'"\477"',
    "an escape on a further line": '"""\\\n\n  \\d"""',
    "an escape beside a raw string": r"""r"\d" "\d" R'\d' """,
    "an escape in a format": r'f"\d{x:\d}"',
    "an escape before a brace": r'f"\{x}"',
    "a decimal number before a word": "1or x",
    "a hexadecimal number before a word": "0x1if x else 2",
    "a literal compared by identity": "x is 1",
    "a literal compared by no identity": "x is not 'a'",
    "a string that is called": '"a" (x)',
    "a list that is called": "[1] (x)",
    "a number that is subscripted": "1[x]",
    "an index of no number": '[1, 2]["a"]',
    "an index that is a tuple": '"ab"[1, 2]',
    "a bool that is inverted": "~True",
    "an assertion of a tuple": 'assert (x, "why")',
    "a return in a finally": "def f():\n    try: pass\n    finally: return 1",
    "a break in a finally": "while x:\n    try: pass\n    finally: break",
}
KINDS: tuple[Literal["error", "always", "default", "once"], ...] = (
    "error",
    "always",
    "default",
    "once",
)


def alike(left: CodeType, right: CodeType) -> bool:
    """Whether two code objects do the same at the same places."""
    return left == right and list(left.co_positions()) == list(right.co_positions())


def plainly(text: str) -> tuple[str, CodeType, list[tuple[object, ...]]]:
    """The tree, code and tokens that the standard library makes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(text)
        code = compile(text, "it.py", "exec", dont_inherit=True)
        found = [of_note(each) for each in tokenize.generate_tokens(io.StringIO(text).readline)]
    return ast.dump(tree, include_attributes=True), code, found


def of_note(token: tokenize.TokenInfo) -> tuple[object, ...]:
    """What is read of a token: not the text."""
    return token.type, token.start, token.end


def check(text: str) -> None:
    """Everything is made of a text as by the standard library, and no warning comes."""
    tree, code, found = plainly(text)
    for kind in KINDS:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter(kind)
            before = list(warnings.filters)
            made = parse(text)
            assert ast.dump(made, include_attributes=True) == tree
            assert alike(compiled(text, "it.py", "exec"), code)
            assert alike(compiled(made, "it.py", "exec"), code)
            assert [of_note(each) for each in tokens(io.StringIO(text))] == found
            assert list(warnings.filters) == before
        assert caught == []


@for_each("text", WARNED.values())
def test_what_the_compiler_warns_of_is_made_without_a_warning(text: str) -> None:
    check(text)
    check(f"if x:\n    y = 1\n    {text}\n" if "\n" not in text else text)


PREFIXES = ["", "r", "b", "f", "rb", "fr", "u"]
QUOTES = ["'", '"', "'''", '"""']
INSIDE = "\\dnxNuU{}04a'\"\n# "


@pytest.mark.full
@given(
    st.sampled_from(PREFIXES),
    st.sampled_from(QUOTES),
    st.text(INSIDE, max_size=12),
)
def test_any_string_is_made_as_the_standard_library_makes_it(
    prefix: str, quote: str, inside: str
) -> None:
    check_or_refuse(f"x = ({prefix}{quote}{inside}{quote}, 1)\n")


def test_some_strings_are_made_as_the_standard_library_makes_them() -> None:
    chooser = random.Random(3)
    for _ in range(40):
        quote, inside = chooser.choice(QUOTES), chooser.choices(INSIDE, k=chooser.randrange(13))
        text = "".join([chooser.choice(PREFIXES), quote, *inside, quote])
        check_or_refuse(f"x = ({text}, 1)\n")


def check_or_refuse(text: str) -> None:
    try:
        plainly(text)
    except (SyntaxError, ValueError):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises((SyntaxError, ValueError)):
                compiled(text, "it.py", "exec")
    else:
        check(text)


def test_an_error_is_that_of_the_compiler_and_leaves_the_filters_as_they_were() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = list(warnings.filters)
        with pytest.raises(SyntaxError) as failed:
            parse('x = "\\d"\ny = (', "it.py")
        assert list(warnings.filters) == before
    assert (failed.value.filename, failed.value.lineno, failed.value.offset) == ("it.py", 2, 5)


def test_what_was_shown_once_stays_shown() -> None:
    """As it would not, if somebody told the interpreter that filters were changed."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(2):
            warnings.warn("of the program", UserWarning, stacklevel=1)
            parse(r'"\d"')
    assert len(caught) == 1


def test_filters_that_are_no_list_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warnings, "filters", ())
    assert literal("[1, 2]") == [1, 2]
    assert warnings.filters == ()


def test_literals_and_expressions_are_read_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert literal(r' "\d"') == r"\d"
        assert ast.unparse(parse_expression("1or x")) == "1 or x"
        with pytest.raises(ValueError, match="malformed"):
            literal("x")


def test_no_warning_comes_while_other_threads_exchange_the_filters() -> None:
    """A thread may come between any two instructions of Python."""
    over = threading.Event()
    texts = [(r'"\d"', "exec"), ("x is 1", "eval")] * 300

    def exchange() -> None:
        while not over.is_set():
            with warnings.catch_warnings():
                warnings.simplefilter("error")

    switching = sys.getswitchinterval()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        thread = threading.Thread(target=exchange)
        sys.setswitchinterval(1e-6)
        try:
            thread.start()
            for text, mode in texts:
                compiled(text, "<it>", mode)
        finally:
            sys.setswitchinterval(switching)
            over.set()
            thread.join()


PART = """
import ast, pathlib, sys, sysconfig, warnings
from pytest_cideldill.sourcecode.quiet import parse
warnings.simplefilter("ignore")
files = sorted(pathlib.Path(sysconfig.get_path("stdlib")).rglob("*.py"))
step, least = map(int, sys.argv[1:])
count = 0
for file in files[::step]:
    data = file.read_bytes()
    try:
        right = ast.dump(ast.parse(data), include_attributes=True)
    except (SyntaxError, ValueError):
        continue
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(("always", "error")[count % 2])
        assert ast.dump(parse(data), include_attributes=True) == right, file
    assert not caught, (file, caught)
    count += 1
assert count > least, count
"""


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("step", "least"),
    [
        pytest.param(21, 50, id="a part", marks=pytest.mark.full),
        pytest.param(1, 1000, id="all", marks=pytest.mark.soak),
    ],
)
def test_the_standard_library_is_parsed_as_it_is(step: int, least: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PART, str(step), str(least)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=380,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.full
def test_nothing_else_of_ours_calls_the_parser() -> None:
    """Each other way would warn; what is made of text of our own is known to be harmless."""
    package = Path(sys.modules["pytest_cideldill"].__file__ or "").parent
    own_text = {"lines.py", "substitute.py", "trampolines.py", "quiet.py"}
    found = []
    for file in package.rglob("*.py"):
        for node in ast.walk(parse(file.read_bytes())):
            if not isinstance(node, ast.Call) or file.name in own_text:
                continue
            called = ast.unparse(node.func)
            if called in ("compile", "ast.parse") or "generate_tokens" in called:
                found.append(f"{file.name}:{node.lineno}: {called}")
            if called == "ast.literal_eval" and not isinstance(node.args[0], ast.Name):
                found.append(f"{file.name}:{node.lineno}: {called}")
    assert found == []
