"""The documentation is true: its examples are run, its tables compared with what they describe.

`CIDELDILL_WRITE_DOCS=1 pytest tests/test_docs.py` writes `docs/tools.md` and `docs/examples.md`
anew.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from mcp import StdioServerParameters

from cideldill_mcp.tools import profile
from cideldill_mcp.tools.definitions import Param, Tool
from pytest_cideldill.config.options import OPTIONS, PROFILES
from tests.together.driver import connected, locals_of, server
from tests.together.transcript import blocks, replay

pytestmark = pytest.mark.long(46)

ROOT = Path(__file__).resolve().parent.parent
SHOP = ROOT / "examples" / "shop"
TOOLS_PAGE = ROOT / "docs" / "tools.md"
EXAMPLES_PAGE = ROOT / "docs" / "examples.md"
PAGES = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").glob("*.md"),
    *(ROOT / "examples").rglob("*.md"),
]
CACHES = ("__pycache__", ".git", ".venv", ".*_cache", "build", "dist")

OPTIONS_PAGE = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
SECRETS_PAGE = (ROOT / "docs" / "secrets.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def command(beginning: str) -> str:
    """The one shell line of the README that begins like this."""
    (line,) = (text.strip() for text in blocks(README, "sh") if text.startswith(beginning))
    assert isinstance(line, str)
    assert "\n" not in line
    return line


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A copy of the example project."""
    return shutil.copytree(SHOP, tmp_path / "shop", ignore=shutil.ignore_patterns(*CACHES))


# --- the two commands ---------------------------------------------------------------------------


def test_the_two_commands_install_extras_and_run_scripts_that_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [text.strip() for text in blocks(README, "sh") if text.startswith("python3 -m venv")]
    extras = [re.findall(r" -e '\.\[(\w+)\]' && ", line) for line in lines]
    assert extras == [["mcp"], ["test"]]
    assert {"mcp", "test"} <= project["optional-dependencies"].keys()
    ends = [shlex.split(line.rpartition("&&")[2]) for line in lines]
    assert ends == [[".venv/bin/cideldill-mcp", "demo"], [".venv/bin/python", "-m", "pytest"]]
    assert "cideldill-mcp" in project["scripts"]


def test_the_continuous_integration_finds_the_test_command() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (pattern,) = re.findall(r'grep -E "(\^python3.*)" README', script)
    assert len(re.findall(pattern, README, re.MULTILINE)) == 1


