"""Planted secrets of many kinds: no reply of any tool holds one of their bytes.

The rules are in `docs/secrets.md`. Node ids are excepted: they name tests, so the parametrized
values here have ids of their own.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

from tests.together.driver import ToolError, connected, locals_of, only_stop, server
from tests.together.workbench import Bench

BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7"
VAULT = {
    "pem": f"-----BEGIN PRIVATE KEY-----\n{BODY}\n{BODY[::-1]}\n-----END PRIVATE KEY-----\n",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiI0MiIsIm5hbWUiOiJKbyJ9.dBjftJeZ4CVPmB92K27uhbUJU1p1r",
    "aws_id": "AKIAQ4XJ7PLNW2KD5R3T",
    "aws_secret": "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",
    "github": "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "url": "postgresql://clerk:un1ikely-pgpass@db.internal/shop",
    "password": "correct-h0rse-battery",
    "api_key": "zq81-attribute-7751",
    "header": "Zk3-opaque-header-001",
    "env": "env-val-90125-deploy",
}
"""What the project reads from a file at import, so that no source text holds it."""

PIECES = {
    **{name: value for name, value in VAULT.items() if name not in ("pem", "url")},
    "pem": BODY[:20],
    "pem, second line": BODY[::-1][:20],
    "url": "un1ikely-pgpass",
    "literal": "l1teral-in-source-88",
}
"""What must not appear."""

ASSIGNED = """
    import json, logging, os, pathlib, sys
    import pytest

    V = json.loads((pathlib.Path(__file__).parent / "vault.json").read_text())
    SHAPED = [V[each] for each in ("pem", "jwt", "aws_id", "aws_secret", "github", "url")]
    SHAPED.append(os.environ["DEPLOY_TOKEN"])

    class Client:
        def __init__(self):
            self.api_key = V["api_key"]
            self.name = "shop"

    def charge(password, client, headers, *things, amount=3):
        return amount
"""


class Confidant:
    """Calls tools and keeps every byte that it is told."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.reported: list[str] = []

    def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """The reply, error objects included."""
        try:
            reply = self.bench.agent.call(tool, max_chars=200_000, **arguments)
        except ToolError as error:
            reply = error.body
        self.reported.append(f"{tool}: {json.dumps(reply, ensure_ascii=False)}")
        return reply

    def run(self, text: str, **options: Any) -> dict[str, Any]:
        """The reply of `test_run` on a project with that test."""
        source = ASSIGNED + text
        self.bench.write(test_it=source, **{"vault.json": json.dumps(VAULT)})
        return self.call("test_run", nodeids=["test_it.py"], **options)

    def everything(self) -> str:
        """Ask every tool that only reads, and join all that was ever told."""
        for tool in ("debug_state", "breakpoint_list_paused", "test_results", "timeline_get"):
            self.call(tool, **({"limit": 10_000} if tool == "timeline_get" else {}))
        self.call("breakpoint_wait", timeout_ms=1)
        self.call("breakpoint_wait", timeout_ms=1, after=0)
        return "\n".join(self.reported)

    def keeps_them(self) -> str:
        """Assert that no secret was told; what was told."""
        reported = self.everything()
        leaks = [
            (name, reported[max(0, at - 120) : at + 60])
            for name, piece in PIECES.items()
            for at in [found.start() for found in re.finditer(re.escape(piece), reported)][:2]
        ]
        assert leaks == []
        return reported


@pytest.fixture(scope="module")
def secret_bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A front end with a secret in its environment, which its runs inherit."""
    root = tmp_path_factory.mktemp("secrets") / "project"
    root.mkdir()
    (root / "pytest.ini").touch()
    environment = {"PYTHONDONTWRITEBYTECODE": "1", "DEPLOY_TOKEN": VAULT["env"]}
    with connected(server(root, env=environment)) as agent:
        yield Bench(agent, root)


@pytest.fixture
def confidant(secret_bench: Bench) -> Iterator[Confidant]:
    yield Confidant(secret_bench)
    secret_bench.clear()


HOLDING = """
    def test_holds():
        password = V["password"]
        secret_key = "l1teral-in-source-88"
        client = Client()
        headers = {"authorization": V["header"], "accept": "text/html"}
        pem, jwt, key_id, signing, forge, address, env = SHAPED
        together = {"plain": [pem, jwt, key_id], "more": (signing, forge, address, env)}
        assert headers["accept"] == "none"
