"""Command line, ini file → one frozen `Settings`, from one table of options.

The only module of ours that is imported while the plugin is not switched on, besides `plugin.py`;
so it imports next to nothing. Both processes use it.
"""

from __future__ import annotations

from dataclasses import asdict
from dataclasses import dataclass
from typing import TYPE_CHECKING
from typing import Any
from typing import Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

SWITCH = "--cideldill-mcp"
"""The flag that turns `pytest ARGS` into the front end; command line only."""

NOT_IN_RUNS = {
    "usepdb": ("--pdb", "it reads the terminal"),
    "trace": ("--trace", "it reads the terminal"),
    "looponfail": ("-f (--looponfail)", "it never ends"),
}
"""Attributes of pytest's options that no run of a front end can have: as written, and why."""

PROFILES = ("full", "plan", "triage")
STARTS = ("manual", "run")
DEFAULT_LEASE_S = 1800.0
MAX_LEASE_S = 604_800
"""A week; also keeps waits below what the platform's clocks can hold."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user chose.

    Attributes:
        start: `manual` (a run starts when asked) or `run` (one starts at once).
        tools: The tool profile, one of `PROFILES`.
        lease_s: Seconds that an untouched pause lasts.
        record_calls: Globs over dotted paths of functions whose calls are recorded.
    """

    start: str = "manual"
    tools: str = "full"
    lease_s: float = DEFAULT_LEASE_S
    record_calls: tuple[str, ...] = ()

    def to_plain(self) -> dict[str, Any]:
        """Plain data for the hand-over to the front end."""
        return asdict(self)

    @classmethod
    def from_plain(cls, data: dict[str, Any]) -> Settings:
        """The inverse of `to_plain`."""
        return cls(**data | {"record_calls": tuple(data["record_calls"])})


def _choice(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"{text!r} is not one of: {', '.join(allowed)}")
        return text

    return parse


def _glob(text: str) -> str:
    if not text.strip() or any(character.isspace() for character in text.strip()):
        raise ValueError(f"{text!r} is not a glob over dotted paths, as shop.cart.*")
    return text.strip()


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number of seconds") from None
    if not 0 < value <= MAX_LEASE_S:
        raise ValueError(f"{text!r} is not between 0 and {MAX_LEASE_S} seconds")
    return value


@dataclass(frozen=True, slots=True)
class Option:
    """One `--cideldill-NAME=VALUE`, also an ini option `cideldill_NAME`."""

    name: str
    field: str
    parse: Callable[[str], Any]
    metavar: str
    help: str
    is_repeatable: bool = False

    @property
    def flag(self) -> str:
        """As written on the command line."""
        return f"--cideldill-{self.name}"

    @property
    def ini(self) -> str:
        """As written in an ini file."""
        return f"cideldill_{self.name.replace('-', '_')}"


OPTIONS = (
    Option(
        "start",
        "start",
        _choice(*STARTS),
        "{" + ",".join(STARTS) + "}",
        "With --cideldill-mcp: start a test run when asked (manual, default) or at once (run)",
    ),
    Option(
        "tools",
        "tools",
        _choice(*PROFILES),
        "{" + ",".join(PROFILES) + "}",
        "With --cideldill-mcp: which set of tools to offer (default: full)",
    ),
    Option(
        "lease",
        "lease_s",
        _seconds,
        "SECONDS",
        "With --cideldill-mcp: how long an untouched pause lasts (default: 1800)",
    ),
    Option(
        "record-calls",
        "record_calls",
        _glob,
        "GLOB",
        "With --cideldill-mcp: record the calls of these functions, as shop.cart.* (repeatable; "
        "Python 3.12 or later)",
        is_repeatable=True,
    ),
)


def add_options(parser: pytest.Parser) -> None:
    """Register the switch and every option of the table with pytest."""
    group = parser.getgroup("cideldill", "debugging by MCP clients (pytest-cideldill)")
    group.addoption(
        SWITCH,
        action="store_true",
        default=False,
        help="Serve a debugger for these tests over MCP on stdin and stdout instead of running "
        "them; the other arguments become the defaults of every run. An MCP client starts this.",
    )
    for option in OPTIONS:
        action = "append" if option.is_repeatable else "store"
        group.addoption(
            option.flag, action=action, default=None, metavar=option.metavar, help=option.help
        )
        kind: Literal["args", "string"] = "args" if option.is_repeatable else "string"
        parser.addini(option.ini, option.help, type=kind)


def read(config: pytest.Config) -> Settings:
    """The settings of a pytest configuration: the command line beats the ini file.

    Raises:
        ValueError: A value is malformed; the message names the option and what is allowed.
    """
    chosen: dict[str, Any] = {}
    for option in OPTIONS:
        given = getattr(config.known_args_namespace, option.ini, None)
        name, text = (
            (option.flag, given) if given is not None else (option.ini, config.getini(option.ini))
        )
        if option.is_repeatable:
            chosen[option.field] = tuple(_parse(option, name, each) for each in text)
        elif text or given is not None:
            chosen[option.field] = _parse(option, name, text)
    return Settings(**chosen)


def conflict(known: Any, table: dict[str, tuple[str, str]]) -> str | None:
    """A sentence about the first option that can't stand beside the switch; None when all can.

    Args:
        known: pytest's parsed options, those of addopts and PYTEST_ADDOPTS included.
        table: Like `NOT_IN_RUNS`.
    """
    for name, (option, why) in table.items():
        if getattr(known, name, False):
            return f"{option} can't be used with {SWITCH}: {why}"
    return None


def split(arguments: list[str]) -> tuple[Settings, list[str]]:
    """Take our options out of pytest arguments, where no pytest has parsed them.

    Returns:
        The settings and the other arguments, the switch removed too.

    Raises:
        ValueError: As for `read`.
    """
    by_flag = {option.flag: option for option in OPTIONS}
    chosen: dict[str, Any] = {}
    rest = []
    pending = iter(arguments)
    for argument in pending:
        flag, equals, value = argument.partition("=")
        option = by_flag.get(flag)
        if option is not None:
            parsed = _parse(option, flag, value if equals else next(pending, ""))
            if option.is_repeatable:
                parsed = (*chosen.get(option.field, ()), parsed)
            chosen[option.field] = parsed
        elif argument != SWITCH:
            rest.append(argument)
    return Settings(**chosen), rest


def _parse(option: Option, name: str, text: str) -> Any:
    try:
        return option.parse(text)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
