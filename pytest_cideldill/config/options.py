"""The table of options: their values, where they may be set, which of them exclude each other.

This module is imported while the plugin is not switched on, so it imports next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pytest_cideldill.config import parsers
from pytest_cideldill.config.limits import BOUNDS, Limits
from pytest_cideldill.interpreter.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Container

_SWITCHES = ("mcp", "http", "http-address", "open")

SWITCH = "--cideldill-mcp"
"""The flag that turns `pytest ARGS` into the front end; there are others, see `switches`."""

NOT_IN_RUNS = {
    "usepdb": ("--pdb", "it reads the terminal"),
    "trace": ("--trace", "it reads the terminal"),
    "looponfail": ("-f (--looponfail)", "it never ends"),
}
"""Options of pytest that no run of a front end can have: attribute → flag, reason.

They are errors on the command line; from `addopts` and `PYTEST_ADDOPTS` each run leaves them
out."""

NO_TESTS = {
    "collectonly": ("--collect-only", "the tool test_list collects"),
    "markers": ("--markers", "it runs no tests"),
    "showfixtures": ("--fixtures", "it runs no tests"),
    "show_fixtures_per_test": ("--fixtures-per-test", "it runs no tests"),
    "cacheshow": ("--cache-show", "it runs no tests"),
}
"""Options of pytest with which there is nothing to debug or to record, as in `NOT_IN_RUNS`."""

PROFILES = ("full", "plan", "triage")
STARTS = ("manual", "run")
MAX_LEASE_S = 604_800
"""A week; also keeps waits below what the platform's clocks can hold."""

MAX_GRACE_S = 86_400

MOST_WHY = 50
DEFAULT_WHY = "3"
"""Failures of a run for which it is asked why."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option: `--cideldill-NAME=VALUE` on the command line, `cideldill_NAME` in an ini file.

    Options that turn pytest into a server count on the command line only.

    Attributes:
        field: The field of `Settings` or of `Limits`.
        parse: Converts the text to a value; its ValueError says what is wrong.
        metavar: The placeholder of the value; empty for a flag without a value.
        bare: The value of the flag where none is given; empty: it needs one.
        type: pytest's type of the ini option: `args` and `linelist` are repeatable.
        place: Where the option may be set.
    """

    name: str
    field: str
    parse: Callable[[str], Any]
    metavar: str
    help: str
    type: Literal["string", "args", "linelist", "bool", "int", "float"] = "string"
    place: Literal["both", "ini file", "command line"] = "both"
    bare: str = ""

    @property
    def flag(self) -> str:
        """The name on the command line."""
        return f"--cideldill-{self.name}"

    @property
    def ini(self) -> str:
        """The name in an ini file."""
        return f"cideldill_{self.key}"

    @property
    def key(self) -> str:
        """The name in the table `[tool.cideldill]`."""
        return self.name.replace("-", "_")

    @property
    def is_repeatable(self) -> bool:
        """Whether there may be several values."""
        return self.type in ("args", "linelist")


