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
        parse: Converts the text to a value; its ValueError says what is wrong.
        metavar: The placeholder of the value; empty for a flag without a value, and in ini files.
        bare: The value of the flag where none is given; empty: it needs one.
        type: pytest's type of the ini option: `args` and `linelist` are repeatable.
        place: Where the option may be set.
        stored_as: `field`, where it is not `key`.
    """

    name: str
    help: str
    parse: Callable[[str], Any] = parsers.truth
    metavar: str = ""
    type: Literal["string", "args", "linelist", "bool", "int", "float"] = "string"
    place: Literal["both", "ini file", "command line"] = "both"
    bare: str = ""
    stored_as: str = ""

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
    def field(self) -> str:
        """The field of `Settings` or of `Limits`."""
        return self.stored_as or self.key

    @property
    def is_repeatable(self) -> bool:
        """Whether there may be several values."""
        return self.type in ("args", "linelist")


OPTIONS = (
    Option(
        "mcp",
        "Serve a debugger for these tests over MCP on stdin and stdout instead of running them; "
        "the other arguments become the defaults of every run. An MCP client starts this.",
        type="bool",
        place="command line",
        stored_as="stdio",
    ),
    Option(
        "http",
        "Serve the debugger over HTTP, together with --cideldill-mcp or instead of it: Streamable "
        "HTTP at /mcp, SSE at /mcp/sse. Prints the address and the token for clients to stderr.",
        type="bool",
        place="command line",
    ),
    Option(
        "http-address",
        "Serve the debugger over HTTP at this local address (default: 127.0.0.1:0, any free port)",
        parsers.loopback,
        "HOST:PORT",
        place="command line",
    ),
    Option(
        "open",
        "With --cideldill-mcp: serve the runs recorded in this folder, without running tests "
        "(repeatable)",
        parsers.path,
        "DIR",
        "args",
        place="command line",
    ),
    Option(
        "allow-unpickle",
        "With --cideldill-open: allow unpickling of recorded objects, in a separate process, to "
        "inspect them further. Only for records that you trust",
        type="bool",
        place="command line",
    ),
    Option(
        "start",
        "With --cideldill-mcp: start a test run when a client asks for it (manual, default) or at "
        "once (run)",
        parsers.choice(*STARTS),
        "{" + ",".join(STARTS) + "}",
    ),
    Option(
        "tools",
        "With --cideldill-mcp: the set of tools to offer (default: full)",
        parsers.choice(*PROFILES),
        "{" + ",".join(PROFILES) + "}",
    ),
    Option(
        "lease",
        "With --cideldill-mcp: end a pause that no client has used for so long (default: 1800)",
        parsers.seconds(MAX_LEASE_S),
        "SECONDS",
        "float",
        stored_as="lease_s",
    ),
    Option(
        "grace",
        "With --cideldill-mcp: time for the teardown of fixtures when a run is stopped or the "
        "client disconnects (default: 30; at least one second, also with 0)",
        parsers.seconds(MAX_GRACE_S, or_none=True),
        "SECONDS",
        "float",
        stored_as="grace_s",
    ),
    Option(
        "bind",
        "With --cideldill-mcp: the address of this machine to which xdist workers of other "
        "machines connect (default: they run without the debugger)",
        parsers.address,
        "HOST[:PORT]",
    ),
    Option(
        "record",
        "Record the run in this folder: outcomes, failures and messages of tracepoints, for "
        "cideldill show, cideldill report and cideldill-mcp --open",
        parsers.path,
        "DIR",
    ),
    Option(
        "summary",
        "With --cideldill-record: append a summary in Markdown to this file, for a CI page",
        parsers.path,
        "FILE",
    ),
    Option(
        "trace",
        "Log a message each time a line runs or, in runs without a client, at each call: "
        "'shop/cart.py:12=total={total}', 'shop/cart.py:12 if total < 0 => {items}' or "
        "'shop.cart:add@call => {item!r}' (repeatable)",
        parsers.text,
        "SPEC",
        "linelist",
    ),
    Option(
        "record-calls",
        "Record calls of these functions, e.g. shop.cart.* (repeatable)",
        parsers.glob,
        "GLOB",
        "args",
    ),
    Option(
        "why",
        "After the run, show why tests fail, for at most N failures that differ in cause (default: "
        f"{DEFAULT_WHY}). Each such test is run again, in a process of its own",
        parsers.whole(0, MOST_WHY),
        "N",
        "int",
        bare=DEFAULT_WHY,
    ),
    Option(
        "hint",
        "false: no line with the command for the first failure when an agent's run fails",
        type="bool",
        place="ini file",
    ),
    Option("no-redact", "Don't hide secrets", type="bool"),
    Option(
        "redact-names",
        "Additional names whose values are secrets",
        parsers.name,
        type="args",
        place="ini file",
    ),
    Option(
        "redact-patterns",
        "Regular expressions, one per line; whatever they match is a secret",
        parsers.pattern,
        type="linelist",
        place="ini file",
    ),
    Option(
        "show-names",
        "Names whose values are not secrets, although they look like names of secrets",
        parsers.name,
        type="args",
        place="ini file",
    ),
    Option(
        "user-paths",
        "Files and folders outside of the rootdir that are your code too",
        parsers.path,
        type="args",
        place="ini file",
    ),
    *(
        Option(
            name.replace("_", "-"),
            f"{what[0].upper()}{what[1:]} (default: {getattr(Limits(), name)})",
            parsers.whole(smallest, largest),
            type="int",
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
