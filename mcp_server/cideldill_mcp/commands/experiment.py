"""`cideldill try`: what becomes of tests if this were otherwise?"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from cideldill_mcp.commands.experiment_options import OPTIONS, add_options, experiments
from cideldill_mcp.commands.question import QuestionCommand

if TYPE_CHECKING:
    from cideldill_mcp.commands.question import Ask


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("nodeids", metavar="NODEID", nargs="+", help="the tests, the failing one first")
    add_options(parser)
    add("--together", action="store_true", help="make one experiment of these options, not several")
    add("--repeat", type=int, metavar="N", default=1, help="run each N times (default: 1)")
    add(
        "--evaluate",
        metavar="EXPR",
        action="append",
        default=[],
        help="show EXPR at the failure, or at the end of the test",
    )
    add("--suggest", action="store_true", help="add experiments that may flip the failing test")
    add("--fresh", action="store_true", help="start a process for each, even where a fork would do")


def _question(chosen: argparse.Namespace) -> Ask:
    from cideldill_mcp.questions.experiment.ask_experiment import Experiments, experiment
    from cideldill_mcp.questions.experiment.experiment_specs import experiments_of

    asked = Experiments(
        chosen.nodeids,
        experiments_of(_specs(chosen)),
        chosen.repeat,
        chosen.evaluate,
        chosen.suggest,
        chosen.fresh,
    )
    asked.check()
    return lambda asker, bounds: experiment(asker, asked, bounds)


def _specs(chosen: argparse.Namespace) -> list[Any]:
    """The experiments of the options, in their order.

    Raises:
        ValueError: A file can't be read, or is no JSON.
    """
    found = experiments(chosen, together=chosen.together)
    if not found and chosen.spec is None and not chosen.suggest:
        raise ValueError(f"nothing to try: give {', '.join(OPTIONS)}, --spec or --suggest")
    return found


COMMAND = QuestionCommand(
    "try",
    "run tests with something changed, and compare",
    "Run the tests as they are, and once more for each experiment: with source replaced (no file "
    "is touched), other results, exceptions, values or variables. Say which one makes the failing "
    "test pass and breaks no other.",
    _add_arguments,
    _question,
)