OPTIONS = (
    Option(
        "mcp",
        "stdio",
        parsers.truth,
        "",
        "Serve a debugger for these tests over MCP on stdin and stdout instead of running them; "
        "the other arguments become the defaults of every run. An MCP client starts this.",
        "bool",
        place="command line",
    ),
    Option(
        "http",
        "http",
        parsers.truth,
        "",
        "Serve the debugger over HTTP, together with --cideldill-mcp or instead of it: Streamable "
        "HTTP at /mcp, SSE at /mcp/sse. Prints the address and the token for clients to stderr.",
        "bool",
        place="command line",
    ),
    Option(
        "http-address",
        "http_address",
        parsers.loopback,
        "HOST:PORT",
        "Serve the debugger over HTTP at this local address (default: 127.0.0.1:0, any free port)",
        place="command line",
    ),
    Option(
        "open",
        "open",
        parsers.path,
        "DIR",
        "With --cideldill-mcp: serve the runs recorded in this folder, without running tests "
        "(repeatable)",
        "args",
        place="command line",
    ),
    Option(
        "allow-unpickle",
        "allow_unpickle",
        parsers.truth,
        "",
        "With --cideldill-open: allow unpickling of recorded objects, in a separate process, to "
        "inspect them further. Only for records that you trust",
        "bool",
        place="command line",
    ),
    Option(
        "start",
        "start",
        parsers.choice(*STARTS),
        "{" + ",".join(STARTS) + "}",
        "With --cideldill-mcp: start a test run when a client asks for it (manual, default) or at "
        "once (run)",
    ),
    Option(
        "tools",
        "tools",
        parsers.choice(*PROFILES),
        "{" + ",".join(PROFILES) + "}",
        "With --cideldill-mcp: the set of tools to offer (default: full)",
    ),
    Option(
        "lease",
        "lease_s",
        parsers.seconds(MAX_LEASE_S),
        "SECONDS",
        "With --cideldill-mcp: end a pause that no client has used for so long (default: 1800)",
        "float",
    ),
    Option(
        "grace",
        "grace_s",
        parsers.seconds(MAX_GRACE_S, or_none=True),
        "SECONDS",
        "With --cideldill-mcp: time for the teardown of fixtures when a run is stopped or the "
        "client disconnects (default: 30; at least one second, also with 0)",
        "float",
    ),
    Option(
        "bind",
        "bind",
        parsers.address,
        "HOST[:PORT]",
        "With --cideldill-mcp: the address of this machine to which xdist workers of other "
        "machines connect (default: they run without the debugger)",
    ),
    Option(
        "record",
        "record",
        parsers.path,
        "DIR",
        "Record the run in this folder: outcomes, failures and messages of tracepoints, for "
        "cideldill show, cideldill report and cideldill-mcp --open",
    ),
    Option(
        "summary",
        "summary",
        parsers.path,
        "FILE",
        "With --cideldill-record: append a summary in Markdown to this file, for a CI page",
    ),
    Option(
        "trace",
        "trace",
        parsers.text,
        "SPEC",
        "Log a message each time a line runs or, in runs without a client, at each call: "
        "'shop/cart.py:12=total={total}', 'shop/cart.py:12 if total < 0 => {items}' or "
        "'shop.cart:add@call => {item!r}' (repeatable)",
        "linelist",
    ),
    Option(
        "record-calls",
        "record_calls",
        parsers.glob,
        "GLOB",
        "Record calls of these functions, e.g. shop.cart.* (repeatable)",
        "args",
    ),
    Option(
        "why",
        "why",
        parsers.whole(0, MOST_WHY),
        "N",
        "After the run, show why tests fail, for at most N failures that differ in cause (default: "
        f"{DEFAULT_WHY}). Each such test is run again, in a process of its own",
        "int",
        bare=DEFAULT_WHY,
    ),
    Option(
        "hint",
        "hint",
        parsers.truth,
        "",
        "false: no line with the command for the first failure when an agent's run fails",
        "bool",
        place="ini file",
    ),
    Option("no-redact", "no_redact", parsers.truth, "", "Don't hide secrets", "bool"),
    Option(
        "redact-names",
        "redact_names",
        parsers.name,
        "NAMES",
        "Additional names whose values are secrets",
        "args",
        place="ini file",
    ),
    Option(
        "redact-patterns",
        "redact_patterns",
        parsers.pattern,
        "PATTERNS",
        "Regular expressions, one per line; whatever they match is a secret",
        "linelist",
        place="ini file",
    ),
    Option(
        "show-names",
        "show_names",
        parsers.name,
        "NAMES",
        "Names whose values are not secrets, although they look like names of secrets",
        "args",
        place="ini file",
    ),
    Option(
        "user-paths",
        "user_paths",
        parsers.path,
        "PATHS",
        "Files and folders outside of the rootdir that are your code too",
        "args",
        place="ini file",
    ),
    *(
        Option(
            name.replace("_", "-"),
            name,
            parsers.whole(smallest, largest),
            "NUMBER",
            f"{what[0].upper()}{what[1:]} (default: {getattr(Limits(), name)})",
            "int",
            place="ini file",
        )
        for name, (smallest, largest, what) in BOUNDS.items()
    ),
)


def switches(known: Any) -> list[str]:
    """The flags among pytest's parsed options that turn it into a server, wherever they are set."""
    table = (option for option in OPTIONS if option.name in _SWITCHES)
    return [option.flag for option in table if getattr(known, option.ini, None) is not None]


def conflict(known: Any, table: dict[str, tuple[str, str]], switch: str = SWITCH) -> str | None:
    """A sentence about the first option that the switch excludes; None if there is none.

    Args:
        known: pytest's parsed options, with those of addopts and PYTEST_ADDOPTS.
        table: Like `NOT_IN_RUNS`.
        switch: The switch that the user set.
    """
    for name, (option, why) in table.items():
        if getattr(known, name, False):
            return f"{option} can't be used with {switch}: {why}"
    return None


def given(table: dict[str, tuple[str, str]], flags: Container[str]) -> dict[str, tuple[str, str]]:
    """The part of a table like `NOT_IN_RUNS` whose flags are on a command line."""
    return {
        name: (option, why)
        for name, (option, why) in table.items()
        if any(each.strip("()") in flags for each in option.split())
    }
