"""Secrets that come late, or stand in ids of tests: hidden live and in records, and found again.

Settings that conftests, fixtures and tests load into the environment; parameters that are secrets;
what an ini file takes out; and what is harmless under the name of a secret.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_cideldill.redaction.tags import HOW_TO_SHOW
from tests.together.driver import connected, locals_of, only_stop, server
from tests.together.records import recorded
from tests.together.workbench import Bench

full = pytest.mark.full

TAG = re.compile(r"<redacted:[^<>#]+#[0-9a-f]+>")

PARTS = {
    "conftest": "zq81Lm07xQ44",
    "fixture": "ab77Rt09ppQ1",
    "test": "mn02Vb55kkZ8",
    "dict": "wd31Hs76yyP0",
}

CONFTEST = """
    import os
    import pytest

    def turned(text):
        return text[::-1]

    os.environ["PAYMENTS_API_KEY"] = turned("44Qx70mL18qz")

    @pytest.fixture
    def billing():
        os.environ.update(BILLING_PASSWORD=turned("1Qpp90tR77ba"))
        yield
        del os.environ["BILLING_PASSWORD"]
"""

LATE = """
    import os
    import pytest
    from conftest import turned

    def test_of_conftest(cideldill):
        said = "x " + os.environ["PAYMENTS_API_KEY"]
        print(said)
        cideldill.log(said)
        assert said == "no"

    def test_of_fixture(billing, cideldill):
        said = "y " + os.environ["BILLING_PASSWORD"]
        cideldill.log(said)
        assert said == "no"

    def test_of_test(monkeypatch, cideldill):
        monkeypatch.setenv("SHOP_TOKEN", turned("8Zkk55bV20nm"))
        said = "z " + os.environ["SHOP_TOKEN"]
        cideldill.log(said)
        assert said == "no"

    def test_of_another_environment(monkeypatch):
        monkeypatch.setattr(os, "environ", {"SHOP_SECRET": turned("0Pyy67sH13dw")})
        said = "w " + os.environ["SHOP_SECRET"]
        assert said == "no"
"""


def left_in(text: str) -> list[str]:
    """The secrets of which something is left."""
    return [name for name, value in PARTS.items() if value[:8] in text or value[-8:] in text]


@pytest.mark.full
@pytest.mark.parametrize("workers", [(), pytest.param(("-n2",), marks=full)], ids=["alone", "n2"])
def test_variables_that_come_late_are_hidden_in_a_record(
    tmp_path: Path, workers: tuple[str, ...]
) -> None:
    """Of a conftest, a fixture, a test, and of an environment that a test puts in its place."""
    Bench.write(Bench(None, tmp_path), conftest=CONFTEST, test_it=LATE)  # type: ignore[arg-type]
    run = recorded(tmp_path, *workers)
    assert run.exit_code == 1, run.out + run.err
    files = [each for each in run.record.rglob("*") if each.is_file()]
    assert [left_in(each.read_text("utf-8", "replace")) for each in files] == [[]] * len(files)
    events = (run.run / "events.jsonl").read_text()
    for name in ("PAYMENTS_API_KEY", "BILLING_PASSWORD", "SHOP_TOKEN"):
        assert f"<redacted:env:{name}#" in events


@pytest.mark.full
def test_and_live(bench: Bench) -> None:
    """In stops, evaluations and the console."""
    bench.write(conftest=CONFTEST)
    reply = bench.test(LATE)
    reported = []
    while reply.get("stops"):
        stop = only_stop(reply)
        reported.append(str(stop) + bench.eval(stop, "[said]") + bench.eval(stop, "print(said)"))
        assert TAG.search(locals_of(stop)["said"])
        reply = bench.go_on(stop)
    assert len(reported) == 4
    assert left_in("".join(reported)) == []


IDS = """
    import pytest

    ONE, TWO = "zq81Lm07xQ44", "ab77Rt09ppQ1"

    @pytest.mark.parametrize("password", [ONE, TWO])
    def test_it(password):
        assert password == "no"

    @pytest.mark.parametrize("url", ["amqp://kim:mn02Vb55kkZ8@queue.invalid/x"])
    def test_url(url):
        assert not url
"""


@pytest.mark.full
@pytest.mark.parametrize("workers", [(), pytest.param(("-n2",), marks=full)], ids=["alone", "n2"])
def test_an_id_that_pytest_printed_finds_its_test_in_a_record(
    tmp_path: Path, workers: tuple[str, ...]
) -> None:
    """Where its secrets have tags, as on the page and in the summary."""
    Bench.write(Bench(None, tmp_path), test_it=IDS)  # type: ignore[arg-type]
    run = recorded(tmp_path, "-rf", "--cideldill-summary=sum.md", *workers)
    for file in (run.run / "events.jsonl", run.record / "report.html", tmp_path / "sum.md"):
        assert left_in(file.read_text()) == []
    printed = re.findall(r"FAILED (\S+)", run.out)
    assert len(printed) == 3
    assert left_in(str(printed)) == ["conftest", "fixture", "test"]
    for nodeid in printed:
        shown = subprocess.run(
            [sys.executable, "-m", "pytest_cideldill", "show", str(run.record), "--test", nodeid],
            capture_output=True,
            encoding="utf-8",
            timeout=30,
            check=False,
        )
        assert shown.returncode == 0, shown.stderr
        assert left_in(shown.stdout) == []
        assert shown.stdout.count("call: failed") == (
            2 if "password" not in nodeid and "test_it[" in nodeid else 1
        )


@pytest.mark.full
def test_an_id_is_shown_with_tags_and_runs_again(bench: Bench) -> None:
    """The told one, that of pytest, and one of a record, whose tags are others."""
    bench.write(test_it=IDS)
    reply = bench.run(["test_it.py"], pause_on="never")
    tests = bench.agent.call("test_results")["tests"]
    reported = [each["nodeid"] for each in tests]
    assert all(map(TAG.search, reported))
    assert left_in(str(reply) + str(tests) + str(bench.agent.call("test_list"))) == []
    password = next(each for each in reported if "test_it[" in each)
    url = next(each for each in reported if "test_url[" in each)
    for asked in (password, url, TAG.sub("<redacted:url#0815>", url)):
        assert bench.run([asked], pause_on="never")["outcomes"] == {"passed": 0, "failed": 1}
        (again,) = bench.agent.call("test_results")["tests"]
        assert again["nodeid"] == (password if asked == password else url)
    printed = "test_it.py::test_it[zq81Lm07xQ44]"
    assert bench.run([printed], pause_on="never")["outcomes"] == {"passed": 0, "failed": 1}
    context = bench.agent.call("exception_get_context", nodeid=printed)
    assert context["nodeid"] in reported


HARMLESS = """
    import enum

    class Kind(enum.Enum):
        NAME, SIGN = 1, 2

    class Token:
        def __init__(self, kind, text, position):
            self.kind, self.text, self.position = kind, text, position

    def test_lexer():
        token, next_page_token, session_key = Token(Kind.SIGN, "+", 0), "cursor", 3
        password_error, errors = "too short", {"password": ["This field is required."]}
        csrf_token = "zq81" + "Lm07xQ44"
        kind = "NAME"
        token = token
        assert token.text == "-"
