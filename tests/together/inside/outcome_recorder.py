"""Writes what pytest reports of every test to a file, to compare two runs of the same suite.

A plugin (`-p outcome_recorder --record-outcomes=FILE`) inside the process under test, with and
without the debugger; it must know nothing of it. Of a run in workers, xdist's controller writes.
"""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

COUNTED = ("passed", "failed", "error", "skipped", "xfailed", "xpassed")
ADDRESS = re.compile(r"0x[0-9a-f]+")
WORKER = re.compile(r"\bgw\d+\b")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-outcomes", type=Path)


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(config))


class Recorder:
    """Node id → reports in order, each `[phase, outcome, text, first line of the error]`.

    Passing reports are counted: unittest's subtests make thousands of them. Warnings are counted by
    where they arose and by their category.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._tests: dict[str, dict[str, Any]] = {}
        self._warnings: dict[str, int] = {}

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str
    ) -> None:
        key = f"{when} {nodeid} {warning_message.category.__name__}"
        self._warnings[key] = self._warnings.get(key, 0) + 1

    @pytest.hookimpl(trylast=True)  # pytest's subtests change a report while the terminal looks
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = self._tests.setdefault(report.nodeid, {"passed": {}, "reports": []})
        phase = report.when or ""
        if report.passed:
            test["passed"][phase] = test["passed"].get(phase, 0) + 1
            return
        crash = getattr(report.longrepr, "reprcrash", None)
        message = crash.message if crash is not None else ""
        test["reports"].append(
            [phase, report.outcome, _text(report), _same(message.strip().partition("\n")[0])]
        )

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        terminal = self._config.pluginmanager.getplugin("terminalreporter")
        counts = {name: len(found) for name, found in terminal.stats.items() if name in COUNTED}
        record = {"exit_code": int(exitstatus), "counts": counts, "tests": self._tests}
        record["warnings"] = self._warnings
        path: Path = self._config.option.record_outcomes
        path.write_text(json.dumps(record), encoding="utf-8")


def _text(report: pytest.TestReport) -> str:
    """All that pytest would print of it."""
    return _same("\n".join([report.longreprtext, *(f"{a}: {b}" for a, b in report.sections)]))


def _same(text: str) -> str:
    return WORKER.sub("gw…", ADDRESS.sub("0x…", text))
