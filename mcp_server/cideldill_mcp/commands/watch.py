"""`cideldill watch`: who changed a value in a test, and when it became wrong."""

from __future__ import annotations

import argparse

from cideldill_mcp.commands.question import Ask, QuestionCommand


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("nodeid", metavar="NODEID", help="the test")
    parser.add_argument(
        "expression",
        metavar="EXPR",
        help="what is watched: self.items[0].price, len(queue), shop.cart.CACHE",
    )
    parser.add_argument(
        "--in",
        dest="function",
        metavar="FUNCTION",
        help="evaluate EXPR in a call of it, from its beginning on (default: EXPR begins with a "
        "module, a global of the test's module, or a local of the test)",
    )
    parser.add_argument("--module", metavar="M", help="evaluate EXPR over the globals of module M")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--call", type=int, metavar="N", help="which call (default: 1)")
    which.add_argument(
        "--when", metavar="EXPR", help="the first call for which EXPR is true of the arguments"
    )
    parser.add_argument(
        "--until", metavar="EXPR", help="stop at the first line after which EXPR is true"
    )
    parser.add_argument(
        "--max-changes", type=int, metavar="N", help="changes that are recorded (default: 50)"
    )


def _question(chosen: argparse.Namespace) -> Ask:
    from cideldill_mcp.questions.watch.ask_watch import MAX_CHANGES, WatchQuestion, watch

    question = WatchQuestion(
        chosen.nodeid,
        chosen.expression,
        chosen.function,
        chosen.module,
        chosen.call,
        chosen.when,
        chosen.until,
        MAX_CHANGES if chosen.max_changes is None else chosen.max_changes,
    )
    question.check()
    return lambda asker, bounds: watch(asker, question, bounds)


COMMAND = QuestionCommand(
    "watch",
    "show who changed a value in a test",
    "Run one test and show each change of a value: the line and function that made it, from where "
    "that was called, and what else holds the object.",
    _add_arguments,
    _question,
)
