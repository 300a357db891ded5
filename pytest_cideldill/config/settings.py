"""Reads the command line, the ini file and a TOML table into one frozen `Settings`.

This module is imported while the plugin is not switched on, so it imports next to nothing. pytest's
configuration is read at the take-over for the front end, and by each process under test, so that
the ini file decides what is captured and hidden, however the run was started.
"""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_cideldill.config.limits import BOUNDS, Limits
from pytest_cideldill.config.options import OPTIONS, Option
from pytest_cideldill.interpreter.values import dataclass

if TYPE_CHECKING:
    import pytest

HANDOVER: Final = "CIDELDILL_HANDOVER"
"""The environment variable in which `pytest --cideldill-mcp` passes settings to the front end."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The values of all options.

    Attributes:
        start: `manual` (a run starts when asked) or `run` (one starts at once).
        tools: The tool profile, one of `PROFILES`.
        lease_s: Seconds that an untouched pause lasts.
        record: Folder in which the run is recorded; empty if it is not.
        summary: File to which a summary in Markdown is appended; empty if there is none.
        trace: Tracepoints that are declared up front, as `sourcecode.tracespec` reads them.
        record_calls: Globs over dotted paths of functions whose calls are recorded.
        redact_names: Further names whose values are secrets.
        redact_patterns: Regular expressions; whatever they match is a secret.
        show_names: Names whose values are no secrets.
        no_redact: Nothing is hidden.
        user_paths: Files and folders beside the rootdir whose code is the user's too.
        open: Folders with recorded runs, which are served instead of tests.
        allow_unpickle: Whether recorded objects may be unpickled to inspect them.
        stdio: A client is served on stdin and stdout.
        http: Clients are served over HTTP.
        http_address: The address for that, from `parsers.loopback`.
        grace_s: Seconds that a run has for the teardown of its fixtures when it is ended.
        bind: The address to which processes of other machines connect, from `parsers.address`; None
            if they can't.
        hint: Whether an agent's run that fails ends with the command for its first failure.
        why: For how many failures of a run without a client it is asked why they failed.
    """

    start: str = "manual"
    tools: str = "full"
    lease_s: float = 1800.0
    record: str = ""
    summary: str = ""
    trace: tuple[str, ...] = ()
    record_calls: tuple[str, ...] = ()
    redact_names: tuple[str, ...] = ()
    redact_patterns: tuple[str, ...] = ()
    show_names: tuple[str, ...] = ()
    no_redact: bool = False
    user_paths: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    open: tuple[str, ...] = ()
    allow_unpickle: bool = False
    stdio: bool = False
    http: bool = False
    http_address: str = "127.0.0.1:0"
    bind: str | None = None
    grace_s: float = 30.0
    hint: bool = True
    why: int = 0

    def to_plain(self) -> dict[str, Any]:
        """Plain data for the hand-over to the front end."""
        return asdict(self)

    @classmethod
    def from_plain(cls, data: dict[str, Any]) -> Settings:
        """The inverse of `to_plain`."""
        lists = {option.field for option in OPTIONS if option.is_repeatable}
        values: dict[str, Any] = {
            name: tuple(value) if name in lists else value for name, value in data.items()
        }
        return cls(**values | {"limits": Limits(**data["limits"])})

    @classmethod
    def of(cls, chosen: dict[str, Any]) -> Settings:
        """Make settings from values by the `field` of their option; others get their default."""
        limits = {name: chosen[name] for name in BOUNDS if name in chosen}
        others = {name: value for name, value in chosen.items() if name not in BOUNDS}
        if "http_address" in others:  # an address implies that HTTP is wanted
            others["http"] = True
        return cls(**others, limits=Limits(**limits))


def add_options(parser: pytest.Parser) -> None:
    """Register every option of the table with pytest."""
    group = parser.getgroup("cideldill", "debugging by MCP clients (pytest-cideldill)")
    for option in OPTIONS:
        if option.place != "command line":
            kind, default = _ini_type(option)
            parser.addini(option.ini, option.help, type=kind, default=default)
        if option.place == "ini file":
            continue
        value: dict[str, Any] = {"action": "store_true"}
        if option.metavar:
            action = "append" if option.is_repeatable else "store"
            value = {"action": action, "metavar": option.metavar}
        if option.bare:
            value |= {"nargs": "?", "const": option.bare}
        group.addoption(option.flag, default=None, help=option.help, **value)


def _ini_type(option: Option) -> tuple[Any, Any]:
    """The type of an ini option for pytest, and its default.

    `pytest.toml` may hold numbers and booleans. The errors of older versions of pytest don't name a
    malformed option, so all its values are read as texts there.
    """
    import pytest

    natives = {"bool": bool | str, "int": int | str, "float": float | str}
    if option.is_repeatable:
        return option.type, []
    return natives.get(option.type, "string") if pytest.version_tuple >= (9, 2) else "string", ""


def read(config: pytest.Config) -> Settings:
    """The settings of a pytest configuration: command line, else ini file, else table.

    Raises:
        ValueError: A value is malformed; the message names the option and what is allowed.
    """
    chosen: dict[str, Any] = {}
    place, table = read_table(config.rootpath)
    for option in OPTIONS:
        given = getattr(config.known_args_namespace, option.ini, None)
        if given is None and option.place == "command line":
            continue
        name, text = option.flag, given
        if given is None:
            name, text = option.ini, _from_ini(config, option)
        if text in ("", []) and given is None and (found := table.get(option.key)) is not None:
            name, text = f"{option.key} in {place}", found
        if option.is_repeatable:
            chosen[option.field] = tuple(_parse(option, name, each) for each in text or ())
        elif text != "" or given is not None:
            chosen[option.field] = _parse(option, name, str(text))
    return Settings.of(chosen)


