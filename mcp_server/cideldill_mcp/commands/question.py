"""What a command that asks a question is: its arguments, and how the question is made of them.

A module of this package for each, and a row in `main.QUESTIONS`. At import it needs next to
nothing: the help shows all of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cideldill_mcp.questions.asking.asker import Asker, Bounds

Ask = Callable[["Asker", "Bounds"], Awaitable[dict[str, Any]]]
"""Asks a question; gives the reply object."""


@dataclass(frozen=True, slots=True)
class QuestionCommand:
    """A command.

    Attributes:
        name: Its word.
        help: In the list of commands.
        about: Above its own help.
        add_arguments: Adds what it takes besides the options of all questions.
        question: The question that the arguments mean. A `Refusal` is wrong usage.
    """

    name: str
    help: str
    about: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    question: Callable[[argparse.Namespace], Ask]

    def add_to(self, commands: Any) -> None:
        """Add it to the subparsers of a parser."""
        parser = commands.add_parser(
            self.name, help=self.help, description=self.about, allow_abbrev=False
        )
        self.add_arguments(parser)
        parser.add_argument(
            "--max-chars", type=int, metavar="N", help="size of the answer (default: 4000)"
        )
        parser.add_argument(
            "--timeout",
            type=float,
            metavar="SECONDS",
            help="end the question after so long, with what is known then (default: 60)",
        )
        parser.add_argument(
            "--python",
            metavar="PATH",
            help="interpreter of the tests (default: that of .venv, of the active environment, or "
            "this one)",
        )
        parser.add_argument("--json", action="store_true", help="print the whole reply as JSON")
        parser.set_defaults(command=self, parser=parser)
