"""Lines, columns and names to code objects: from the text alone, and the same as what runs."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from pytest_cideldill.interpreter.one_shot import reply_on
from pytest_cideldill.sourcecode.codes import CodeKey, key_of, lines_of, walk
from pytest_cideldill.sourcecode.locations import (
    Candidate,
    FunctionNotFound,
    InvalidColumn,
    InvalidLine,
    InvalidSource,
    SourceMap,
)
from tests.each_case import for_each


def find_codes(root: CodeType, key: CodeKey) -> list[CodeType]:
    """The code objects of a tree that a key means."""
    return [code for code, _, _ in walk(root) if key_of(code) == key]


# Every line with code runs when this is executed; the comments are read by the tests.
SHOP = '''\
"""A module docstring
over two lines."""

import asyncio


def twice(function):
    return function


@twice
@twice
class Cart:
    """A docstring."""

    size: int
    names = [
        "a",
        str(1),
    ]

    def total(self,
              tax=0,
              ):
        """A docstring
        over two lines."""
        # a comment

        result = (self.names,
                  tax)

        def inner(): return result
        return inner()

    @property
    def empty(self):
        global nothing
        return not self.names

    @staticmethod
    async def load(source):
        async with source as name:
            await asyncio.sleep(0)
        async for each in source:
            name += each
        return name


def kind(value):
    match value:
        case 1:
            return "one"
        case str():
            return "text"
        case _:
            pass


def guarded():
    try:
        int("x")
    except ValueError:
        found = [n for n in range(2)]
    else:
        raise AssertionError
    finally:
        found = sorted(found, key=lambda n:
                       -n)
    while found:
        found.pop()
    return sum(
        n * 2
        for n in (1, 2)
    )


def numbers():
    yield 1
    yield from (2, 3)


def documented():
    """Nothing else."""


class Source:
    async def __aenter__(self):
        return "a"

    async def __aexit__(self, *args):
        return None

    async def __aiter__(self):
        yield "b"


cart = Cart()
cart.total(); cart.empty
asyncio.run(Cart.load(Source()))
kind(1); kind("x"); kind(None)
guarded()
list(numbers())
documented()
pair = (lambda: 1), (lambda: 1), (lambda x: (lambda: x))
pair[0](), pair[1](), pair[2](1)()
ünï = "ü", (lambda ü: ü), sum(ü for ü in (1, 2)); ünï[1](1)
'''


def line_of(text: str, source: str = SHOP) -> int:
    """The number of the only line that starts with a text."""
    lines = [number for number, line in enumerate(source.split("\n"), 1)
             if line.lstrip().startswith(text)]  # fmt: skip
    assert len(lines) == 1, (text, lines)
    return lines[0]


@pytest.fixture(scope="module")
def shop() -> SourceMap:
    return SourceMap.from_source(SHOP, "shop.py")


def traced_lines(code: CodeType, namespace: dict[str, Any]) -> set[tuple[CodeKey, int]]:
    """The line events of CPython while `code` runs."""
    seen = set()

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        if frame.f_code.co_filename != code.co_filename:
            return None
        if event == "line":
            seen.add((key_of(frame.f_code), frame.f_lineno))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        exec(code, namespace)
    finally:
        sys.settrace(before)
    return seen


def test_the_lines_of_every_code_object_are_those_that_have_events(shop: SourceMap) -> None:
    code = compile(SHOP, "shop.py", "exec", dont_inherit=True)
    events = traced_lines(code, {"__name__": "shop"})
    docstrings = {1, 2, line_of('"""A docstring."""')}
    never = {line_of("raise AssertionError")}
    assert {line for _, line in events} - docstrings == set(shop.lines) - never
    for key, line in events:
        assert any(line in lines_of(each) for each in find_codes(shop.root, key))


@for_each(
    ("line", "nearest"),
    [
        (1, "import asyncio"),
        (2, "import asyncio"),
        (3, "import asyncio"),
        (line_of("import asyncio"), "import asyncio"),
        (line_of("import asyncio") + 1, "import asyncio"),
        (line_of("def twice") - 1, "def twice"),
        (line_of('"""A docstring."""'), "size: int"),
        (line_of("]"), "names = ["),
        (line_of("tax=0") + 1, "def total"),
        (line_of("# a comment") - 1, "result ="),
        (line_of("# a comment"), "result ="),
        (line_of("# a comment") + 1, "result ="),
        (line_of("global nothing"), "return not"),
        (line_of("else:"), "raise AssertionError"),
        (line_of("finally:"), "found = sorted"),
        (line_of("for n in (1, 2)") + 1, "return sum("),
        (0, "import asyncio"),
        (-5, "import asyncio"),
        (9_999, "ünï ="),
    ],
)
def test_a_line_without_code_is_refused_with_the_nearest_that_has(
    shop: SourceMap, line: int, nearest: str
) -> None:
    expected = line_of(nearest)
    assert shop.nearest(line) == expected
    if line != expected:
        with pytest.raises(InvalidLine, match=f"use line {expected}") as reported:
            shop.code_for_line(line)
        assert (reported.value.line, reported.value.nearest) == (line, expected)


def test_a_file_without_code_has_no_nearest_line() -> None:
    for text in ("# only a comment\n", '"""Only a docstring."""\n'):
        with pytest.raises(InvalidLine, match="none at all") as reported:
            SourceMap.from_source(text, "x.py").code_for_line(1)
        assert reported.value.nearest is None


@for_each(
    ("text", "qualname"),
    [
        ("import asyncio", "<module>"),
        ("def twice", "<module>"),
        ("return function", "twice"),
        ("class Cart", "<module>"),
        ("size: int", "Cart"),
        ("str(1)", "Cart"),
        ("def total", "Cart"),
        ("result =", "Cart.total"),
        ("tax)", "Cart.total"),
        ("def inner", "Cart.total"),
        ("return inner", "Cart.total"),
        ("@property", "Cart"),
        ("return not", "Cart.empty"),
        ("await asyncio", "Cart.load"),
        ("async for", "Cart.load"),
        ("match value", "kind"),
        ("case str()", "kind"),
        ("found = [n", "guarded"),
        ("found = sorted", "guarded"),
        ("-n)", "guarded.<locals>.<lambda>"),
        ("n * 2", "guarded.<locals>.<genexpr>"),
        ("for n in (1, 2)", "guarded"),
        ("yield from", "numbers"),
        ("pair =", "<module>"),
    ],
)
def test_a_line_means_the_outermost_code_object_that_has_it(
    shop: SourceMap, text: str, qualname: str
) -> None:
    place = shop.code_for_line(line_of(text))
    assert place.key.qualname == qualname
    assert place.source.startswith(text)


def column_of(text: str, piece: str, count: int = 1) -> int:
    line = SHOP.split("\n")[line_of(text) - 1]
    at = -1
    for _ in range(count):
        at = line.index(piece, at + 1)
    return at + 1


@for_each(
    ("text", "piece", "count", "qualname"),
    [
        ("pair =", "pair", 1, "<module>"),
        ("pair =", "lambda", 1, "<lambda>"),
        ("pair =", "1", 2, "<lambda>"),
        ("pair =", "), (", 1, "<module>"),
        ("pair =", "lambda x", 1, "<lambda>"),
        ("pair =", "(lambda: x)", 1, "<lambda>"),
        ("pair =", "lambda: x", 1, "<lambda>.<locals>.<lambda>"),
        ("ünï =", '"ü"', 1, "<module>"),
        ("ünï =", "lambda", 1, "<lambda>"),
        ("ünï =", "ü), sum", 1, "<lambda>"),
        ("ünï =", "sum", 1, "<module>"),
        ("ünï =", "for", 1, "<genexpr>"),
        ("def inner", "def", 1, "Cart.total"),
        ("def inner", "return", 1, "Cart.total.<locals>.inner"),
        ("-n)", "n", 1, "guarded.<locals>.<lambda>"),
    ],
)
def test_a_column_selects_the_innermost_code_object_that_has_it(
    shop: SourceMap, text: str, piece: str, count: int, qualname: str
) -> None:
    place = shop.code_for_line(line_of(text), column_of(text, piece, count))
    assert place.key.qualname == qualname


def test_lambdas_of_one_line_are_distinguished_in_another_compilation(shop: SourceMap) -> None:
    source = "f = (lambda: 1), (lambda: 2), (lambda: {'a', 'b'}.pop()), [(lambda: 1)]\n"
    source_map = SourceMap.from_source(source, "x.py")
    keys = [source_map.code_for_line(1, each.column).key for each in source_map.candidates(1)[1:]]
    live = compile(source, "elsewhere.py", "exec", dont_inherit=True)
    found = [find_codes(live, key) for key in keys]
    assert [len(each) for each in found] == [1, 1, 1, 1]
    assert [eval(each[0]) for each in found[:2]] == [1, 2]


@for_each("column", [0, -1, 200])
def test_a_column_without_code_is_refused_with_candidates(shop: SourceMap, column: int) -> None:
    with pytest.raises(InvalidColumn, match=r"use one of 9 \(Cart\.total\), 22") as reported:
        shop.code_for_line(line_of("def inner"), column)
    assert reported.value.candidates == (
        Candidate(9, "Cart.total"),
        Candidate(22, "Cart.total.<locals>.inner"),
    )


def test_the_indentation_is_no_column_of_the_line(shop: SourceMap) -> None:
    with pytest.raises(InvalidColumn) as reported:
        shop.code_for_line(line_of("return function"), 1)
    assert reported.value.candidates == (Candidate(5, "twice"),)


def test_the_columns_of_lambdas_that_are_one_constant_object_are_all_reported(
    shop: SourceMap,
) -> None:
    columns = [each.column for each in shop.candidates(line_of("pair ="))]
    expected = [1, *(column_of("pair =", "lambda", count) for count in (1, 2, 3, 4))]
    assert columns == expected
    assert shop.candidates(3) == ()


@for_each(
    ("name", "text"),
    [
        ("twice", "return function"),
        ("Cart.total", "result ="),
        ("total", "result ="),
        ("Cart.total.<locals>.inner", "def inner"),
        ("Cart.total.inner", "def inner"),
        ("empty", "return not"),
        ("load", "async with"),
        ("numbers", "yield 1"),
        ("documented", "def documented"),
        ("guarded", "try:"),
    ],
)
def test_a_function_means_its_first_line_behind_the_docstring(
    shop: SourceMap, name: str, text: str
) -> None:
    (place,) = shop.function_places(name)
    assert place.line == line_of(text)
    assert place.key.qualname.endswith(name.rpartition(".")[2])


def test_a_bare_name_means_every_function_of_that_name_and_a_full_one_only_its_own() -> None:
    text = "def f(): pass\nclass A:\n    def f(self):\n        @g\n        def h(): pass\n"
    source_map = SourceMap.from_source(text, "x.py")
    assert [place.line for place in source_map.function_places("A.f")] == [4]
    assert [place.line for place in source_map.function_places("f")] == [1]
    both = SourceMap.from_source(text + "class B:\n  def f(self): 1\n", "x.py")
    assert [p.key.qualname for p in both.function_places("h")] == ["A.f.<locals>.h"]
    redefined = SourceMap.from_source("if x:\n  def f(): 1\nelse:\n  def f(): 2\n", "x.py")
    assert [place.line for place in redefined.function_places("f")] == [2, 4]


def test_a_lambda_has_the_name_that_a_module_or_a_class_gives_it() -> None:
    """What is named there; of several in a line it is told which."""
    text = """\
