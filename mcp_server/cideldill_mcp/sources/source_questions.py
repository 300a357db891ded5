"""Questions about source files: one helper process at a time answers them, one after another.

A process of its own for each would cost more than the answers, and any number of them at once more
than the machine has. So one is started for the first question, and ends when none came for a while;
it keeps the file that it looked at last. Each answer is as if its question were asked alone: one
that the process fails at ends the process, and the next question has another. Lives on the event
loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from cideldill_mcp.processes.helpers import Helper, Unanswered
from pytest_cideldill.errors import ErrorCode, Refusal

TIMEOUT_S = 15.0
"""How long one answer may take; usually it is a tenth of a second."""

IDLE_S = 1.0
"""How long a process waits for further questions."""

HELPER = "pytest_cideldill.sourcecode.helper"

Answer = dict[str, Any] | Refusal
"""A reply of the helper, errors among them; or `internal_error`: nobody could be asked."""


@dataclass(frozen=True, slots=True, eq=False)
class _Question:
    request: dict[str, Any]
    answer: asyncio.Future[Answer]

    @property
    def burden(self) -> tuple[Any, ...]:
        """What makes it hard: alike for those that fail for the same reason."""
        return tuple(self.request.get(name) for name in ("file", "condition", "template"))


class Questions:
    """Those to one interpreter. `interpreter`: with its flags."""

    def __init__(self, interpreter: Sequence[str]) -> None:
        self._interpreter = interpreter
        # In the order in which they came; a dict, for many are taken out.
        self._waiting: dict[_Question, None] = {}
        self._news = asyncio.Event()
        self._answering: asyncio.Task[None] | None = None

    async def ask(self, requests: Sequence[dict[str, Any]]) -> list[Answer]:
        """The answer to each. Who gives up meanwhile leaves the others waiting.

        Args:
            requests: As `sourcecode.helper.answer` takes them; each has `file` and `shown`.
        """
        if not requests:
            return []
        loop = asyncio.get_running_loop()
        mine = [_Question(request, loop.create_future()) for request in requests]
        self._waiting |= dict.fromkeys(mine)
        self._news.set()
        if self._answering is None or self._answering.done():
            self._answering = asyncio.create_task(self._answer())
        try:
            return [await question.answer for question in mine]
        finally:
            for question in mine:
                self._waiting.pop(question, None)

    async def _answer(self) -> None:
        """Answer what waits until nothing came for a while."""
        self._news = asyncio.Event()
        helper = Helper(self._interpreter, HELPER)
        try:
            while self._waiting:
                self._news.clear()
                # By files, as the process keeps only one of them.
                for question in sorted(self._waiting, key=lambda each: str(each.request["file"])):
                    if question in self._waiting:
                        await self._answer_one(helper, question)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._news.wait(), IDLE_S)
        except BaseException:
            for question in self._waiting:
                question.answer.cancel()
            raise
        finally:
            self._answering = None  # from now on another one is needed
            await helper.close()

    async def _answer_one(self, helper: Helper, question: _Question) -> None:
        try:
            self._settle(question, await helper.ask(question.request, TIMEOUT_S))
        except (Unanswered, TimeoutError) as error:
            is_up = helper.is_up
            await helper.close()
            failed = [e for e in self._waiting if not is_up or e.burden == question.burden]
            for each in failed:
                self._settle(each, self._failure(each.request["shown"], error, is_up=is_up))

    def _failure(self, shown: str, error: Exception, *, is_up: bool) -> Answer:
        if not is_up or not isinstance(error, TimeoutError):
            return unanswered(self._interpreter, shown, error)
        message = (
            f"{shown} takes longer than {TIMEOUT_S:.0f} s to be compiled and looked through; "
            "move the code in question into a smaller file"
        )
        return Refusal(ErrorCode.INVALID_SOURCE, message).to_plain()

    def _settle(self, question: _Question, answer: Answer) -> None:
        self._waiting.pop(question, None)
        if not question.answer.done():  # else nobody waits for it any more
            question.answer.set_result(answer)


def unanswered(interpreter: Sequence[str], about: str, error: Exception) -> Refusal:
    """`internal_error`: an interpreter could not be asked."""
    reason = str(error) or type(error).__name__
    message = f"{interpreter[0]} could not be asked about {about}: {reason}"
    return Refusal(ErrorCode.INTERNAL_ERROR, message)
