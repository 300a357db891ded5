"""Planted secrets of many kinds: no file of a record holds one of their bytes."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from pytest_cideldill.reports.words import NOT_HIDING
from tests.together.opened import opened
from tests.together.records import Recorded, recorded
from tests.together.test_secrets import ASSIGNED, HOLDING, PIECES, PRINTING, RAISING, VAULT

ARGUMENT = "tok-from-argv-4711"
ARGUMENTS = (f"--token={ARGUMENT}", "--password", "pw-from-argv-0815")
PLANTED = {**PIECES, "argv": ARGUMENT, "argv, second": "pw-from-argv-0815"}

CONFTEST = """
def pytest_addoption(parser):
    parser.addoption("--token")
    parser.addoption("--password")
"""

CALLING = """
    def paid(password, client, headers, *things):
        pem, jwt, key_id, signing, forge, address, env = things
        secrets = [pem, jwt, forge]
        return {"api_key": client.api_key, "things": things, "password": password}

    @pytest.mark.parametrize("env", [os.environ["DEPLOY_TOKEN"]])
    def test_named_like_a_secret(env, record_property):
        record_property("token", env)
        paid(V["password"], Client(), {"authorization": V["header"]}, *SHAPED)
        assert not env, "it is " + env

    def test_pays(cideldill):
        client = Client()
        cideldill.log("paid with " + V["jwt"], password=V["password"], things=SHAPED)
        with pytest.raises(RuntimeError):
            fails(V["github"], client)
        paid(V["password"], client, {"authorization": V["header"]}, *SHAPED)

    def fails(key, client):
        raise RuntimeError("no way with " + key + " and " + V["url"])