def texts_of(config: pytest.Config, *keys: str) -> list[str]:
    """The texts of some options, of which others need not be well-formed; empty if one is not set.

    Args:
        config: pytest's.
        keys: `Option.key`, of some that are not repeatable.

    Raises:
        ValueError: The table of options is malformed.
    """
    _, table = read_table(config.rootpath)
    texts = []
    for key in keys:
        given = getattr(config.known_args_namespace, f"cideldill_{key}", None)
        found = config.getini(f"cideldill_{key}") if given is None else given
        texts.append(str(table.get(key, "") if found in ("", None) else found))
    return texts


def value_of(config: pytest.Config, key: str) -> Any:
    """The value of one; None if it is not set.

    Raises:
        ValueError: The table, or the option, is malformed; the message names it.
    """
    (text,) = texts_of(config, key)
    if not text:
        return None
    option = next(each for each in OPTIONS if each.key == key)
    return _parse(option, option.ini, text)


def read_table(root: Path) -> tuple[str, dict[str, Any]]:
    """Read the options in `cideldill.toml`, or in `[tool.cideldill]` of `pyproject.toml`.

    Returns:
        The name of the table, and values by the `key` of their option: texts, or lists of texts.

    Raises:
        ValueError: It is no TOML, or it has an unknown key; the message names it.
    """
    for name, words in (("cideldill.toml", ()), ("pyproject.toml", ("tool", "cideldill"))):
        try:
            text = (root / name).read_bytes()
        except OSError:
            continue
        if words and b"cideldill" not in text:  # parsing it would cost every run a millisecond
            continue
        place = f"[{'.'.join(words)}] of {name}" if words else name
        table = _toml(name, text)
        for word in words:
            table = table.get(word, {})
        if table:
            return place, {key: _of_table(place, key, value) for key, value in table.items()}
    return "", {}


def _toml(name: str, text: bytes) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(text.decode())
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def _of_table(place: str, key: str, value: Any) -> Any:
    option = next((each for each in OPTIONS if each.key == key), None)
    if option is None or option.place == "command line":
        known = ", ".join(each.key for each in OPTIONS if each.place != "command line")
        raise ValueError(f"{key} in {place} is no option; there are: {known}")
    if option.is_repeatable:
        return [str(each) for each in value] if isinstance(value, list) else [str(value)]
    return str(value)


def _from_ini(config: pytest.Config, option: Option) -> Any:
    import pytest

    try:
        return config.getini(option.ini)
    except (TypeError, ValueError, pytest.UsageError) as error:
        raise ValueError(f"{option.ini}: {error}") from error


def split(arguments: list[str]) -> tuple[Settings, list[str]]:
    """Take our options out of pytest arguments, where no pytest has parsed them.

    Our ini options in `-o` count as well. They stay in the arguments, as the processes of the tests
    read them.

    Returns:
        The settings and the other arguments.

    Raises:
        ValueError: As for `read`.
    """
    by_flag = {option.flag: option for option in OPTIONS if option.place != "ini file"}
    chosen: dict[str, Any] = {}
    rest = []
    pending = deque(arguments)
    while pending:
        argument = pending.popleft()
        flag, equals, value = argument.partition("=")
        option = by_flag.get(flag)
        if option is not None:
            parsed = _parse(option, flag, value if equals else _value_behind(option, pending))
            if option.is_repeatable:
                parsed = (*chosen.get(option.field, ()), parsed)
            chosen[option.field] = parsed
        else:
            rest.append(argument)
    return Settings.of(_overridden(rest) | chosen), rest


def _value_behind(option: Option, pending: deque[str]) -> str:
    """The value of a flag that has none of its own; taken out of what follows if it is there."""
    if not option.metavar:
        return "true"
    if option.bare and not (pending and pending[0].isdecimal()):
        return option.bare
    return pending.popleft() if pending else ""


def unjoin(known: Any, args: list[str]) -> None:
    """Give back what argparse took for the value of a flag, where it is a path behind it.

    Args:
        known: pytest's parsed options, which are changed.
        args: Where they are from; pytest parses them again.
    """
    for option in (each for each in OPTIONS if each.bare and each.flag in args):
        for at in [at for at, arg in enumerate(args[:-1]) if arg == option.flag]:
            behind = args[at + 1]
            if not behind.startswith("-") and not behind.isdecimal():
                args[at] = f"{option.flag}={option.bare}"
                known.file_or_dir.append(behind)
                if getattr(known, option.ini) == behind:
                    setattr(known, option.ini, option.bare)


def _overridden(arguments: list[str]) -> dict[str, Any]:
    """The values of our options in `-o NAME=VALUE`; the last one counts."""
    import argparse
    import shlex

    by_name = {option.ini: option for option in OPTIONS if option.place != "command line"}
    parser = argparse.ArgumentParser("cideldill-mcp", add_help=False, allow_abbrev=False)
    parser.add_argument("-o", "--override-ini", action="append", default=[])
    values: dict[str, Any] = {}
    for text in parser.parse_known_args(arguments)[0].override_ini:
        name, equals, value = text.partition("=")
        option = by_name.get(name)
        if option is None or not equals:
            continue
        if option.is_repeatable:
            texts = value.splitlines() if option.type == "linelist" else shlex.split(value)
            values[option.field] = tuple(_parse(option, name, each) for each in texts if each)
        else:
            values[option.field] = _parse(option, name, value)
    return values


def _parse(option: Option, name: str, text: str) -> Any:
    try:
        return option.parse(text)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
