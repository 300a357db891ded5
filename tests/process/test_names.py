"""Which functions a name means: the five forms of docs/names.md, and which one wins."""

from __future__ import annotations

import random

import pytest

from pytest_cideldill.sourcecode.names import Precision, parse_function_name
from tests.each_case import for_each

MODULE, FILE = "shop.cart", "src/shop/cart.py"

FORMS = [
    ("total", Precision.BARE),
    ("übersicht", Precision.BARE),
    ("shop.cart.Cart.total", Precision.EXACT),
    ("shop.cart:Cart.total", Precision.EXACT),
    ("cart:total", Precision.EXACT),
    ("src/shop/cart.py::Cart.total", Precision.EXACT),
    ("src/shop/cart.py::Cart.total", Precision.EXACT),
    ("shop.cart.outer.<locals>.inner", Precision.EXACT),
    ("shop.cart.<lambda>", Precision.EXACT),
    ("shop.cart.*", Precision.GLOB),
    ("*", Precision.GLOB),
    ("shop.?art.[ab]", Precision.GLOB),
]


@for_each(("text", "precision"), FORMS)
def test_the_five_forms_are_distinguished(text: str, precision: Precision) -> None:
    """Bare, dotted, `module:qualname`, `path::qualname`, glob."""
    name = parse_function_name(text)
    assert (name.text, name.precision) == (text.replace("Cart::", "Cart."), precision)


@for_each(
    "text",
    [
        "", " ", "3total", "shop..cart", ".total", "total.", "shop cart", "a-b", "a:b:c", ":total",
        "shop:", "::total", "x.py::", "x.py::a b", "shop.cart:*", "total()", "<lambda>", "a.<b>",
    ],
)  # fmt: skip
def test_what_has_none_of_the_forms_is_refused_with_all_of_them(text: str) -> None:
    """The message names the offending thing and the way out."""
    with pytest.raises(ValueError, match="is no function name") as caught:
        parse_function_name(text)
    message = str(caught.value)
    assert repr(text) in message
    for form in (
        "(total)",
        "(shop.cart.Cart.total)",
        "module:qualname",
        "::qualname",
        "shop.cart.*",
    ):
        assert form in message


@for_each(
    ("text", "qualname", "means"),
    [
        # Bare: the last part of the qualified name, whatever it is inside of.
        ("total", "total", True),
        ("total", "Cart.total", True),
        ("total", "outer.<locals>.total", True),
        ("total", "subtotal", False),
        ("total", "total.<locals>.inner", False),
        ("Cart", "Cart.total", False),
        # Dotted: the module and all of the qualified name.
        ("shop.cart.Cart.total", "Cart.total", True),
        ("shop.cart.total", "total", True),
        ("shop.cart.total", "Cart.total", False),
        ("cart.Cart.total", "Cart.total", False),
        ("shop.cart.outer.inner", "outer.<locals>.inner", True),
        ("shop.cart.outer.<locals>.inner", "outer.<locals>.inner", True),
        ("shop.cart.<lambda>", "<lambda>", True),
        # Module and qualified name apart.
        ("shop.cart:Cart.total", "Cart.total", True),
        ("shop.cart:outer.inner", "outer.<locals>.inner", True),
        ("shop:cart.Cart.total", "Cart.total", False),
        ("shop.cart:total", "Cart.total", False),
        # A file: rootdir-relative, or the end of the path at a folder's border.
        ("src/shop/cart.py::Cart.total", "Cart.total", True),
        ("src/shop/cart.py::Cart::total", "Cart.total", True),
        ("./src/shop/cart.py::Cart.total", "Cart.total", True),
        ("src\\shop\\cart.py::Cart.total", "Cart.total", True),
        ("shop/cart.py::Cart.total", "Cart.total", True),
        ("cart.py::Cart.total", "Cart.total", True),
        ("art.py::Cart.total", "Cart.total", False),
        ("other/shop/cart.py::Cart.total", "Cart.total", False),
        ("src/shop/cart.py::total", "Cart.total", False),
        ("src/shop/cart.py::outer.inner", "outer.<locals>.inner", True),
        # Globs over dotted paths, `<locals>` left out.
        ("shop.cart.*", "Cart.total", True),
        ("shop.*", "Cart.total", True),
        ("*.total", "Cart.total", True),
        ("*", "outer.<locals>.inner", True),
        ("shop.cart.outer.*", "outer.<locals>.inner", True),
        ("shop.cart.[CD]art.*", "Cart.total", True),
        ("shop.cart.?otal", "total", True),
        ("shop.cart", "total", False),
        ("cart.*", "Cart.total", False),
        ("SHOP.*", "Cart.total", False),
    ],
)
def test_a_name_means_these_functions(text: str, qualname: str, means: bool) -> None:
    """For functions of `shop.cart` in `src/shop/cart.py`."""
    assert parse_function_name(text).matches(MODULE, qualname, FILE) is means


