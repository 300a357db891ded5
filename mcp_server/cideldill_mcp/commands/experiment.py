"""`cideldill try`: what becomes of tests if this were otherwise?"""

from __future__ import annotations

import argparse

from cideldill_mcp.commands.experiment_options import OPTIONS, add_options, experiments
from cideldill_mcp.commands.question import Ask, QuestionCommand


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

    changes = experiments(chosen, together=chosen.together)
    if not changes and chosen.spec is None and not chosen.suggest:
        raise ValueError(f"nothing to try: give {', '.join(OPTIONS)}, --spec or --suggest")
    asked = Experiments(
        chosen.nodeids,
        experiments_of(changes),
        chosen.repeat,
        chosen.evaluate,
        chosen.suggest,
        chosen.fresh,
    )
    asked.check()
    return lambda asker, bounds: experiment(asker, asked, bounds)


COMMAND = QuestionCommand(
    "try",
    "run tests with something changed, and compare",
    "Run the tests as they are, and once more for each experiment: with source replaced (no file "
    "is touched), other results, exceptions, values or variables. Say which one makes the failing "
    "test pass and breaks no other.",
    _add_arguments,
    _question,
)