first, (second) = lambda: 1, lambda: 2
key = sorted([], key=lambda n: n); named = lambda n: n
class A:
    if key:
        kept = lru_cache(maxsize=None)(lambda self: 1)
        width: int = property(
            lambda self: 2
        )
    made = list(map(lambda n: n, []))
def outer():
    inner = lambda: 3
"""
    source_map = SourceMap.from_source(text, "x.py")
    reported = [(each.qualname, each.line, each.kind) for each in source_map.functions()]
    assert reported == [
        ("named", 2, "function"),
        ("A.kept", 5, "method"),
        ("A.width", 7, "property"),
        ("outer", 10, "function"),
    ]
    (named,) = source_map.function_places("named")
    assert (named.line, named.key.qualname) == (2, "<lambda>")
    column = text.splitlines()[1].rindex("lambda") + 1
    assert named.key == source_map.code_for_line(2, column).key


def test_an_unknown_function_is_refused_with_similar_ones(shop: SourceMap) -> None:
    with pytest.raises(FunctionNotFound, match=r"it has Cart\.total") as reported:
        shop.function_places("Cart.totals")
    assert "guarded" in reported.value.known
    with pytest.raises(FunctionNotFound, match="none at all"):
        SourceMap.from_source("x = 1\n", "x.py").function_places("f")


def test_the_functions_of_a_file_are_described_without_importing_it(shop: SourceMap) -> None:
    reported = [(each.qualname, each.signature_text, each.kind) for each in shop.functions()]
    assert reported == [
        ("twice", "(function)", "function"),
        ("Cart.total", "(self, tax=0)", "method"),
        ("Cart.total.<locals>.inner", "()", "function"),
        ("Cart.empty", "(self)", "property"),
        ("Cart.load", "(source)", "async static method"),
        ("kind", "(value)", "function"),
        ("guarded", "()", "function"),
        ("numbers", "()", "generator function"),
        ("documented", "()", "function"),
        ("Source.__aenter__", "(self)", "async method"),
        ("Source.__aexit__", "(self, *args)", "async method"),
        ("Source.__aiter__", "(self)", "async generator method"),
    ]
    assert shop.functions()[3].line == line_of("def empty")


def test_a_signature_reports_every_kind_of_parameter_without_annotations() -> None:
    text = (
        "def f(a, /, b: int, c=[1, 2], *args: str, d, e: int = 3, **rest) -> None: 1\n"
        "def g(*, k): 1\n"
        "def h(x=" + repr("long" * 30) + "): 1\n"
    )
    first, second, third = SourceMap.from_source(text, "x.py").functions()
    assert first.signature_text == "(a, /, b, c=[1, 2], *args, d, e=3, **rest)"
    assert second.signature_text == "(*, k)"
    assert third.signature_text.endswith("…)")


@for_each(
    ("text", "line"),
    [("x = (\n", 1), ("def f():\n  1\n 2\n", 3), ("x = 1\ny = = 2\n", 2), ("x = '\0'", None),
     ("(" * 500, 1), ("x = " + "-" * 200_000 + "1", None)],
)  # fmt: skip
def test_malformed_source_is_refused_with_its_line(text: str, line: int | None) -> None:
    with pytest.raises(InvalidSource, match=r"x\.py.* can't be compiled: .") as reported:
        SourceMap.from_source(text, "x.py")
    assert reported.value.line == line or line is None


@for_each("end", ["\n", "\r\n", "\r"])
def test_line_ends_of_every_system_count_alike(end: str) -> None:
    text = "\x0cx = 1\n\ny = '''\x0b\n\x1c'''\nz = 3\n".replace("\n", end)
    assert SourceMap.from_source(text, "x.py").lines == (1, 3, 5)


def test_assertion_rewriting_changes_neither_keys_nor_lines() -> None:
    rewrite: Callable[..., None] = pytest.importorskip("_pytest.assertion.rewrite").rewrite_asserts
    text = Path(__file__).read_text(encoding="utf-8") + (
        "\nassert all(n for n in (1, 2)) and (lambda: 1)() == (lambda: 2)(), (\n"
        "    lambda:\n        3)()\n"
    )
    tree = ast.parse(text)
    rewrite(tree, text.encode(), "x.py", None)
    live = compile(tree, "x.py", "exec", dont_inherit=True)
    plain = SourceMap.from_source(text, "x.py").root
    assert {key_of(code) for code, _, _ in walk(live)} == {key_of(c) for c, _, _ in walk(plain)}
    for code, _, _ in walk(plain):
        copies = find_codes(live, key_of(code))
        assert any(lines_of(code) <= lines_of(copy) for copy in copies)


def test_a_key_survives_the_wire(shop: SourceMap) -> None:
    for code, _, _ in walk(shop.root):
        key = key_of(code)
        assert CodeKey.from_plain(json.loads(json.dumps(key.to_plain()))) == key


# ------------------------------------------------------------------------------------ the helper


def ask(request: object, folder: Path | None = None) -> dict[str, Any]:
    """One request to a helper process of this interpreter."""
    (reply,) = replies(request if isinstance(request, str) else json.dumps(request), folder)
    return reply


def replies(asked: str, folder: Path | None = None) -> list[dict[str, Any]]:
    command = [sys.executable, "-P", "-m", "pytest_cideldill.sourcecode.helper"]
    run = subprocess.run(
        command, input=asked.encode(), capture_output=True, check=True, cwd=folder, timeout=30
    )
    assert run.stderr == b""
    return [each for line in run.stdout.splitlines() if (each := reply_on(line)) is not None]


def test_the_helper_answers_without_running_what_it_reads(tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    file.write_text("# coding: latin-1\nname = 'caf\xe9'; 1 is 1\nraise SystemExit(3)\n", "latin-1")
    (tmp_path / "json.py").write_text("raise SystemExit(4)\n", encoding="utf-8")
    assert ask({"op": "lines", "file": "shop.py"}, tmp_path) == {"lines": [2, 3]}


def test_the_helper_reports_what_is_wrong_with_a_request() -> None:
    assert ask("no json")["error"] == "invalid_request"


@pytest.fixture
def answer() -> Callable[[object], dict[str, Any]]:
    from pytest_cideldill.sourcecode.helper import answer

    return answer


def test_every_operation_has_its_reply(
    tmp_path: Path, answer: Callable[[object], dict[str, Any]]
) -> None:
    path = tmp_path / "shop.py"
    path.write_text(SHOP, encoding="utf-8")
    file = str(path)
    line = line_of("pair =")
    column = column_of("pair =", "lambda")
    place = answer({"op": "validate", "file": file, "line": line, "column": column})["places"][0]
    assert place["function"] == "<lambda>"
    assert place["key"][:2] == ["<lambda>", line]
    assert place["offset"] == SHOP.split("\n")[line - 1].strip().index("lambda")
    places = answer({"op": "validate", "file": file, "function": "total"})["places"]
    assert [each["line"] for each in places] == [line_of("result =")]
    functions = answer({"op": "functions", "file": file})["functions"]
    assert functions[1] == {
        "qualname": "Cart.total",
        "line": line_of("def total"),
        "signature": "(self, tax=0)",
        "kind": "method",
    }
    assert answer({"op": "compile_condition", "condition": "x > 1"}) == {}
    template = answer({"op": "compile_template", "template": "{x} {y:{z}}"})
    assert template == {"expressions": ["x", "y", "z"]}


def test_the_helper_answers_one_line_after_another(tmp_path: Path) -> None:
    """What is no request has an answer of its own."""
    asked = [{"op": "compile_condition", "condition": text} for text in ("x", "x =")]
    lines = "\n".join(json.dumps(each) for each in [{"op": "ready"}, *asked, 3])
    ready, fine, *refused = replies(f"{lines}\n[\n")
    assert (ready, fine) == ({}, {})
    errors = ["invalid_condition", "invalid_request", "invalid_request"]
    assert [each["error"] for each in refused] == errors


@for_each(
    ("request_", "error", "extra"),
    [
        ({"op": "validate", "line": 3}, "invalid_line", {"nearestValidLine": 4}),
        ({"op": "validate", "line": 4, "column": 99}, "invalid_column",
         {"candidates": [{"column": 1, "function": "<module>"}]}),
        ({"op": "validate", "function": "no"}, "function_not_found", {}),
        ({"op": "validate", "line": "4"}, "invalid_request", {}),
        ({"op": "validate"}, "invalid_request", {}),
        ({"op": "lines", "file": "no/such.py"}, "file_not_found", {}),
        ({"op": "lines", "file": "a\0b"}, "invalid_request", {}),
        ({"op": "lines", "file": 3}, "invalid_request", {}),
        ({"op": "compile_condition", "condition": "x ="}, "invalid_condition", {}),
        ({"op": "compile_template", "template": "{x"}, "invalid_template", {"position": 0}),
        ({"op": "unknown"}, "invalid_request", {}),
        ({"op": ["lines"]}, "invalid_request", {}),
        ([], "invalid_request", {}),
        (None, "invalid_request", {}),
    ],
)  # fmt: skip
def test_the_helper_answers_mistakes_with_a_code(
    tmp_path: Path,
    answer: Callable[[object], dict[str, Any]],
    request_: Any,
    error: str,
    extra: dict[str, Any],
) -> None:
    path = tmp_path / "shop.py"
    path.write_text(SHOP, encoding="utf-8")
    given = {"file": str(path), **request_} if isinstance(request_, dict) else request_
    reply = answer(given)
    assert reply["error"] == error
    assert reply["message"]
    assert {name: reply[name] for name in extra} == extra


@pytest.mark.parametrize("content", [b"x = (\n", b"\xff\xfe\x00", b"# coding: no-such\n", b"\0"])
def test_the_helper_survives_files_that_are_no_python(
    tmp_path: Path, answer: Callable[[object], dict[str, Any]], content: bytes
) -> None:
    path = tmp_path / "odd.py"
    path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert answer({"op": "lines", "file": str(path)})["error"] == "invalid_source"
