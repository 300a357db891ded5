"""`cideldill suspects`: which functions failing tests run, and passing ones do not."""

from __future__ import annotations

import argparse

from cideldill_mcp.commands.question import Ask, QuestionCommand


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "nodeids",
        metavar="NODEID",
        nargs="*",
        help="tests, files or folders, with failing and passing tests in them (default: the files "
        "of the tests that failed last, by pytest's cache)",
    )
    parser.add_argument("-k", dest="keyword", metavar="EXPR", help="as pytest -k")
    parser.add_argument("-m", dest="markers", metavar="EXPR", help="as pytest -m")
    parser.add_argument("--limit", type=int, metavar="N", help="functions (default: 10)")


def _question(chosen: argparse.Namespace) -> Ask:
    from cideldill_mcp.questions.suspects.ask_suspects import LIMIT, Suspects, suspects

    limit = LIMIT if chosen.limit is None else chosen.limit
    asked = Suspects(tuple(chosen.nodeids), chosen.keyword, chosen.markers, limit)
    asked.check()
    return lambda asker, bounds: suspects(asker, asked, bounds)


COMMAND = QuestionCommand(
    "suspects",
    "rank the functions that failing tests run",
    "Run tests once and rank the functions of your code by how much more failing tests ran them "
    "than passing ones.",
    _add_arguments,
    _question,
)
