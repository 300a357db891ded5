"""Templates of tracepoints: what is an expression, what is text, and where a mistake is."""

from __future__ import annotations

import ast
import random
import sys

import pytest

from pytest_cideldill.sourcecode.template import Field, InvalidTemplate, Template, parse_template
from tests.each_case import for_each
from tests.process import template_table

NESTED_QUOTES = sys.version_info >= (3, 12)


@for_each(
    ("text", "parts"),
    [
        ("", ()),
        ("no fields at all", ("no fields at all",)),
        ("x is {x}!", ("x is ", Field("x", 6), "!")),
        ("{x}{y}", (Field("x", 1), Field("y", 4))),
        ("{{x}} {{{x}}}", ("{x} {", Field("x", 9), "}")),
        ("{x!r} {y!s:>5} {z!a}", (
            Field("x", 1, "r"), " ", Field("y", 7, "s", (">5",)), " ", Field("z", 16, "a"),
        )),
        ("{x!=y}", (Field("x!=y", 1),)),
        ("{x != y!r}", (Field("x != y", 1, "r"),)),
        ("{a <= b == c >= d}", (Field("a <= b == c >= d", 1),)),
        ("{when:%H:%M}", (Field("when", 1, None, ("%H:%M",)),)),
        ("{x:}", (Field("x", 1, None, ()),)),
        ("{x:>{width}.{digits!r}}", (
            Field("x", 1, None, (">", Field("width", 5), ".", Field("digits", 13, "r"))),
        )),
        ("{x=}", ("x=", Field("x", 1, "r"))),
        ("a {x + 1 = !s}", ("a x + 1 = ", Field("x + 1 ", 3, "s"))),
        ("{x=:>5}", ("x=", Field("x", 1, None, (">5",)))),
        ("{d['a=']}", (Field("d['a=']", 1),)),
        ("{ {'a': {1: 2}}['a'] }", (Field(" {'a': {1: 2}}['a'] ", 1),)),
        ("{items[1:2]}", (Field("items[1:2]", 1),)),
        ("{(lambda x: x)(1)}", (Field("(lambda x: x)(1)", 1),)),
        ("{(y := x)}", (Field("(y := x)", 1),)),
        ("{a, b}", (Field("a, b", 1),)),
        ("{d['}']}", (Field("d['}']", 1),)),
        ("{'it''s {' + x}", (Field("'it''s {' + x", 1),)),
        (r"{'\'}' + x}", (Field(r"'\'}' + x", 1),)),
        (r"{r'\'' + x}", (Field(r"r'\'' + x", 1),)),
        ("{'''it's } \" '''}", (Field("'''it's } \" '''", 1),)),
        ("{[y\n for y in x]}", (Field("[y\n for y in x]", 1),)),
        ("{f'{x}'}", (Field("f'{x}'", 1),)),
        ("{'é'} {x}", (Field("'é'", 1), " ", Field("x", 7))),
    ],
)  # fmt: skip
def test_a_template_is_split_like_an_f_string(text: str, parts: tuple[str | Field, ...]) -> None:
    assert parse_template(text) == Template(text, parts)


@pytest.mark.skipif(not NESTED_QUOTES, reason="3.12 and later read f-strings this way")
@for_each(
    "source",
    [
        "f'{d['}']}'",
        "f'{f'{f'{x}'}'}'",
        "f'{x:{d['w']}}}}{{' + y",
        "rf'\\{d['}']}'",
        "f'''{d['}']} ' '''",
        "f'\\N{LEFT CURLY BRACKET}{x}'",
    ],
)
def test_f_strings_inside_may_use_the_same_quotes_again(source: str) -> None:
    assert parse_template(f"{{{source}}} and {{y}}").expressions == (source, "y")


@for_each(
    ("text", "position", "message"),
    [
        ("{}", 1, "no expression between the braces"),
        ("a { } b", 3, "no expression between the braces"),
        ("{!r}", 1, "no expression between the braces"),
        ("{:>5}", 1, "no expression between the braces"),
        ("ab {x", 3, "'{' is never closed"),
        ("ab {x!r", 3, "'{' is never closed"),
        ("ab {x:>5", 3, "'{' is never closed"),
        ("ab } c", 3, "write '}}' for a literal brace"),
        ("{x}}", 3, "write '}}' for a literal brace"),
        ("{f(x}", 2, "'(' is never closed"),
        ("{f(x]}", 2, "'(' is never closed"),
        ("{x)}", 2, "')' closes nothing"),
        ("{d['x]}", 3, "the string that begins here is never closed"),
        ("{'''x'}", 1, "the string that begins here is never closed"),
        ("{x!z}", 2, "a conversion is one of !r, !s and !a"),
        ("{x!rs}", 4, "':' or '}' is expected"),
        ("{x:{y:{z}}}", 6, "can't be nested that deep"),
        ("{x # y}", 3, "can't hold a comment"),
        ("a {x = 1}", 3, "is a statement"),
        ("a {import os}", 3, "is a statement"),
        ("{del x}", 1, "is a statement"),
        ("{lambda x: x}", 9, "put a lambda in parentheses"),
        ("{a b}", 1, "is no Python expression"),
        ("{a +* b}", 4, "is no Python expression"),
        ("{a\n +* b}", 5, "is no Python expression"),
        ("{x} {await y}", 5, "'await' outside function"),
        ("{yield}", 1, "'yield' outside function"),
        ("{x:{a b}}", 4, "is no Python expression"),
        ("{x\0}", 1, "x"),
        ("{" + "(" * 400 + ")" * 400 + "}", 1, "too many nested parentheses"),
    ],
)
def test_a_mistake_is_reported_with_its_position(text: str, position: int, message: str) -> None:
    with pytest.raises(InvalidTemplate) as caught:
        parse_template(text)
    assert message in str(caught.value)
    assert caught.value.position == position or "nested parentheses" in message


