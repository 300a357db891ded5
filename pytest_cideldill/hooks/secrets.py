"""What this process hides: as the ini file, the front end and the hook of users say.

The hook is asked when the plugin or conftest that has it is loaded, on the main thread, outside of
any capture: no user code decides about a value while it is shown.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from pytest_cideldill.config import parsers
from pytest_cideldill.config.settings import Settings
from pytest_cideldill.hooks.guest import guest
from pytest_cideldill.hooks.host import Host
from pytest_cideldill.protocol import Configure, RedactionChosen
from pytest_cideldill.redaction.redactor import Redactor
from pytest_cideldill.rendering.layout import class_name

HOOK = "pytest_cideldill_redact"

_KINDS: dict[str, Callable[[str], str]] = {"names": parsers.name, "patterns": parsers.pattern}
"""What the hook may return: key → check of each text."""


def make_redactor(chosen: Settings, configure: Configure) -> Redactor:
    """The redactor of this process. `chosen`: as this process reads the ini file."""
    return Redactor(
        chosen.redact_names,
        chosen.redact_patterns,
        os.environ,
        shown_names=chosen.show_names,
        key=bytes.fromhex(configure.tag_key),
        enabled=not (chosen.no_redact or configure.no_redact),
    )


class Redaction:
    """Asks each implementation of the hook once, and sends what is hidden.

    Args:
        host: Sends what is hidden, and warnings.
        redactor: Is extended.
        chosen: As this process reads the ini file; the front end may not have read it.
    """

    def __init__(
        self, config: pytest.Config, host: Host, redactor: Redactor, chosen: Settings
    ) -> None:
        self.host = host
        self._config = config
        self._redactor = redactor
        names, patterns = list(chosen.redact_names), list(chosen.redact_patterns)
        shown = list(chosen.show_names)
        if chosen.no_redact or names or patterns or shown:
            event = RedactionChosen(names, patterns, chosen.no_redact, shown)
            self.host.link.send(event, urgent=True)

    @guest
    def pytest_sessionstart(self) -> None:
        """Plugins and conftests may have loaded settings into the environment."""
        self._redactor.look_again()

    @pytest.hookimpl(tryfirst=True)
    @guest
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Tests are called with secrets, which are in their ids."""
        self._redactor.look_again()
        calls = [(each, vars(each).get("callspec")) for each in report.result or ()]
        self.host.lens.nodeids.learn(
            (item.nodeid, call.params) for item, call in calls if call is not None
        )

    @pytest.hookimpl(tryfirst=True)
    @guest
    def pytest_collection_finish(self) -> None:
        """Test modules may have as well."""
        self._redactor.look_again()

    @pytest.hookimpl(tryfirst=True)
    @guest
    def pytest_runtest_makereport(self) -> None:
        """So may fixtures and tests; before any event of the phase."""
        self._redactor.look_again()

    @guest
    def pytest_plugin_registered(self, plugin: object, manager: pytest.PytestPluginManager) -> None:
        """Also called, one by one, for those that were there before."""
        implementations = getattr(manager.hook, HOOK).get_hookimpls()
        if self._redactor.enabled and any(each.plugin is plugin for each in implementations):
            others = [each for _, each in manager.list_name_plugin() if each is not plugin]
            file = getattr(plugin, "__file__", None)
            project = self.host.lens.project
            place = project.relative(file) if file else type(plugin).__qualname__
            self._ask(manager.subset_hook_caller(HOOK, others), place)

    def _ask(self, hook: Callable[..., list[Any]], place: str) -> None:
        found: dict[str, list[str]] = {kind: [] for kind in _KINDS}
        try:
            for kind, number, text in _entries(hook(config=self._config)):
                try:
                    found[kind].append(_KINDS[kind](text))
                except (ValueError, TypeError):
                    # Not what it is: it may be a secret.
                    self._warn(place, f"{kind}[{number}] is no {_meant(kind)}")
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - a border: also pytest.skip() must not end the run
            self._warn(place, f"failed: {class_name(type(error))}: {error}")
        if any(found.values()):
            names, patterns = found["names"], found["patterns"]
            self._redactor.extend(names, patterns)
            self.host.renew()
            self.host.link.send(RedactionChosen(names, patterns), urgent=True)

    def _warn(self, place: str, what: str) -> None:
        self.host.warn(f"{HOOK} of {place}: {what}; what it means is not hidden")


def _entries(results: list[Any]) -> Iterator[tuple[str, int, str]]:
    """Kind, number in its list, text."""
    for given in results:
        if not isinstance(given, Mapping) or not set(given) <= set(_KINDS):
            raise TypeError("it must return a dict with the keys 'names' and 'patterns'")
        for kind, texts in given.items():
            if isinstance(texts, str):
                raise TypeError(f"{kind!r} must be a list, not a text")
            for number, text in enumerate(texts):
                yield kind, number, text


def _meant(kind: str) -> str:
    return "name as customer_id" if kind == "names" else "regular expression"