"""


@pytest.mark.full
def test_no_local_attribute_or_item_of_a_failed_test_reveals_a_secret(confidant: Confidant) -> None:
    """The autopsy of a failure, its report and the locals of its pause."""
    stop = only_stop(confidant.run(HOLDING))
    assert locals_of(stop)["password"].startswith("<redacted:password#")
    reported = confidant.keeps_them()
    assert "text/html" in reported


@pytest.mark.full
def test_what_is_evaluated_at_a_pause_reveals_no_secret(confidant: Confidant) -> None:
    """The REPL's output, stdout and errors; `password` alone has no name in the output."""
    stop = only_stop(confidant.run(HOLDING))
    for expression in (
        "password",
        "print(password, client.api_key, headers)",
        "client.api_key",
        "vars(client)",
        "headers['authorization']",
        "list(headers.values())",
        "together",
        "SHAPED",
        "pem",
        "locals()",
        "open('vault.json').read()",
        "dict(V)",
        "raise ValueError(password + ' ' + jwt + ' ' + address)",
        "int(client.api_key)",
        "__import__('os').environ['DEPLOY_TOKEN']",
    ):
        confidant.call("breakpoint_repl_eval", pause_id=stop["pause_id"], expression=expression)
    confidant.keeps_them()


RAISING = """
    @pytest.mark.parametrize("number", range(len(SHAPED)), ids=str)
    def test_raises(number):
        raise RuntimeError(f"could not use {SHAPED[number]} here")

    def test_compares():
        password, client = V["password"], Client()
        assert password == "anything"

    def test_compares_an_attribute():
        client = Client()
        assert client.api_key == "anything"

    def test_compares_an_item():
        headers = {"authorization": V["header"]}
        assert headers == {"authorization": None}

    @pytest.fixture
    def broken():
        token = V["password"]
        raise OSError("no way with " + token)

    def test_setup(broken): pass

    def inner(password):
        raise LookupError(password)

    def test_in_a_callee():
        try:
            inner(V["password"])
        except LookupError as error:
            raise KeyError("outer") from error

    def test_skips():
        pytest.skip("because of " + V["github"])
"""


@pytest.mark.full
def test_no_exception_message_or_report_reveals_a_secret(confidant: Confidant) -> None:
    """Messages, assertion details, notes of compared values, chained exceptions, skip reasons."""
    reply = confidant.run(RAISING, pause_on="never")
    assert reply["outcomes"]["failed"] >= 11
    confidant.keeps_them()


PRINTING = """
    def test_prints():
        password, client = V["password"], Client()
        headers = {"authorization": V["header"]}
        for each in (*SHAPED, password, client.api_key, headers, vars(client)):
            print("out", each)
            print("err", each, file=sys.stderr)
            logging.getLogger("shop").error("log %s", each)
        os.write(2, V["jwt"].encode())
        assert not headers
"""


@pytest.mark.full
@pytest.mark.parametrize("pause_on", ["failure", "never"])
def test_captured_output_reveals_no_secret(confidant: Confidant, pause_on: str) -> None:
    """stdout, stderr and log, in the autopsy and in the results."""
    confidant.run(PRINTING, pause_on=pause_on)
    reported = confidant.keeps_them()
    assert "log <redacted:jwt#" in reported


CALLING = """
    @pytest.mark.parametrize("thing", SHAPED, ids=[*"abcdefg"])
    @pytest.mark.parametrize("api_key", [V["api_key"]], ids=["k"])
    def test_charges(thing, api_key):
        charge(V["password"], Client(), {"authorization": V["header"]}, *SHAPED)
        assert thing is api_key
"""