"""


@pytest.mark.full
def test_what_is_harmless_under_the_name_of_a_secret_is_shown(bench: Bench) -> None:
    """A lexer's tokens, words and numbers; and the first reply with a tag says what it is."""
    reply = bench.test(HARMLESS)
    stop = only_stop(reply)
    shown = dict(locals_of(stop))
    assert TAG.fullmatch(shown.pop("csrf_token"))
    assert shown == {
        "token": "Token(kind=<Kind.SIGN: 2>, text='+', position=0)",
        "next_page_token": "'cursor'",
        "session_key": "3",
        "password_error": "'too short'",
        "errors": "{'password': ['This field is required.']}",
        "kind": "'NAME'",
    }
    assert "Token object" in bench.eval(stop, "[token]")
    assert bench.eval(stop, "token.text, session_key") == "('+', 3)"


@full
def test_an_ini_option_takes_a_name_out(tmp_path: Path) -> None:
    """`cideldill_show_names`, which the first reply with a tag tells of, once."""
    (tmp_path / "pytest.ini").write_text("[pytest]\ncideldill_show_names = csrfToken\n")
    with connected(server(tmp_path)) as agent:
        bench = Bench(agent, tmp_path)
        stop = bench.stop_of(HARMLESS.replace('kind = "NAME"', 'password = "ab77" + "Rt09ppQ1"'))
        assert locals_of(stop)["csrf_token"] == "'zq81Lm07xQ44'"
        assert TAG.fullmatch(locals_of(stop)["password"])
        replies = [bench.agent.call("debug_state"), bench.agent.call("breakpoint_list_paused")]
        assert "redacted" not in str([list(each) for each in replies])
        bench.go_on(stop)
        source = bench.agent.source("test_it.py")
    assert 'csrf_token = "zq81"' in source


@pytest.mark.full
def test_the_first_reply_with_a_tag_says_how_to_show_values(tmp_path: Path) -> None:
    """And no other one."""
    with connected(server(tmp_path)) as agent:
        bench = Bench(agent, tmp_path)
        replies = [bench.test(HARMLESS), bench.agent.call("breakpoint_list_paused")]
    assert [each.get("redacted") for each in replies] == [HOW_TO_SHOW, None]


CALLS = """
    def get_token():
        return "zq81" + "Lm07xQ44"

    def check_password(text):
        return "too " + text

    def test_calls():
        assert get_token() and check_password("short")
        assert 0
"""


@full
def test_what_a_function_gives_back_that_is_called_like_a_secret_is_hidden(tmp_path: Path) -> None:
    """In a recorded call, a trace of the function, and the stop behind its call."""
    Bench.write(Bench(None, tmp_path), test_it=CALLS)  # type: ignore[arg-type]
    trace = "--cideldill-trace=test_it:get_token@return => {result}"
    run = recorded(tmp_path, "--cideldill-record-calls=test_it.*", trace)
    results = {each["qualified_name"]: each.get("pretty_result") for each in run.of("call")}
    assert TAG.fullmatch(results["test_it.get_token"] or "")
    assert results["test_it.check_password"] == "'too short'"
    assert [TAG.fullmatch(each["message"]) is not None for each in run.of("hit")] == [True]
    assert left_in((run.run / "events.jsonl").read_text()) == []


SOURCE = """
    import os

    PASSWORD: str = "zq81Lm07xQ44"
    LIMIT: int = 5

    def connect(host="db", password: str = "zq81Lm07xQ44"):
        api_key = os.environ.get("X") or "zq81Lm07xQ44"
        # password: zq81Lm07xQ44
        token = "NAME"
        return host

    def test_it():
        user, password = "kim", "zq81Lm07xQ44"
        assert connect(
            password="zq81Lm07xQ44",
        ) == user
"""


@pytest.mark.full
def test_source_is_read_by_its_tree(bench: Bench) -> None:
    """As a resource, and as the line of a frame."""
    stop = bench.stop_of(SOURCE)
    source = bench.agent.source("test_it.py")
    assert source.count("\n") == bench.root.joinpath("test_it.py").read_text().count("\n")
    assert len(TAG.findall(source)) == 6
    assert "LIMIT: int = 5" in source
    assert 'token = "NAME"' in source
    assert '"kim"' in source
    assert left_in(source + str(stop)) == []
