"""`cideldill why`: why a test fails."""

from __future__ import annotations

import argparse

from cideldill_mcp.commands.question import Ask, QuestionCommand


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("nodeid", metavar="NODEID", help="the test that fails")


def _question(chosen: argparse.Namespace) -> Ask:
    from cideldill_mcp.questions.why.ask_why import Why, why

    asked = Why(chosen.nodeid)
    return lambda asker, bounds: why(asker, asked, bounds)


COMMAND = QuestionCommand(
    "why",
    "show why a test fails",
    "Run a failing test, and tests near it that pass, and show what is to be found: where the "
    "wrong value came from, exceptions that were caught, what only this test ran, where it parts "
    "from a passing one, edits that it ran, and the functions that all of this points to.",
    _add_arguments,
    _question,
)
