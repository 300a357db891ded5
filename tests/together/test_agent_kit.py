"""The kit in `examples/agent`: its configurations start servers, its calls can be made."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from mcp import StdioServerParameters

from cideldill_mcp.tools import profile
from tests.together.driver import Agent, connected, only_stop, server
from tests.together.transcript import blocks, replay

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
KIT = EXAMPLES / "agent"
CLIENTS = sorted((KIT / "clients").iterdir())
SKILL = KIT / "skills" / "debug-failing-tests" / "SKILL.md"
SUBAGENT = KIT / "agents" / "test-debugger.md"
TOOLS = {tool.name: tool for tool in profile.ALL}

ELSEWHERE = ("claude_desktop_config.json", "windsurf.mcp_config.json", "cursor.mcp.json")
"""Configurations of clients that start servers in another folder than the project's."""

NEW_RATE = '\n\ndef new_rate(code: str) -> Decimal:\n    return Decimal("0.10")\n'


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A copy of the example project, with a virtual environment as the kit expects it."""
    leftovers = shutil.ignore_patterns("__pycache__", ".*")
    project = shutil.copytree(EXAMPLES / "shop", tmp_path / "my shop", ignore=leftovers)
    python = project / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    return project


def configured(file: Path) -> dict[str, Any]:
    """What a client is told to start under the name `pytest`: the only server of the file."""
    text = file.read_text(encoding="utf-8")
    whole = tomllib.loads(text) if file.suffix == ".toml" else json.loads(text)
    ((_, servers),) = whole.items()
    ((name, found),) = servers.items()
    assert name == "pytest"
    assert isinstance(found, dict)
    return found


def filled_in(value: Any, project: Path) -> Any:
    """A value of a configuration as it is when the user, or the client, has put the folder in."""
    match value:
        case str():
            user = value.replace("/path/to/project", shlex.quote(str(project)))
            return user.replace("${workspaceFolder}", str(project))
        case list():
            return [filled_in(each, project) for each in value]
        case _:
            return value


# --- configurations -----------------------------------------------------------------------------


def test_the_page_lists_every_configuration() -> None:
    page = (KIT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| [\w ]+ \| \[(\S+)\]\(clients/(\S+)\) \| \S", page, re.MULTILINE)
    assert sorted(rows) == [(file.name, file.name) for file in CLIENTS]


@pytest.mark.parametrize("file", CLIENTS, ids=lambda file: file.name)
def test_a_configuration_starts_what_the_readme_starts(file: Path) -> None:
    """The same command with the same environment, spelled for the client."""
    (text,) = blocks((EXAMPLES.parent / "README.md").read_text(encoding="utf-8"), "json")
    wanted = json.loads(text)["mcpServers"]["pytest"]
    found = configured(file)
    command = shlex.join([found["command"], *found["args"]])
    if found["command"] == "sh":
        flag, script = found["args"]
        assert flag == "-c"
        command = re.sub(r"^cd \S+ && exec ", "", script)
    assert command.removeprefix("'${workspaceFolder}/").replace("'", "") == shlex.join(
        [wanted["command"], *wanted["args"]]
    )
    assert found["env"] == wanted["env"]


@pytest.mark.full
@pytest.mark.sample("claude-code*", "codex*")
@pytest.mark.parametrize("file", CLIENTS, ids=lambda file: file.name)
def test_a_configured_server_runs_the_tests(file: Path, shop: Path, tmp_path: Path) -> None:
    """As the client would start it: with few variables, and in its own folder."""
    found = configured(file)
    started_in = found.get("cwd", str(tmp_path if file.name in ELSEWHERE else shop))
    started_in = started_in.replace("/path/to/project", str(shop))
    parameters = StdioServerParameters(
        command=filled_in(found["command"], shop),
        args=filled_in(found["args"], shop),
        env=found["env"],
        cwd=started_in,
    )
    with connected(parameters) as agent:
        assert {tool.name for tool in agent.tools()} == set(TOOLS)
        reported = agent.call("test_run")
        stop = only_stop(reported)
        assert stop["nodeid"] == "tests/test_cart.py::test_total[bulk]"
        seen = agent.call(
            "breakpoint_repl_eval",
            pause_id=stop["pause_id"],
            expression="__import__('os').environ['APP_SETTINGS']",
        )
        assert seen["output"] == "'testing'"
        assert agent.call("debug_state")["rootdir"] == str(shop)


# --- the skill and the sub-agent ----------------------------------------------------------------


def front_matter(file: Path) -> dict[str, str]:
    """The keys above the text; values are plain scalars, or lists in one line each."""
    found = re.match(r"---\n(.*?)\n---\n\n", file.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    joined = re.sub(r"\n  - ", " ", found[1])
    pairs = [line.partition(": ") for line in joined.splitlines()]
    for key, _, value in pairs:
        assert ": " not in value, f"{key} would have to be quoted"
        assert " #" not in value, f"{key} would have to be quoted"
    return {key.rstrip(":"): value or key.partition(": ")[2] for key, _, value in pairs}


def calls(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Every call that a text has in code: `tool {…}`."""
    found = re.findall(r"`(\w+) (\{.*?\})`", text)
    return [(tool, json.loads(arguments)) for tool, arguments in found]


