"""`pytest --cideldill-why`: asks why tests failed when the session is over, and shows the answers.

On the main thread of the process that reports: pytest's, or xdist's controller. Until then it only
looks at reports. What it prints stands behind everything that pytest and other plugins print.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import Any, Final

import pytest

from pytest_cideldill.config.settings import Settings
from pytest_cideldill.config.settings import read as read_settings
from pytest_cideldill.hooks.failure_causes import FailureCauses, FirstFailure
from pytest_cideldill.hooks.guest import clean_up, guest
from pytest_cideldill.hooks.hint import command
from pytest_cideldill.hooks.why_command import NoAnswer, Ways, asked
from pytest_cideldill.project import Project
from pytest_cideldill.reports.words import counted, one_line, printable

_CLEAR: Final = "\r\x1b[K"


def begin(config: pytest.Config) -> None:
    """Ask when the session, a plain one, is over.

    Raises:
        pytest.UsageError: An option is malformed.
    """
    try:
        settings = read_settings(config)
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error
    why = asking(config, settings)
    # Of the first plugin that is called this is nearly the last cleanup: nothing is captured any
    # more, and all has been said.
    clean_up(config, "--cideldill-why", why.ask)


def asking(config: pytest.Config, settings: Settings) -> Why:
    """The plugin, which collects failures from now on."""
    why = Why(config, settings)
    config.pluginmanager.register(why, "cideldill-why")
    return why


class Why:
    """Collects the failures of a session, and asks for the first ones that differ in cause.

    Args:
        settings: For how many, and what is the user's code.
    """

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self._config = config
        self._most = settings.why
        self._causes = FailureCauses(Project(str(config.rootpath), settings.user_paths).is_user)
        params = config.invocation_params
        self._ways = Ways(list(params.args), str(params.dir), dict(os.environ))
        self._is_off = False

    @guest
    def pytest_configure(self, config: pytest.Config) -> None:
        """A worker of xdist leaves it to the controller."""
        self._is_off = hasattr(config, "workerinput")

    @pytest.hookimpl(trylast=True)
    @guest
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failure."""
        if report.failed and not self._is_off:
            self._causes.add(report)

    @guest
    def pytest_keyboard_interrupt(self) -> None:
        """The user wants the session to end."""
        self._is_off = True

    @guest
    def pytest_internalerror(self) -> None:
        """pytest itself failed: it is not known what the reports are worth."""
        self._is_off = True

    def ask(self) -> list[dict[str, Any]]:
        """Ask, and show the answers as they come.

        Returns:
            The reply objects, in the order of the failures.
        """
        firsts = [] if self._is_off else self._causes.firsts()
        chosen = firsts[: self._most]
        if not chosen:
            return []
        screen = _Screen(self._config)
        screen.title("cideldill why")
        answers: list[dict[str, Any]] = []
        try:
            for number, first in enumerate(chosen, 1):
                if number > 1:
                    screen.line("")
                about = f"{first.nodeid} ({number} of {len(chosen)})"
                answer = self._answer(first, screen, about)
                if answer is not None:
                    answers.append(answer)
        except KeyboardInterrupt:
            screen.clear()
            screen.line("cideldill: interrupted; the tests' own results stand above")
            return answers
        if further := firsts[self._most :]:
            what = f"{counted(len(further), 'failure')} with other causes"
            screen.line(f"\nnot asked: {what}; the first: {command(further[0].nodeid)}")
        return answers

    def _answer(self, first: FirstFailure, screen: _Screen, about: str) -> dict[str, Any] | None:
        try:
            answer = asked(first.nodeid, self._ways, partial(screen.wait, about))
        except NoAnswer as error:
            screen.clear()
            screen.line(f"cideldill: no answer for {first.nodeid}: {error}")
            return None
        screen.clear()
        for line in answer["text"].split("\n"):
            screen.line(line)
        if first.others:
            screen.line(f"also fail for this cause: {counted(first.others, 'other test')}")
        return answer


class _Screen:
    """Where the answers go: pytest's terminal, else stdout.

    What happens meanwhile is one line that goes again, and only on a terminal.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
        self._is_terminal = sys.stdout.isatty()
        self._is_waiting = False

    def title(self, text: str) -> None:
        if self._reporter is None:
            print(f"== {text} ==")
        else:
            self._reporter.write_sep("=", text)

    def line(self, text: str) -> None:
        """A line of an answer; on a terminal nothing in it is a command, and failures are red."""
        shown = printable(text) if self._is_terminal else text
        if self._reporter is None:
            print(shown, flush=True)
        else:
            self._reporter.write_line(shown, red="✗" in shown)

    def wait(self, about: str, seconds: float) -> None:
        if self._is_terminal:
            self._is_waiting = True
            columns = max(20, os.get_terminal_size(sys.stdout.fileno()).columns or 80)
            text = one_line(f"asking why {about}, {seconds:.0f} s, Ctrl-C ends it")
            sys.stdout.write(f"{_CLEAR}{text[: columns - 1]}")
            sys.stdout.flush()

    def clear(self) -> None:
        if self._is_waiting:
            self._is_waiting = False
            sys.stdout.write(_CLEAR)
            sys.stdout.flush()
