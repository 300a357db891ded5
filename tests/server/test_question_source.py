"""One function or class as text: found by name or line, marked with what a test ran."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from cideldill_mcp.questions.recordings.listing import SourceFiles
from cideldill_mcp.questions.source.find_definitions import find
from cideldill_mcp.questions.source.source_text import source_answer
from cideldill_mcp.questions.texts.fitting import Answer
from pytest_cideldill.errors import Refusal
from tests.server.recordings import NODEID, recorded_run

SHOP = '''
"""A shop."""
from functools import cached_property, wraps

RATES = {"FLAT5": lambda price: price * 0.95}
KEY = lambda item: (
    item.name
)


def logged(function):
    """Decorates."""

    @wraps(function)
    def call(*args):
        return function(*args)

    return call


class Cart:
    """What is bought."""

    limit = 3

    def __init__(self):
        self._items = []

    @property
    def items(self):
        return self._items

    @items.setter
    def items(self, value):
        # Never shared.
        self._items = list(value)

    @logged
    def add(self, price):
        if price < 0:
            raise ValueError(
                price
            )
        self._items.append(price)


def total(cart):
    full = 0
    for price in cart.items:
        full += price
    return full


def test_total():
    cart = Cart()
    for price in range(12):
        cart.add(price)
    assert total(cart) == 3
'''


@pytest.fixture
def files(tmp_path: Path) -> SourceFiles:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").touch()
    (tmp_path / "shop" / "cart.py").write_text(SHOP.lstrip(), encoding="utf-8")
    (tmp_path / "shop" / "broken.py").write_text("def total(:\n", encoding="utf-8")
    return SourceFiles(str(tmp_path))


def text_of(files: SourceFiles, function: str) -> str:
    return source_answer(files, find(files, function=function)).text


def test_a_function_is_shown_with_its_decorators_and_numbers(files: SourceFiles) -> None:
    answer = source_answer(files, find(files, function="shop.cart.Cart.add"))
    assert answer.text == (
        "shop/cart.py:37–43  shop.cart.Cart.add\n"
        "  37  @logged\n"
        "  38  def add(self, price):\n"
        "  39      if price < 0:\n"
        "  40          raise ValueError(\n"
        "  41              price\n"
        "  42          )\n"
        "  43      self._items.append(price)"
    )
    assert answer.fields == {"file": "shop/cart.py", "first": 37, "last": 43}


@pytest.mark.parametrize(
    "name",
    ["add", "Cart.add", "shop.cart.Cart.add", "shop.cart:Cart.add", "shop/cart.py::Cart.add"],
)
def test_each_form_of_a_name_finds_it(files: SourceFiles, name: str) -> None:
    assert text_of(files, name).startswith("shop/cart.py:37–43  shop.cart.Cart.add\n")


def test_properties_classes_inner_functions_and_lambdas_are_found(files: SourceFiles) -> None:
    accessors = text_of(files, "shop.cart.Cart.items")
    assert "shop/cart.py:28–30" in accessors
    assert "shop/cart.py:32–35" in accessors
    assert "# Never shared." in accessors
    assert text_of(files, "shop.cart.Cart").startswith("shop/cart.py:20–43  shop.cart.Cart\n")
    assert text_of(files, "Cart").startswith("shop/cart.py:20–43  shop.cart.Cart\n")
    assert text_of(files, "shop.cart.Cart.__init__").splitlines()[1:] == [
        "  25  def __init__(self):",
        "  26      self._items = []",
    ]
    assert text_of(files, "shop.cart.logged.call").splitlines()[1] == "  13  @wraps(function)"
    assert text_of(files, "shop.cart.KEY").startswith("shop/cart.py:5–7  shop.cart.KEY\n")


def test_a_line_means_the_innermost_function_or_the_statement_around_it(
    files: SourceFiles,
) -> None:
    for line, head in {
        15: "shop/cart.py:13–15  shop.cart.logged.call",
        17: "shop/cart.py:10–17  shop.cart.logged",
        23: "shop/cart.py:20–43  shop.cart.Cart",
        41: "shop/cart.py:37–43  shop.cart.Cart.add",
        6: "shop/cart.py:5–7  shop.cart.KEY",
        4: "shop/cart.py:4  a statement of the module",
    }.items():
        for file in ("shop/cart.py", str(Path(files.rootdir, "shop", "cart.py"))):
            found = find(files, file=file, line=line)
            assert source_answer(files, found).text.splitlines()[0] == head


@pytest.mark.parametrize(
    ("asked", "code", "message"),
    [
        ({"function": "shop.cart.Cart.ad"}, "function_not_found", "did you mean shop.cart.Cart.ad"),
        ({"function": "no name"}, "invalid_parameter", "is no function name"),
        ({"file": "shop/cart.py", "line": 19}, "invalid_line", "line 19 of shop/cart.py has no"),
        ({"file": "shop/cat.py", "line": 1}, "file_not_found", "is not found"),
        ({"file": "shop/broken.py", "line": 1}, "invalid_source", "can't be parsed"),
        ({"file": "shop/cart.py"}, "missing_parameter", "give function, or file and line"),
    ],
)
def test_what_is_not_there_is_refused_with_a_way_out(
    files: SourceFiles, asked: dict[str, str], code: str, message: str
) -> None:
    with pytest.raises(Refusal, match=message) as refused:
        find(files, **asked)  # type: ignore[arg-type]
    assert refused.value.code == code


def marked(
    folder: Path, function: str, source: str = SHOP, max_chars: int = 4_000, cut: str = ""
) -> Answer:
    recorded = recorded_run(folder, dedent(source).lstrip(), "test_total")
    if cut:
        recorded.reached.append(("events", cut))
    files = SourceFiles(recorded.rootdir)
    found = find(files, function=function)
    test = recorded.tests[NODEID]
    return source_answer(files, found, recorded=recorded, test=test, max_chars=max_chars)


def test_lines_are_marked_with_how_often_a_test_ran_them(tmp_path: Path) -> None:
    answer = marked(tmp_path, "shop.Cart.add")
    assert answer.text == (
        "shop.py:37–43  shop.Cart.add\n"
        "in tests/test_shop.py::test_total  failed\n"
        "called from logged.call shop.py:15 ×12\n"
        "   |   37  @logged\n"
        "   |   38  def add(self, price):\n"
        "12×|   39      if price < 0:\n"
        "  -|   40          raise ValueError(\n"
        "   |   41              price\n"
        "   |   42          )\n"
        "12×|   43      self._items.append(price)"
    )
    assert answer.fields["lines_run"] == 2
    assert answer.next == [
        f'test_trace {{"nodeid": "{NODEID}", "function": "shop.Cart.add"}}: each line of a call'
    ]


def test_a_loop_on_one_line_ran_and_how_often_is_not_said(tmp_path: Path) -> None:
    source = """
    def drain(n):
        while n: n -= 1
        for _ in range(n): print(n)
        return n

    def test_total():
        assert drain(3)
    """
    assert marked(tmp_path, "drain", source).text.endswith(
        "   |    1  def drain(n):\n"
        "ran|    2      while n: n -= 1\n"
        "ran|    3      for _ in range(n): print(n)\n"
        " 1×|    4      return n"
    )


def test_callers_and_callees_stand_in_one_line(tmp_path: Path) -> None:
    text = marked(tmp_path, "shop.total").text
    assert "called from test_total shop.py:57; calls Cart.items" in text.splitlines()


def test_what_did_not_run_is_said_to_be_so(tmp_path: Path) -> None:
    source = SHOP + "\n\ndef never():\n    return 1\n"
    text = marked(tmp_path, "shop.never", source).text
    assert "failed: did not run" in text
    assert "|" not in text


def test_what_was_not_seen_is_not_said_to_have_run_or_not(tmp_path: Path) -> None:
    source = SHOP + "\n\ndef never():\n    return 1\n"
    text = marked(tmp_path, "shop.never", source, cut="another tracer came").text
    assert "failed: was not seen to run" in text
    assert text.endswith("another tracer came")


@pytest.mark.parametrize("max_chars", [300, 700, 1_500, 4_000, 50_000])
def test_a_long_class_is_cut_between_its_headers(tmp_path: Path, max_chars: int) -> None:
    methods = "".join(
        f'    def method{n}(self):\n        """Doc."""\n        a = {n}\n        return a\n\n'
        for n in range(60)
    )
    source = f"class Long:\n{methods}\n\ndef test_total():\n    Long().method30()\n"
    answer = marked(tmp_path, "shop.Long", source, max_chars)
    assert len(answer.text) <= max_chars
    assert answer.truncated == ("left out: " in answer.text)
    assert answer.truncated == (max_chars < 50_000)
    if max_chars >= 1_500:
        assert "1×|  155          return a" in answer.text
        assert "def method59(self)" in answer.text or max_chars < 4_000


def test_secrets_are_hidden_and_lines_keep_their_numbers(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text('def key():\n    return "hunter2"\n', encoding="utf-8")
    files = SourceFiles(str(tmp_path), lambda text: text.replace("hunter2", "…"))
    text = source_answer(files, find(files, function="key")).text
    assert text.splitlines()[-1] == '   2      return "…"'


def test_what_answers_is_quick_to_import() -> None:
    """A command in a shell answers without the libraries of the server."""
    program = (
        "import sys, cideldill_mcp.questions.trace.call_tree, cideldill_mcp.questions.trace.call, "
        "cideldill_mcp.questions.source.source_text; "
        "print([m for m in ('asyncio', 'mcp', 'anyio', 'pydantic') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
