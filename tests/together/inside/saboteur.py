"""Makes hooks of the debugger fail that are named in `SABOTAGE`, and writes down which there are.

A plugin (`-p saboteur`) inside the process under test. `SABOTAGE` holds names as
`cideldill-exitstatus.pytest_sessionfinish`, or `all`; `SABOTAGE_FILES` is a folder: each process
writes there which hooks it has found, and whether they have a border.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

PREFIX = "cideldill-"


class Sabotage(Exception):
    """What a hook of the debugger raises by our doing."""


@pytest.hookimpl(trylast=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """The debugger is there, and none of its hooks has been called."""
    wanted = os.environ.get("SABOTAGE", "").split()
    found = {}
    for name, hook in hooks(early_config.pluginmanager):
        found[name] = inner(hook) is not None
        if found[name] and (name in wanted or "all" in wanted):
            inner(hook).cell_contents = failing(hook)
    is_worker = early_config.pluginmanager.has_plugin(f"{PREFIX}worker")
    process = os.environ["PYTEST_XDIST_WORKER"] if is_worker else "main"
    Path(os.environ["SABOTAGE_FILES"], f"{process}.json").write_text(json.dumps(found), "utf-8")


def hooks(manager: pytest.PytestPluginManager) -> Iterator[tuple[str, Any]]:
    """All implementations of the debugger's plugins, with their names."""
    for name, plugin in manager.list_name_plugin():
        if name.startswith(PREFIX):
            for caller in manager.get_hookcallers(plugin) or ():
                for each in caller.get_hookimpls():
                    if each.plugin is plugin:
                        yield f"{name}.{caller.name}", each.function


def inner(hook: Any) -> Any:
    """The cell in which a border holds what it calls; None: there is no border."""
    function = hook.__func__
    names = function.__code__.co_freevars
    if not function.__code__.co_filename.endswith("guest.py") or "hook" not in names:
        return None
    return function.__closure__[names.index("hook")]


def failing(hook: Any) -> Callable[..., Any]:
    """What fails instead; of a wrapper both parts are gone."""
    name = hook.__name__

    def fail(*_: object) -> None:
        raise Sabotage(name)

    def fail_in_turn(*_: object) -> Iterator[None]:
        raise Sabotage(name)
        yield

    made = fail_in_turn if hook.__func__.__code__.co_flags & 0x20 else fail
    made.__name__ = name
    return made
