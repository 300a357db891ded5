"""`cideldill diff`: where a failing test and a passing one first do something else."""

from __future__ import annotations

import argparse

from cideldill_mcp.commands.experiment_options import add_options, experiments
from cideldill_mcp.commands.question import Ask, QuestionCommand


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("nodeid", metavar="NODEID", help="the test that fails")
    parser.add_argument(
        "against",
        metavar="AGAINST",
        nargs="?",
        help="a test that passes (default: the nearest one), or a record that has the test",
    )
    add_options(parser)
    parser.add_argument(
        "--in",
        dest="function",
        metavar="FUNCTION",
        help="compare only calls of it, and what they call",
    )
    parser.add_argument(
        "--ignore",
        action="append",
        default=[],
        metavar="GLOB",
        help="leave out values with such paths, as 'order.items[*].id'; may be given again",
    )


def _question(chosen: argparse.Namespace) -> Ask:
    from cideldill_mcp.questions.diff.ask_diff import AUTO, Diff, diff
    from cideldill_mcp.questions.experiment.experiment_specs import experiment_of

    changes = experiments(chosen, together=True)
    count = len(changes) + (chosen.against is not None)
    if count > 1 or (chosen.spec is not None and not changes):
        raise ValueError("compare with one thing: AGAINST, or one experiment")
    against = AUTO if chosen.against is None else chosen.against
    if changes:
        against = experiment_of(changes[0], "experiment")
    asked = Diff(chosen.nodeid, against, chosen.function, chosen.ignore)
    asked.check()
    return lambda asker, bounds: diff(asker, asked, bounds)


COMMAND = QuestionCommand(
    "diff",
    "show where a failing test and a passing one first do something else",
    "Run a failing test and one that passes, align the calls of your code, and show the first call "
    "that got the same and did something else, with the first differing line in it. With --patch "
    "and other options that change something, the same test is compared, before and after.",
    _add_arguments,
    _question,
)