def test_a_path_may_name_a_file_outside_the_rootdir() -> None:
    """Paths may be relative or absolute."""
    name = parse_function_name("/opt/lib/money.py::Money.round")
    assert name.matches("money", "Money.round", "/opt/lib/money.py")
    assert not name.matches("money", "Money.round", "lib/money.py")


def test_exact_beats_bare_beats_glob() -> None:
    """The order in which matching breakpoints govern a function."""
    assert Precision.EXACT > Precision.BARE > Precision.GLOB


def test_any_text_is_a_name_or_refused() -> None:
    """Seeded fuzz: agents send anything; nothing but ValueError leaves the parser."""
    rng = random.Random(4)
    for _ in range(3000):
        text = "".join(rng.choices("ab.:*?[]<>/\\ é\0\ud800locals", k=rng.randrange(12)))
        try:
            name = parse_function_name(text)
        except ValueError:
            continue
        assert name.matches(MODULE, "Cart.total", FILE) in (True, False)


@for_each(
    ("text", "means"),
    [
        ("Cart", True),
        ("shop.cart.Cart", True),
        ("shop.cart:Cart", True),
        ("src/shop/cart.py::Cart", True),
        ("Cart.__init__", False),  # a module of that name has none
        ("__init__", True),
        ("shop.cart", False),
        ("shop.cart.Car?", False),
        ("shop.cart.Cart*", True),
    ],
)
def test_the_name_of_a_class_means_its_init(text: str, means: bool) -> None:
    """All forms but globs, which are over the paths of functions."""
    name = parse_function_name(text)
    assert name.matches(MODULE, "Cart.__init__", FILE) is means
    assert not name.matches(MODULE, "Cart.total", FILE) or text.endswith("*")


@for_each(
    ("text", "is_one"),
    [
        ("str.upper", True),
        ("dict.get", True),
        ("builtins.list.append", True),
        ("builtins:list.append", True),
        ("map.load", False),
        ("upper", False),
        ("shop.str.upper", False),
        ("str.py::str.upper", False),
    ],
)
def test_methods_of_builtin_classes_are_known_without_a_process(text: str, is_one: bool) -> None:
    """They can't be intercepted anywhere; a module of the project may be called `map`."""
    assert parse_function_name(text).is_builtin_method is is_one


@for_each(
    ("text", "is_end"),
    [
        ("Cart.total", True),
        ("cart.Cart.total", True),
        ("shop.cart.Cart.total", False),
        ("total", False),
        ("art.total", False),
        ("shop/cart.py::Cart.total", False),
        ("cart:Cart.total", False),
        ("*.total", False),
    ],
)
def test_a_dotted_name_may_leave_out_the_first_modules(text: str, is_end: bool) -> None:
    assert parse_function_name(text).is_end_of("shop.cart.Cart.total") is is_end


def test_the_function_around_a_nested_one_may_be_left_out() -> None:
    assert parse_function_name("outer.inner").is_end_of("shop.outer.<locals>.inner")