@pytest.mark.full
def test_arguments_and_parameters_reveal_no_secret(confidant: Confidant) -> None:
    """A pause before a call, its caller, wrong arguments, a failing parametrized test."""
    confidant.call("breakpoint_add", function_name="charge")
    stop = only_stop(confidant.run(CALLING, args=["-x"]))
    data = stop["call_data"]
    assert data["pretty_args"][0].startswith("<redacted:password#")
    evaluate = {"pause_id": stop["pause_id"]}
    for expression, frame in (("password", 0), ("things", 0), ("api_key, thing", 1)):
        confidant.call("breakpoint_repl_eval", expression=expression, frame_index=frame, **evaluate)
    for change in (
        {"modified_kwargs": {"nobody": {"$eval": "password"}}},
        {"modified_args": [{"$eval": "int(password)"}]},
        {"action": "skip", "fake_result": {"$eval": "{}[things]"}},
        {"action": "raise", "exception_type": {"$eval": "password"}},
        {"action": "raise", "exception_type": "UnicodeDecodeError"},
    ):
        confidant.call("breakpoint_continue", **evaluate, **change)
    confidant.call("breakpoint_continue", **evaluate, wait=True)
    confidant.keeps_them()


@pytest.mark.full
def test_one_value_has_one_tag_wherever_it_appears(confidant: Confidant) -> None:
    """The same value gets the same tag, a different one another."""
    stop = only_stop(confidant.run(HOLDING))
    tag = locals_of(stop)["password"]
    shown = [
        confidant.call("breakpoint_repl_eval", pause_id=stop["pause_id"], expression=each)["output"]
        for each in ("password", "[password]", "{'pwd': password}", "f'password: {password}'")
    ]
    assert all(tag in each for each in shown), (tag, shown)
    other = confidant.call(
        "breakpoint_repl_eval", pause_id=stop["pause_id"], expression="client.api_key, jwt"
    )["output"]
    assert tag not in other
    (jwt_tag,) = re.findall("<redacted:[^>]*>", locals_of(stop)["jwt"])
    assert jwt_tag in other


COLLECTING = """
    token = V["password"]
    assert not token, f"{SHAPED} {token}"
"""


@pytest.mark.full
def test_a_collection_error_reveals_no_secret(confidant: Confidant) -> None:
    """`errors` of `test_run` and `test_list`; what a module holds when its import fails."""
    confidant.run(COLLECTING)
    confidant.call("test_list")
    confidant.keeps_them()


ENDINGS = {
    "startup": "raise RuntimeError(f'{SHAPED} password={V[\"password\"]}')",
    "usage": "def pytest_configure(config): raise pytest.UsageError(f'{SHAPED}')",
    "internal": "def pytest_collection_modifyitems(): raise ValueError(f'{SHAPED}')",
    "exit": "def pytest_runtest_setup(item): pytest.exit(f'{SHAPED}')",
}


@pytest.mark.full
@pytest.mark.parametrize(
    "ending",
    ["startup", "internal", "usage", "exit"],
)
def test_the_end_of_a_run_reveals_no_secret(confidant: Confidant, ending: str) -> None:
    """`end.message`: the process's own words, or what was found on its stderr."""
    source = textwrap.dedent(ASSIGNED) + ENDINGS[ending]
    confidant.bench.write(**{"conftest": source, "vault.json": json.dumps(VAULT)})
    reply = confidant.run("    def test_ok(): pass\n")
    assert reply["end"]["kind"] != "finished" or ending == "exit"
    assert "<redacted:" in reply["end"]["message"]
    confidant.keeps_them()


@pytest.mark.full
def test_the_stacks_of_a_crash_reveal_no_secret(confidant: Confidant) -> None:
    """`end.stacks`: faulthandler's text and what else came on stderr behind it."""
    crash = """
    import faulthandler
    def test_crash(capfd):
        with capfd.disabled():
            os.write(2, b"Fatal Python error: none\\n" + "\\n".join(SHAPED).encode())
            os._exit(3)
    """
    end = confidant.run(crash, args=["-s"])["end"]
    assert end["kind"] == "crashed"
    assert "<redacted:" in end["stacks"]
    confidant.keeps_them()