@for_each("text", template_table.ACCEPTED)
def test_a_template_of_the_table_has_its_parts(text: str) -> None:
    assert parse_template(text).parts == template_table.ACCEPTED[text]


@pytest.mark.skipif(not NESTED_QUOTES, reason="3.12 and later read f-strings this way")
@for_each("text", template_table.NESTED_QUOTES)
def test_a_template_with_nested_quotes_has_its_parts(text: str) -> None:
    assert parse_template(text).parts == template_table.NESTED_QUOTES[text]


@for_each("text", template_table.REFUSED)
def test_a_template_of_the_table_is_refused_at_the_position_of_its_mistake(text: str) -> None:
    position, message = template_table.REFUSED[text]
    with pytest.raises(InvalidTemplate) as caught:
        parse_template(text)
    assert str(caught.value).startswith(message)
    assert caught.value.position == position


@pytest.mark.full
def test_endless_nesting_is_refused_and_not_a_crash() -> None:
    with pytest.raises(InvalidTemplate):
        parse_template("{" + "f'{" * 5_000)
    with pytest.raises(InvalidTemplate):
        parse_template("{" + "-" * 100_000 + "x}")


def test_every_field_compiles_on_its_own_in_the_order_of_evaluation() -> None:
    template = parse_template("{x + 1:>{w}} {a,\nb} {[y for y in (x, w)]}")
    names = {"x": 1, "w": 9, "a": 2, "b": 3}
    values = [eval(f"({source})", names) for source in template.expressions]
    assert values == [2, 9, (2, 3), [1, 9]]
    assert template.expressions == ("x + 1", "w", "a,\nb", "[y for y in (x, w)]")


def test_nothing_runs_while_a_template_is_parsed() -> None:
    parse_template("{1 / 0} {undefined} {__import__('nowhere')}")


# ------------------------------------------------------------------- the same as real f-strings

ATOMS = [
    "x", "y.z", "d['k']", 'd["}{"]', "'{'", "'it\"s'", "{1: {2}}[1]", "[1, 2][0]", "f(x, k=1)",
    "(lambda q: {q: 1})(2)", "x[1:2]", "(x := 3)", "x != y", "x if y == 1 else 2", "{*x}",
    "[i for i in x if i != '!']", "'a:b!r'", "x, y", "not x", "b'}'", "x <= 1",
]  # fmt: skip
SUFFIXES = ["", "", "", "!r", "!s", "!a", ":>10", "!r:^{w}", ":%H:%M", ":{w}.{p}", "=", " = !s"]
LITERALS = ["", " ", "text ", "{{", "}}", "{{}}", "a: b! ", "it's", "\n"]


def random_template(choice: random.Random) -> str:
    parts = []
    for _ in range(choice.randrange(1, 5)):
        expression, suffix = choice.choice(ATOMS), choice.choice(SUFFIXES)
        if "!=" in expression:
            suffix = suffix.replace("=", "")  # 3.13.0 cuts the text of `x != y =` short
        parts += [choice.choice(LITERALS), "{ ", expression, " ", suffix, "}"]
    return "".join(parts) + choice.choice(LITERALS)


def as_f_string(text: str) -> list[object]:
    """Literals and fields as Python sees them."""
    expression = ast.parse(f"f'''{text}'''", mode="eval").body
    assert isinstance(expression, ast.JoinedStr)
    return outline(expression)


def outline(joined: ast.JoinedStr) -> list[object]:
    found: list[object] = []
    for part in joined.values:
        if isinstance(part, ast.Constant) and part.value:  # 3.12.1 ends specs with empty ones
            found.append(part.value)
        elif isinstance(part, ast.FormattedValue):
            conversion = None if part.conversion == -1 else chr(part.conversion)
            spec = part.format_spec
            rendered = outline(spec) if isinstance(spec, ast.JoinedStr) else None
            found.append((ast.dump(part.value), conversion, rendered))
    return found


def as_template(parts: tuple[str | Field, ...]) -> list[object]:
    return [
        part
        if isinstance(part, str)
        else (
            ast.dump(ast.parse(f"({part.source})", mode="eval").body),
            part.conversion,
            None if part.spec is None else as_template(part.spec),
        )
        for part in parts
    ]


@pytest.mark.full
@for_each("seed", range(8))
def test_random_templates_mean_what_they_mean_as_f_strings(seed: int) -> None:
    choice = random.Random(seed)
    for _ in range(60):
        text = random_template(choice)
        assert as_template(parse_template(text).parts) == as_f_string(text), text


@for_each("seed", range(8))
def test_random_text_is_parsed_or_refused_with_a_position_inside(seed: int) -> None:
    choice = random.Random(seed)
    pieces = [*"{}()[]'\"!:=#\\ \nrxf", "x", "{x}", "'''", "f'", "lambda", "\ud800", "é"]
    for _ in range(300):
        text = "".join(choice.choices(pieces, k=choice.randrange(1, 14)))
        position, sources = parsed(text)
        assert 0 <= position <= len(text)
        for source in sources:
            compile(f"({source})", "<template>", "eval")


def parsed(text: str) -> tuple[int, tuple[str, ...]]:
    """The position of the mistake, and the expressions."""
    try:
        return 0, parse_template(text).expressions
    except InvalidTemplate as error:
        return error.position, ()
