"""`cideldill trace`: the tree of calls of a test, or the life of one call."""

from __future__ import annotations

import argparse

from cideldill_mcp.commands.question import Ask, QuestionCommand


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("nodeid", metavar="NODEID", help="the test")
    parser.add_argument(
        "function",
        metavar="FUNCTION",
        nargs="?",
        help="show each line of one call of it: shop.cart.Cart.total, shop/cart.py::Cart.total, or "
        "the bare name (default: show all calls of your code)",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--call", type=int, metavar="N", help="which of its calls (default: 1)")
    which.add_argument(
        "--when", metavar="EXPR", help="its first call for which EXPR is true of the arguments"
    )
    parser.add_argument("--depth", type=int, metavar="N", help="levels of calls that are shown")


def _question(chosen: argparse.Namespace) -> Ask:
    from cideldill_mcp.questions.trace.ask_trace import Trace, trace

    asked = Trace(chosen.nodeid, chosen.function, chosen.call, chosen.when, chosen.depth)
    asked.check()
    return lambda asker, bounds: trace(asker, asked, bounds)


COMMAND = QuestionCommand(
    "trace",
    "show what a test did, or each line of one call",
    "Run one test and show the calls of your code with arguments and results; or, with FUNCTION, "
    "each line of one call and what it changed.",
    _add_arguments,
    _question,
)