"""

SOURCE = ASSIGNED + CALLING + HOLDING + RAISING + PRINTING


def traces() -> list[str]:
    """Tracepoints whose messages and conditions tell secrets."""
    lines = textwrap.dedent(SOURCE).splitlines()
    inside = next(n for n, line in enumerate(lines, 1) if "secrets = [pem" in line)
    failing = next(n for n, line in enumerate(lines, 1) if 'no way with " + key' in line)
    names = "{password} {client} {headers} {things} {pem!r} {jwt!s} {address} {env}"
    items = "{client.api_key} {vars(client)} {headers['authorization']}"
    return [
        f"--cideldill-trace=test_it.py:{inside}={names} {items}",
        f"--cideldill-trace=test_it.py:{inside} if int(password) => never",
        f"--cideldill-trace=test_it.py:{failing}=key {{key}} of {{client}}",
    ]


def run_with(tmp_path: Path, *options: str) -> Recorded:
    """Everything that can tell a secret, recorded."""
    source = textwrap.dedent(SOURCE)
    files = {"test_it.py": source, "conftest.py": CONFTEST, "vault.json": json.dumps(VAULT)}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    run = recorded(
        tmp_path,
        *ARGUMENTS,
        *traces(),
        "--cideldill-record-calls=test_it.*",
        *options,
        environment={"DEPLOY_TOKEN": VAULT["env"]},
    )
    assert run.exit_code == 1, run.out + run.err
    assert len(run.of("call")) >= 3
    assert len(run.of("hit")) >= 3
    assert len([each for each in run.of("test_phase") if "autopsy" in each]) >= 12
    return run


def spellings(secret: str) -> list[bytes]:
    """How a secret may stand in a file: in JSON, in a pickle, encoded."""
    plain = secret.encode()
    coded = base64.b64encode(plain)[: -4 if len(plain) > 8 else None]
    return [plain, json.dumps(secret).strip('"').encode(), secret.encode("utf-16-le"), coded]


def leaks(record: Path, planted: dict[str, str] = PLANTED) -> list[tuple[str, str, bytes]]:
    """Secret, file and surroundings of everything that was found."""
    found = []
    for path in sorted(each for each in record.rglob("*") if each.is_file()):
        data = path.read_bytes()
        for name, secret in planted.items():
            for spelling in spellings(secret):
                for match in re.finditer(re.escape(spelling), data):
                    around = data[max(0, match.start() - 150) : match.end() + 50]
                    found.append((name, path.name, around))
    return found


@pytest.mark.full
@pytest.mark.sample("alone")
@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "n2"])
def test_no_byte_of_a_secret_is_in_a_record(tmp_path: Path, workers: tuple[str, ...]) -> None:
    """Environment, arguments, locals, messages, exceptions, output, reports, objects, names."""
    run = run_with(tmp_path, *workers)
    assert leaks(run.record) == []
    assert any(path.suffix == ".sqlite" for path in run.run.iterdir())
    (hit, *_) = (each for each in run.of("hit") if each["breakpoint_id"] == "tp-1")
    assert len(re.findall("<redacted:[^>]+>", hit["message"])) >= 8
    argv = next(each for each in run.of("worker_up") if each["worker"] == "main")["argv"]
    assert [each for each in argv if "<redacted:" in each]
    (named,) = {each["nodeid"] for each in run.of("test_started") if "named_like" in each["nodeid"]}
    assert re.fullmatch(r"test_it\.py::test_named_like_a_secret\[<redacted:env:.*>\]", named)
    for type in ("test_outcome", "call", "test_phase"):
        assert named in {each["nodeid"] for each in run.of(type)}


@pytest.mark.full
def test_they_are_shown_where_that_was_asked_for(tmp_path: Path) -> None:
    """`--cideldill-no-redact`; the search finds them, so that it would find a leak."""
    run = run_with(tmp_path, "--cideldill-no-redact")
    assert {name for name, _, _ in leaks(run.record)} >= {*PLANTED} - {"literal"}
    assert b"<redacted" not in (run.run / "events.jsonl").read_bytes()


@pytest.mark.full
@pytest.mark.parametrize("flags", [(), ("--cideldill-no-redact",)], ids=["hidden", "not hidden"])
def test_a_record_says_whether_secrets_are_hidden(tmp_path: Path, flags: tuple[str, ...]) -> None:
    """Page, summary, terminal, and the server that opens it."""
    run = run_with(tmp_path, *flags, "--cideldill-summary=sum.md")
    shown = subprocess.run(
        [sys.executable, "-m", "pytest_cideldill", "show", str(run.record)],
        capture_output=True,
        encoding="utf-8",
        timeout=30,
        check=True,
    ).stdout
    page = (run.record / "report.html").read_text()
    with opened(tmp_path, run.record) as bench:
        while (state := bench.agent.call("debug_state"))["state"] == "starting":
            pass
    texts = (shown, page, (tmp_path / "sum.md").read_text(), str(state.get("warnings")))
    assert [NOT_HIDING in each for each in texts] == [bool(flags)] * 4
    assert ("secrets are replaced by tags" in page) is not bool(flags)


DECLARED = {
    "pytest.ini": """
[pytest]
cideldill_redact_names = tax_number
cideldill_redact_patterns = CUST-\\w+
""",
    "conftest.py": """
def pytest_cideldill_redact():
    return {"names": ["badge"], "patterns": ["Sword.ish"]}
""",
    "test_it.py": """
import pytest

@pytest.mark.parametrize("said", ["CUST-12x456 has Swordfish"])
def test_it(cideldill, said):
    taxNumber, my_badge = "a-01x-tax", "b-02x-badge"
    cideldill.log("it is " + said, badge=my_badge)
    assert not said, f"tax_number={taxNumber}"
""",
}
DECLARED_SECRETS = ["12x456", "Swordfish", "01x-tax", "02x-badge"]


@pytest.mark.full
@pytest.mark.sample("n2")
@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "n2"])
def test_what_users_declare_a_secret_is_none_of_a_record(
    tmp_path: Path, workers: tuple[str, ...]
) -> None:
    """Ini options and hook count without a server as with one."""
    for name, text in DECLARED.items():
        (tmp_path / name).write_text(text)
    trace = "--cideldill-trace=test_it.py:7={said} {taxNumber} {my_badge}"
    run = recorded(tmp_path, trace, "--cideldill-record-calls=test_it.*", *workers)
    assert run.exit_code == 1, run.out + run.err
    assert [each["message"].count("<redacted:") for each in run.of("hit")] == [4]
    assert leaks(run.record, {each: each for each in DECLARED_SECRETS}) == []
