"""Command line, ini file → one frozen `Settings`, from one table of options.

Imported while the plugin is not switched on, so it imports next to nothing. pytest's configuration
is read at the take-over for the front end, and by each process under test: what is captured and
hidden there follows the ini file, whoever started the run.
"""

from __future__ import annotations

from dataclasses import asdict
from dataclasses import dataclass
from dataclasses import field
from typing import TYPE_CHECKING
from typing import Any
from typing import Literal

from pytest_cideldill import parsing
from pytest_cideldill.limits import BOUNDS
from pytest_cideldill.limits import Limits

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
        redact_names: Further names whose values are secrets.
        redact_patterns: Regular expressions; what they match is a secret.
        no_redact: Nothing is hidden.
        user_paths: Files and folders beside the rootdir whose code is the user's too.
        limits: How much is captured and kept.
    """

    start: str = "manual"
    tools: str = "full"
    lease_s: float = DEFAULT_LEASE_S
    record_calls: tuple[str, ...] = ()
    redact_names: tuple[str, ...] = ()
    redact_patterns: tuple[str, ...] = ()
    no_redact: bool = False
    user_paths: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)

    def to_plain(self) -> dict[str, Any]:
        """Plain data for the hand-over to the front end."""
        return asdict(self)

    @classmethod
    def from_plain(cls, data: dict[str, Any]) -> Settings:
        """The inverse of `to_plain`."""
        lists = {option.field for option in OPTIONS if option.is_repeatable}
        held: dict[str, Any] = {
            name: tuple(value) if name in lists else value for name, value in data.items()
        }
        return cls(**held | {"limits": Limits(**data["limits"])})

    @classmethod
    def of(cls, chosen: dict[str, Any]) -> Settings:
        """From values by the `field` of their option; what is absent has its default."""
        limits = {name: chosen[name] for name in BOUNDS if name in chosen}
        others = {name: value for name, value in chosen.items() if name not in BOUNDS}
        return cls(**others, limits=Limits(**limits))


@dataclass(frozen=True, slots=True)
class Option:
    """One setting: `--cideldill-NAME=VALUE` on the command line, `cideldill_NAME` in an ini file.

    Attributes:
        field: Of `Settings`, or of `Limits`.
        parse: Text to value; raises ValueError with what is wrong.
        metavar: Of the value; empty for a flag without one.
        type: pytest's type of the ini option: `args` and `linelist` are repeatable.
        in_ini_only: It can't be given on the command line.
    """

    name: str
    field: str
    parse: Callable[[str], Any]
    metavar: str
    help: str
    type: Literal["string", "args", "linelist", "bool", "int", "float"] = "string"
    in_ini_only: bool = False

    @property
    def flag(self) -> str:
        """As written on the command line."""
        return f"--cideldill-{self.name}"

    @property
    def ini(self) -> str:
        """As written in an ini file."""
        return f"cideldill_{self.name.replace('-', '_')}"

    @property
    def is_repeatable(self) -> bool:
        """Whether there may be several values."""
        return self.type in ("args", "linelist")


OPTIONS = (
    Option(
        "start",
        "start",
        parsing.choice(*STARTS),
        "{" + ",".join(STARTS) + "}",
        "With --cideldill-mcp: start a test run when asked (manual, default) or at once (run)",
    ),
    Option(
        "tools",
        "tools",
        parsing.choice(*PROFILES),
        "{" + ",".join(PROFILES) + "}",
        "With --cideldill-mcp: which set of tools to offer (default: full)",
    ),
    Option(
        "lease",
        "lease_s",
        parsing.seconds(MAX_LEASE_S),
        "SECONDS",
        "With --cideldill-mcp: how long an untouched pause lasts (default: 1800)",
        "float",
    ),
    Option(
        "record-calls",
        "record_calls",
        parsing.glob,
        "GLOB",
        "With --cideldill-mcp: record the calls of these functions, as shop.cart.* (repeatable)",
        "args",
    ),
    Option(
        "no-redact",
        "no_redact",
        parsing.truth,
        "",
        "With --cideldill-mcp: show secrets as they are",
        "bool",
    ),
    Option(
        "redact-names",
        "redact_names",
        parsing.name,
        "NAMES",
        "With --cideldill-mcp: further names whose values are secrets",
        "args",
        in_ini_only=True,
    ),
    Option(
        "redact-patterns",
        "redact_patterns",
        parsing.pattern,
        "PATTERNS",
        "With --cideldill-mcp: regular expressions, one a line; what they match is a secret",
        "linelist",
        in_ini_only=True,
    ),
    Option(
        "user-paths",
        "user_paths",
        parsing.path,
        "PATHS",
        "With --cideldill-mcp: files and folders outside of the rootdir whose code is yours too",
        "args",
        in_ini_only=True,
    ),
    *(
        Option(
            name.replace("_", "-"),
            name,
            parsing.whole(smallest, largest),
            "NUMBER",
            f"With --cideldill-mcp: {what} (default: {getattr(Limits(), name)})",
            "int",
            in_ini_only=True,
        )
        for name, (smallest, largest, what) in BOUNDS.items()
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
        kind, default = _ini_type(option)
        parser.addini(option.ini, option.help, type=kind, default=default)
        if option.in_ini_only:
            continue
        value: dict[str, Any] = {"action": "store_true"}
        if option.metavar:
            action = "append" if option.is_repeatable else "store"
            value = {"action": action, "metavar": option.metavar}
        group.addoption(option.flag, default=None, help=option.help, **value)


def _ini_type(option: Option) -> tuple[Any, Any]:
    """The type of an ini option for pytest, and its default.

    `pytest.toml` may hold numbers and booleans as they are; older versions of pytest can't tell us
    of a malformed one by name.
    """
    import pytest

    natives = {"bool": bool | str, "int": int | str, "float": float | str}
    if option.is_repeatable:
        return option.type, []
    return natives.get(option.type, "string") if pytest.version_tuple >= (9, 2) else "string", ""


def read(config: pytest.Config) -> Settings:
    """The settings of a pytest configuration: the command line beats the ini file.

    Raises:
        ValueError: A value is malformed; the message names the option and what is allowed.
    """
    chosen: dict[str, Any] = {}
    for option in OPTIONS:
        given = getattr(config.known_args_namespace, option.ini, None)
        name, text = (
            (option.flag, given) if given is not None else (option.ini, _from_ini(config, option))
        )
        if option.is_repeatable:
            chosen[option.field] = tuple(_parse(option, name, each) for each in text)
        elif text != "" or given is not None:
            chosen[option.field] = _parse(option, name, str(text))
    return Settings.of(chosen)


def _from_ini(config: pytest.Config, option: Option) -> Any:
    import pytest

    try:
        return config.getini(option.ini)
    except (TypeError, ValueError, pytest.UsageError) as error:
        raise ValueError(f"{option.ini}: {error}") from error


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
    by_flag = {option.flag: option for option in OPTIONS if not option.in_ini_only}
    chosen: dict[str, Any] = {}
    rest = []
    pending = iter(arguments)
    for argument in pending:
        flag, equals, value = argument.partition("=")
        option = by_flag.get(flag)
        if option is not None:
            absent = next(pending, "") if option.metavar and not equals else "true"
            parsed = _parse(option, flag, value if equals else absent)
            if option.is_repeatable:
                parsed = (*chosen.get(option.field, ()), parsed)
            chosen[option.field] = parsed
        elif argument != SWITCH:
            rest.append(argument)
    return Settings.of(chosen), rest


def _parse(option: Option, name: str, text: str) -> Any:
    try:
        return option.parse(text)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