@pytest.mark.full
@pytest.mark.timeout(600)
def test_the_first_command_installs_and_shows_the_demo_in_a_fresh_clone(tmp_path: Path) -> None:
    clone = shutil.copytree(ROOT, tmp_path / "clone", ignore=shutil.ignore_patterns(*CACHES))
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "python3").symlink_to(Path(sys.executable).resolve())
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [
            "bash",
            "-c",
            command("python3 -m venv .venv && .venv/bin/python -m pip install -q -e '.[mcp]"),
        ],
        cwd=clone,
        env=kept | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    if "Could not find a version" in done.stderr:
        pytest.skip(f"no network: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("Cause: shop/pricing.py:")


# --- the client's configuration and the tour ----------------------------------------------------


def configuration() -> dict[str, Any]:
    """What the `.mcp.json` of the README tells a client to start."""
    (text,) = blocks(README, "json")
    server = json.loads(text)["mcpServers"]["pytest"]
    assert isinstance(server, dict)
    return server


@pytest.mark.full
def test_the_tour_happens_as_shown_with_the_configuration_shown(shop: Path) -> None:
    configured = configuration()
    assert configured["command"] == ".venv/bin/python"
    parameters = StdioServerParameters(**configured | {"command": sys.executable}, cwd=shop)
    with connected(parameters) as agent:
        replay(agent, README)


def test_the_one_line_for_claude_code_says_the_same_as_the_file() -> None:
    own, _, started = command("claude mcp add").partition(" -- ")
    configured = configuration()
    assert shlex.split(started) == [configured["command"], *configured["args"]]
    ((name, value),) = configured["env"].items()
    assert shlex.split(own)[3:5] == ["--env", f"{name}={value}"]
    assert own.endswith(" pytest")


@pytest.mark.full
def test_the_line_for_a_separate_environment_starts_a_server(shop: Path) -> None:
    _, option, path, *rest = shlex.split(command("cideldill-mcp --python"))
    assert (option, path) == ("--python", ".venv/bin/python")
    arguments = ["-m", "cideldill_mcp", option, sys.executable, *rest]
    parameters = StdioServerParameters(command=sys.executable, args=arguments, cwd=shop)
    with connected(parameters) as agent:
        assert agent.call("debug_state")["state"] == "idle"


@pytest.mark.full
def test_what_the_page_on_secrets_names_is_hidden(tmp_path: Path) -> None:
    (ini,), (hook,) = blocks(SECRETS_PAGE, "ini"), blocks(SECRETS_PAGE, "python")
    (tmp_path / "pytest.ini").write_text(ini, encoding="utf-8")
    (tmp_path / "conftest.py").write_text(hook, encoding="utf-8")
    (tmp_path / "test_it.py").write_text(
        "from conftest import KEYCARD\n"
        "def test_it():\n"
        "    customerId, old_iban, loyalty_card = 'a-1', 'b-2', 'c-3'\n"
        "    order, door = 'CUST-123456, an Order of Alice!', f'opened by {KEYCARD}'\n"
        "    assert not order\n",
        encoding="utf-8",
    )
    with connected(server(tmp_path)) as agent:
        (stop,) = agent.call("test_run")["stops"]
    shown = {name: re.sub(r"<redacted:[^>]*>", "…", text) for name, text in locals_of(stop).items()}
    assert shown == {
        **dict.fromkeys(("customerId", "old_iban", "loyalty_card"), "…"),
        "order": "'…, an …!'",
        "door": "'opened by …'",
    }


# --- examples -----------------------------------------------------------------------------------

REPLAYED = {
    "README.md": {"sh", "json", "text"},  # here
    "CONTRIBUTING.md": {"sh"},  # .ci/run does that
    "docs/architecture.md": {"text"},  # a drawing
    "docs/concurrency.md": {"text"},  # a stack as test_tasks.py has it
    "docs/examples.md": {"text"},  # made from the sessions
    "docs/questions.md": {"console", "text", "sh"},  # test_question_docs.py, test_why_option.py
    "docs/record_format.md": {"sh"},  # test_record_format.py
    "docs/recording.md": {"sh", "text", "python"},  # test_recorded_for_people.py
    "docs/remote.md": {"sh"},  # test_remote.py
    "docs/secrets.md": {"ini", "python"},  # here
    "docs/transports.md": {"text", "sh"},  # test_http_life.py; no `claude`, no `ssh`
    "examples/agent/README.md": {"sh"},  # test_agent_plugin.py; no `claude`
    "examples/agent/skills/debug-failing-tests/SKILL.md": {"text", "diff"},  # test_agent_kit.py
    **{
        session.relative_to(ROOT).as_posix(): {"text"}  # test_examples.py
        for session in (ROOT / "examples").glob("*/session.md")
    },
}
"""The fenced blocks of each page, by language; who adds a kind says here what runs it."""


def test_every_example_is_replayed_by_a_test() -> None:
    found = {
        page.relative_to(ROOT).as_posix(): set(languages)
        for page in PAGES
        if (
            languages := re.findall(r"^ *```(\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
        )
    }
    assert found == REPLAYED


def test_every_call_in_running_text_can_be_sent() -> None:
    """Tools, parameters and values are those that there are."""
    known = {tool.name: tool for tool in profile.ALL}
    for page in PAGES:
        for name, arguments in re.findall(r"`(\w+) (\{.*?\})`", page.read_text(encoding="utf-8")):
            given = json.loads(arguments)
            assert set(given) <= {param.name for param in known[name].params}, (page, name)
            known[name].check(given)


# --- tables and names ---------------------------------------------------------------------------


def test_the_page_of_options_has_those_that_exist() -> None:
    flags = {option.flag for option in OPTIONS if option.place != "ini file"}
    assert set(re.findall(r"--cideldill-[a-z-]+", OPTIONS_PAGE)) == flags
    inis = {option.ini for option in OPTIONS if option.place != "command line"}
    assert set(re.findall(r"`(cideldill_[a-z_]+)`", OPTIONS_PAGE)) == inis


def test_the_page_of_tools_is_up_to_date() -> None:
    assert written(TOOLS_PAGE, tools_page()) == tools_page(), __doc__


def test_the_page_of_examples_is_up_to_date() -> None:
    """What happens there is in `tests/together/test_examples.py`."""
    assert written(EXAMPLES_PAGE, examples_page()) == examples_page(), __doc__


def written(page: Path, text: str) -> str:
    """What is on a page, after it was written anew if that is asked for."""
    if os.environ.get("CIDELDILL_WRITE_DOCS"):
        page.write_text(text, encoding="utf-8")
    return page.read_text(encoding="utf-8")


def examples_page() -> str:
    """`docs/examples.md`, from the sessions beside the projects."""
    parts = [
        "# Examples",
        "Made from `examples/*/session.md`; do not edit. Each is a small project with one bug,\n"
        "and the calls (`>`) that prove its cause, with what matters of the replies (`<`); `|`\n"
        "are lines of its `text`, `…` stands for any text. They run as tests, on copies. The bugs\n"
        "stay: run the tests in the folder of a project, and one fails. One more is in the\n"
        "[tour](../README.md#a-tour), where the result of a call is changed.",
    ]
    for session in sorted((ROOT / "examples").glob("*/session.md")):
        folder = f"../examples/{session.parent.name}"
        title, _, text = session.read_text(encoding="utf-8").removeprefix("# ").partition("\n\n")
        text = re.sub(r"\]\((?=\w)", f"]({folder}/", text)
        parts += [f"## {title}", f"The project: [{session.parent.name}]({folder})", text.rstrip()]
    return "\n\n".join(parts) + "\n"


def tools_page() -> str:
    """`docs/tools.md`, from the tables that also make the schemas."""
    parts = [
        "# Tools",
        "Made from the tables in `mcp_server/cideldill_mcp/tools/`; do not edit. A reply is one\n"
        'JSON object, an error is `{"error": CODE, "message": SENTENCE, …}`.\n'
        "Required parameters are bold. An argument that is no parameter of the tool is ignored;\n"
        "the reply names it in `ignored`.",
        "Values may be spelled as clients do: lists and objects as JSON in a string, one text (or\n"
        'object) for a list of one, numbers and booleans as text (`"5"`, `"true"`), `9.0` for\n'
        "`9`, and `3` for the id `tp-3`. In `modified_args`, `modified_kwargs` and `fake_result`\n"
        'a text that is an object with a `$` key, as `{"$eval": "40 + 2"}`, counts as that object.',
        table([("tool", "for", "profiles"), *(overview(tool) for tool in profile.ALL)]),
    ]
    for tool in profile.ALL:
        parts += [f"## {tool.name}", tool.about]
        if tool.shown:
            head = ("parameter", "type", "default", "meaning")
            parts.append(table([head, *(described(param) for param in tool.shown)]))
    return "\n\n".join(parts) + "\n"


def overview(tool: Tool) -> tuple[str, ...]:
    offered = [name for name in PROFILES if tool in profile.tools(name)]
    return f"[`{tool.name}`](#{tool.name})", tool.title, ", ".join(offered)


def described(param: Param) -> tuple[str, ...]:
    name = f"**`{param.name}`**" if param.required else f"`{param.name}`"
    kind = f"{param.type} of {param.items}" if param.items else param.type
    if param.choices:
        kind = " or ".join(f"`{each}`" for each in param.choices)
    for word, bound in (("from", param.minimum), ("to", param.maximum)):
        if bound is not None:
            kind += f", {word} {bound}"
    default = "" if param.default is None else f"`{json.dumps(param.default)}`"
    return name, kind, default, param.about


def table(rows: list[tuple[str, ...]]) -> str:
    head, *body = (
        "".join(f"| {cell} ".replace("  ", " ") for cell in cells) + "|" for cells in rows
    )
    return "\n".join([head, "|---" * len(rows[0]) + "|", *body])


def test_the_architecture_names_every_room_and_no_other() -> None:
    rooms = {
        path.name + "/" * path.is_dir()
        for package in ("pytest_cideldill", "mcp_server/cideldill_mcp")
        for path in (ROOT / package).iterdir()
        if path.suffix in ("", ".py") and path.name not in ("__pycache__", "__init__.py")
    }
    rooms = {name for name in rooms if name not in ("py.typed", "__main__.py")}
    reported = set(re.findall(r"^\| `([a-z_]+(?:\.py|/))` \|", ARCHITECTURE, re.MULTILINE))
    assert reported == rooms


def test_every_link_leads_somewhere() -> None:
    lost = []
    for page in PAGES:
        targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
        local = [target for target in targets if not target.startswith("https://")]
        lost += [(page, target) for target in local if not (page.parent / target).exists()]
    assert lost == []
