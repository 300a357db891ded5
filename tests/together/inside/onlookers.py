"""Observers of the debugger inside the process under test, as a conftest: `told` is what they saw.

They are told on the threads where things happen, and may ask the manager anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

LOUD = ("Stopped", "Resumed", "Recorded")
SEEN: dict[str, list[str]] = {}
"""Observer → the kinds of what it was told, in order."""


def pytest_configure(config: pytest.Config) -> None:
    plugin: Any = config.pluginmanager.get_plugin("cideldill-postmortem")
    manager = plugin.manager

    def watcher(name: str) -> Callable[[object], None]:
        seen = SEEN.setdefault(name, [])

        def watch(event: object) -> None:
            if type(event).__name__ in LOUD:
                seen.append(type(event).__name__)

        return watch

    def failing(event: object) -> None:
        watch_failing(event)
        raise ZeroDivisionError

    def asking(event: object) -> None:
        """Uses every lock that the manager and its pauses have."""
        manager.bind()
        manager.look_around()
        watch_asking(event)
        if type(event).__name__ == "Stopped":
            SEEN["paused when told"].append(str(manager.pauses.are_waiting))

    def once(event: object) -> None:
        if type(event).__name__ == "Stopped":  # told on one thread only
            watch_once(event)
            manager.remove_observer(once)

    watch_failing, watch_asking, watch_once = map(watcher, ("failing", "asking", "once"))
    watch_removed = watcher("removed")
    SEEN["paused when told"] = []
    manager.remove_observer(watcher("a stranger"))
    for observer in (watcher("first"), failing, asking, once, watch_removed, watcher("last")):
        manager.add_observer(observer)
    manager.remove_observer(watch_removed)
