"""The plugin in `examples/agent`: its manifests have their published forms, its hook answers.

The forms: the documentation of Claude Code's plugins and hooks, of Gemini CLI's extensions, and
`server.schema.json` of the registry of MCP servers, as of December 2025.
"""

from __future__ import annotations

import io
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from cideldill_mcp.cli import main
from tests.together.frontend import clean_environment

ROOT = Path(__file__).resolve().parent.parent
KIT = ROOT / "examples" / "agent"
HOOK = KIT / "hooks" / "name_why.py"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

KEBAB = r"[a-z0-9]+(-[a-z0-9]+)*"


def manifest(name: str) -> dict[str, Any]:
    found = json.loads((KIT / name).read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


# --- manifests ----------------------------------------------------------------------------------


def test_the_plugin_has_its_manifest_and_its_parts_where_clients_look() -> None:
    plugin = manifest(".claude-plugin/plugin.json")
    assert re.fullmatch(KEBAB, plugin["name"])
    assert re.fullmatch(r"\d+\.\d+\.\d+", plugin["version"])
    assert PROJECT["version"].startswith(plugin["version"])
    assert plugin["author"]["name"]
    assert not {"hooks", "skills", "agents", "mcpServers"} & plugin.keys()  # found where they are
    for part in ("hooks/hooks.json", ".mcp.json"):
        assert (KIT / part).is_file()
    assert [*KIT.glob("skills/*/SKILL.md")]
    assert [*KIT.glob("agents/*.md")]


def test_the_marketplace_offers_the_plugin_under_the_names_of_the_page() -> None:
    market = manifest(".claude-plugin/marketplace.json")
    assert re.fullmatch(KEBAB, market["name"])
    assert market["owner"]["name"]
    (entry,) = market["plugins"]
    assert entry["source"].startswith("./")
    found = json.loads((KIT / entry["source"] / ".claude-plugin" / "plugin.json").read_text())
    assert found["name"] == entry["name"]
    page = (KIT / "README.md").read_text(encoding="utf-8")
    assert f"claude plugin marketplace add ./{KIT.relative_to(ROOT)} " in page
    assert f"claude plugin install {entry['name']}@{market['name']}\n" in page


@pytest.mark.parametrize(
    ("name", "root"),
    [(".mcp.json", "${CLAUDE_PLUGIN_ROOT}"), ("gemini-extension.json", "${extensionPath}")],
)
def test_a_manifest_starts_the_server_by_a_script_that_is_there(name: str, root: str) -> None:
    ((key, server),) = manifest(name)["mcpServers"].items()
    assert key == "pytest"
    command = [server["command"], *server["args"]]
    program, script = (each.replace(root, str(KIT)) for each in command)
    assert (program, script) == ("sh", str(KIT / "scripts" / "serve.sh"))
    assert Path(script).is_file()


def test_the_extension_of_gemini_has_the_keys_that_it_needs() -> None:
    extension = manifest("gemini-extension.json")
    assert re.fullmatch(KEBAB, extension["name"])
    assert extension["version"] == manifest(".claude-plugin/plugin.json")["version"]


@pytest.mark.parametrize("folder", [".venv", "venv", None])
def test_the_server_runs_in_the_environment_of_the_project(
    tmp_path: Path, folder: str | None
) -> None:
    """Started elsewhere, as a client may, with the project in its variable."""
    place = tmp_path / "my project" / (folder or "path") / "bin"
    place.mkdir(parents=True)
    python = place / ("python" if folder else "python3")
    python.write_text('#!/bin/sh\necho "$PWD|$0|$*"\n', encoding="utf-8")
    python.chmod(0o755)
    done = subprocess.run(
        ["sh", str(KIT / "scripts" / "serve.sh")],
        cwd=tmp_path,
        env={
            "CLAUDE_PROJECT_DIR": str(tmp_path / "my project"),
            "PATH": f"{place}:{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    started_in, program, arguments = done.stdout.strip().split("|")
    assert started_in == str(tmp_path / "my project")
    assert program == (f"{folder}/bin/python" if folder else str(python))
    assert arguments == "-m pytest --cideldill-mcp"


INPUT = {
    "type": "object",
    "properties": {
        "format": {"enum": ["string", "number", "boolean", "filepath"]},
        "isRequired": {"type": "boolean"},
        **{name: {"type": "string"} for name in ("value", "default", "description", "name")},
    },
}
ARGUMENT = {
    "allOf": [
        INPUT,
        {
            "anyOf": [
                {"properties": {"type": {"const": "named"}}, "required": ["type", "name"]},
                {"properties": {"type": {"const": "positional"}}, "required": ["type", "value"]},
            ]
        },
    ]
}
SERVER_SCHEMA = {
    "type": "object",
    "required": ["name", "description", "version"],
    "properties": {
        "$schema": {"pattern": r"^https://static\.modelcontextprotocol\.io/schemas/[\d-]+/server"},
        "name": {
            "pattern": "^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$",
            "minLength": 3,
            "maxLength": 200,
        },
        "title": {"type": "string", "minLength": 1, "maxLength": 100},
        "description": {"type": "string", "minLength": 1, "maxLength": 100},
        "version": {"type": "string", "maxLength": 255},
        "packages": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["registryType", "identifier", "transport"],
                "properties": {
                    "version": {"type": "string", "minLength": 1, "not": {"const": "latest"}},
                    "runtimeHint": {"type": "string"},
                    "runtimeArguments": {"type": "array", "items": ARGUMENT},
                    "packageArguments": {"type": "array", "items": ARGUMENT},
                    "transport": {
                        "properties": {"type": {"const": "stdio"}},
                        "required": ["type"],
                    },
                },
            },
        },
    },
}
"""The part of the registry's `server.schema.json` that the entry uses."""


def test_the_entry_for_the_registry_is_valid_and_of_this_version() -> None:
    """The registry looks for its name on the page of the package."""
    server = manifest("server.json")
    jsonschema.Draft202012Validator(SERVER_SCHEMA).validate(server)
    assert f"<!-- mcp-name: {server['name']} -->" in (ROOT / "README.md").read_text("utf-8")
    (package,) = server["packages"]
    assert (package["registryType"], package["identifier"]) == ("pypi", PROJECT["name"])
    assert {server["version"], package["version"]} == {PROJECT["version"]}
    (source,) = package["runtimeArguments"]
    assert source["value"] == f"{PROJECT['name']}[mcp]=={PROJECT['version']}"
    assert package["runtimeHint"] == "uvx"  # which runs the script of the package's name
    assert PROJECT["scripts"][PROJECT["name"]] == PROJECT["scripts"]["cideldill-mcp"]


def test_the_arguments_of_the_entry_are_taken(capsys: pytest.CaptureFixture[str]) -> None:
    (package,) = manifest("server.json")["packages"]
    given = [f"{each['name']}={each['default']}" for each in package["packageArguments"]]
    with pytest.raises(SystemExit) as ended:
        main([*given, "--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"pytest-cideldill {PROJECT['version']}\n"


# --- the hook -----------------------------------------------------------------------------------

SUMMARY = """\
=========================== short test summary info ============================
FAILED tests/test_a.py::test_x[a - b] - assert 1 == 2
FAILED tests/test_a.py::TestIt::test_y - KeyError: 'x'
ERROR tests/test_b.py::test_z
========================= 2 failed, 1 error in 0.12s ==========================
"""
FIRST = "tests/test_a.py::test_x[a - b]"


def event(command: str, output: Any, name: str = "PostToolUse", **more: Any) -> dict[str, Any]:
    """What Claude Code sends: a response with the streams, or the text of an error."""
    responses = (
        {"error": f"Exit code 1\n{output}", "is_interrupt": False}
        if name == "PostToolUseFailure"
        else {"tool_response": {"stdout": output, "stderr": "", "interrupted": False}}
    )
    asked = {"tool_name": "Bash", "tool_input": {"command": command, "description": "run"}}
    return {"session_id": "s", "cwd": "/", "hook_event_name": name, **asked, **responses, **more}


def run(plain: object) -> str:
    """What the hook prints, as a process of its own."""
    done = subprocess.run(
        [sys.executable, str(HOOK)],
        input=encoded(plain),
        env=clean_environment(PATH="/nowhere"),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def run_here(plain: object) -> str:
    """The same without a process, whose start takes longer than its answer."""
    with pytest.MonkeyPatch.context() as patched, redirect_stdout(io.StringIO()) as printed:
        patched.setenv("PATH", "/nowhere")
        given = io.TextIOWrapper(io.BytesIO(encoded(plain)), encoding="utf-8")
        patched.setattr(sys, "stdin", given)
        runpy.run_path(str(HOOK), run_name="__main__")
    return printed.getvalue()


def encoded(plain: object) -> bytes:
    return plain if isinstance(plain, bytes) else json.dumps(plain).encode()


def context(plain: object, hook: Callable[[object], str] = run_here) -> str | None:
    """The context that the agent gets; None: nothing."""
    printed = hook(plain)
    if not printed:
        return None
    reply = json.loads(printed)
    assert reply.keys() == {"hookSpecificOutput"}
    specific = reply["hookSpecificOutput"]
    assert isinstance(plain, dict)
    assert specific.keys() == {"hookEventName", "additionalContext"}
    assert specific["hookEventName"] == plain["hook_event_name"]
    return str(specific["additionalContext"])


def test_both_events_after_a_command_start_the_hook() -> None:
    """A command that fails is no `PostToolUse`."""
    hooks = manifest("hooks/hooks.json")["hooks"]
    assert set(hooks) == {"PostToolUse", "PostToolUseFailure"}
    for (group,) in hooks.values():
        assert group["matcher"] == "Bash"
        (hook,) = group["hooks"]
        assert hook["type"] == "command"
        assert hook["timeout"] <= 10
        program, script, *rest = shlex.split(hook["command"])
        assert (program, rest) == ("python3", ["||", "true"])
        assert Path(script.replace("${CLAUDE_PLUGIN_ROOT}", str(KIT))) == HOOK


@pytest.mark.parametrize("name", ["PostToolUse", "PostToolUseFailure"])
def test_a_failed_pytest_is_answered_with_the_command_for_its_first_failure(name: str) -> None:
    named = context(event("cd shop && python -m pytest -q | tail -5", SUMMARY, name), run)
    assert named is not None
    assert f"python -m cideldill_mcp.commands.main why '{FIRST}'" in named
    assert "2 more failed" in named
    assert len(named) < 600


@pytest.mark.parametrize(
    ("command", "output", "nodeid"),
    [
        ("pytest", "FAILED a/test_b.py::test_c\n1 failed in 0.1s", "a/test_b.py::test_c"),
        ("make check", SUMMARY, FIRST),
        ("pytest -v", "test_b.py::test_c[x y] FAILED      [ 50%]\n", "test_b.py::test_c[x y]"),
        (
            "pytest",
            "\x1b[31mFAILED\x1b[0m test_b.py::\x1b[1mtest_c\x1b[0m - x\n",
            "test_b.py::test_c",
        ),
        ("pytest", "FAILED test_b.py::test_c[it's] - x\n", "test_b.py::test_c[it's]"),
        ("pytest", "ERROR test_b.py::test_c - fixture 'x' not found\n", "test_b.py::test_c"),
    ],
)
def test_the_lines_of_pytest_are_read(command: str, output: str, nodeid: str) -> None:
    named = context(event(command, output))
    assert named is not None
    found = re.search(r"`(.*) why (.*?)` \(or", named)
    assert found
    assert shlex.split(found[2]) == [nodeid]


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("pytest", "3 passed in 0.1s"),
        ("ls", "FAILED tests/test_a.py::test_x\n"),
        ("pytest", f"{SUMMARY}cideldill: why? → cideldill why '{FIRST}'\n"),
        ("cideldill why x && pytest", SUMMARY),
        ("pytest", "ERROR: file or directory not found: x\n"),
        ("pytest", "ERROR tests/test_a.py - ImportError: x\n"),
        ("git log", "FAILED to do it in 0.1s"),
        ("", ""),
    ],
)
def test_nothing_else_is_answered(command: str, output: str) -> None:
    assert context(event(command, output)) is None


@pytest.mark.parametrize(
    "given",
    [b"", b"\xff", b"[]", b"null", b'{"tool_input": 1}', b"{" * 99_999, event("pytest", None)],
)
def test_the_hook_bears_any_input(given: object) -> None:
    assert run_here(given) == ""


def test_a_process_that_gets_no_text_ends_well() -> None:
    assert run(b"\xff") == ""


def test_the_command_is_that_of_the_project(tmp_path: Path) -> None:
    command = tmp_path / ".venv" / "bin" / "cideldill"
    command.parent.mkdir(parents=True)
    command.touch(0o755)
    named = context(event("pytest", SUMMARY, cwd=str(tmp_path)))
    assert named is not None
    assert f"`.venv/bin/cideldill why '{FIRST}'`" in named


def test_a_long_output_takes_no_time() -> None:
    """Of a suite in which everything failed, and one line that never ends."""
    lines = "".join(f"FAILED tests/test_a.py::test_{n}[a - b] - x\n" for n in range(9_000))
    began = time.monotonic()
    named = context(event("pytest", lines + "FAILED a::b[" + "x - " * 200_000))
    assert named is not None
    assert "8999 more failed" in named
    assert time.monotonic() - began < 5


def test_the_hook_needs_the_library_only() -> None:
    text = HOOK.read_text(encoding="utf-8")
    imported = set(re.findall(r"^(?:import|from) (\w+)", text, re.MULTILINE)) - {"__future__"}
    assert imported <= sys.stdlib_module_names
    assert not imported & {"socket", "urllib", "http", "ssl", "asyncio"}