@pytest.mark.parametrize("file", [SKILL, SUBAGENT], ids=lambda file: file.name)
def test_the_front_matter_says_when_to_use_it(file: Path) -> None:
    """Names as the format wants them; a description of at most 1,024 characters."""
    reported = front_matter(file)
    assert reported["name"] == (file.parent if file is SKILL else file.with_suffix("")).name
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", reported["name"])
    assert 0 < len(reported["description"]) <= 1_024
    assert "pytest" in reported["description"]


@pytest.mark.parametrize("file", [SKILL, SUBAGENT], ids=lambda file: file.name)
def test_every_tool_and_parameter_that_is_named_exists(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    named = calls(text)
    assert {tool for tool, _ in named} <= set(TOOLS)  # with parameters that are: test_docs.py
    assert named
    in_code = set(re.findall(r"`(\w+)`", text))
    like_tools = {name for name in in_code if re.match(r"(test|breakpoint|debug)_", name)}
    assert like_tools <= set(TOOLS)


def test_the_sub_agent_can_ask_and_not_edit() -> None:
    """It has all tools but these: those of a plugin's server have other names than a project's."""
    reported = front_matter(SUBAGENT)
    assert "tools" not in reported
    assert reported["disallowedTools"].split(", ") == ["Edit", "Write", "NotebookEdit"]
    assert reported["skills"].removeprefix("- ") == SKILL.parent.name


@pytest.mark.parametrize("file", [SKILL, SUBAGENT], ids=lambda file: file.name)
def test_the_first_call_asks_why(file: Path) -> None:
    _, _, body = file.read_text(encoding="utf-8").rpartition("---\n")
    assert next(name for name, _ in calls(body) if name != "test_stop") == "test_why"
    assert re.search(r"test_\w+", body[body.index("1.") :])[0] == "test_why"  # type: ignore[index]
    assert "cideldill why" in body


def edit(project: Path, diff: str) -> None:
    """Make the one edit that a block of the skill shows."""
    lines = diff.splitlines()
    (name,) = {line[4:] for line in lines if line.startswith(("---", "+++"))}
    (old,) = (line[1:] for line in lines if re.match(r"-[^-]", line))
    (new,) = (line[1:] for line in lines if re.match(r"\+[^+]", line))
    path = project / name
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.full
def test_the_four_steps_go_as_shown(shop: Path) -> None:
    """The edit is made where it stands."""
    page = SKILL.read_text(encoding="utf-8")
    (diff,) = blocks(page, "diff")
    before, after = re.split(r"```diff\n.*?```\n", page, flags=re.DOTALL)
    with connected(server(shop, "-o", "cideldill_capture_ms=10000")) as agent:
        replay(agent, before)
        edit(shop, diff)
        replay(agent, after)


@pytest.mark.full
def test_every_call_of_the_table_can_be_made(shop: Path) -> None:
    """In its order, with the id of a pause that is there."""
    path = shop / "shop" / "pricing.py"
    path.write_text(path.read_text(encoding="utf-8") + NEW_RATE, encoding="utf-8")
    _, _, table = SKILL.read_text(encoding="utf-8").partition("## Which call when")
    with connected(server(shop)) as agent:
        for tool, arguments in calls(table.partition("## Pitfalls")[0]):
            make(agent, tool, arguments)


def make(agent: Agent, tool: str, arguments: dict[str, Any]) -> None:
    if "pause_id" in arguments:
        if not (paused := agent.call("debug_state")["paused"]):
            paused = [agent.call("test_run", replace=True)["stops"][-1]["pause_id"]]
        arguments |= {"pause_id": paused[-1]}
    agent.call(tool, **arguments)
