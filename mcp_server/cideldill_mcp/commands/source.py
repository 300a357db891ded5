"""`cideldill source`: one function or class, as written; with a test, which lines ran."""

from __future__ import annotations

import argparse
import re

from cideldill_mcp.commands.question import Ask, QuestionCommand

_PLACE = re.compile(r"(.+):([0-9]+)")


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "function",
        metavar="FUNCTION|FILE:LINE",
        help="shop.cart.Cart.total, shop/cart.py::Cart.total, the bare name, the name of a class, "
        "or a line of it",
    )
    parser.add_argument(
        "--test", metavar="NODEID", help="run this test, and mark how often each line ran"
    )


def _question(chosen: argparse.Namespace) -> Ask:
    from cideldill_mcp.questions.source.ask_source import Source, source

    place = _PLACE.fullmatch(chosen.function)
    if place is None:
        asked = Source(chosen.function, nodeid=chosen.test)
    else:
        asked = Source(file=place[1], line=int(place[2]), nodeid=chosen.test)
    asked.check()
    return lambda asker, bounds: source(asker, asked, bounds)


COMMAND = QuestionCommand(
    "source",
    "show one function or class, and which of its lines a test ran",
    "Show the source of one function or class with line numbers; with --test, how often that test "
    "ran each line, and who called it.",
    _add_arguments,
    _question,
)
