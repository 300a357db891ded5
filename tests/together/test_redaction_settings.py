"""What users add to redaction, and how they limit what is captured: ini options, hook, flag.

The rules are in `docs/secrets.md` and `docs/limits.md`. The shared front end has never read the ini
files that are written here: the processes under test report to it what to hide in the last words of
a crash.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cideldill_mcp.processes.process import Target
from cideldill_mcp.runs.run import Run
from pytest_cideldill.protocol import RedactionChosen
from tests.server.processes import hello_of
from tests.together.driver import connected, exception_of, locals_of, only_stop, server
from tests.together.frontend import DEADLINE_S, clean_environment, module_command
from tests.together.workbench import Bench

full = pytest.mark.full

TAG = re.compile(r"<redacted:[^<>#]+#[0-9a-f]+>")


@pytest.fixture
def bench(bench: Bench) -> Iterator[Bench]:
    """The shared bench; its ini file is emptied afterwards."""
    yield bench
    bench.write(**{"pytest.ini": ""})


def reported(bench: Bench, *replies: dict[str, Any]) -> str:
    """Everything that was told of the newest run."""
    tools = ("debug_state", "test_results", "timeline_get")
    asked = [bench.agent.call(tool, max_chars=200_000) for tool in tools]
    return json.dumps([*replies, *asked], ensure_ascii=False)


FURTHER = {
    "pytest.ini": r"""
        [pytest]
        cideldill_redact_names = customer_id
            "tax number"
        cideldill_redact_patterns =
            CUST-\w{6}
            (?i)order of \w+
    """,
    "conftest.py": """
        import pathlib

        def pytest_cideldill_redact(config):
            lines = (config.rootpath / "vault.txt").read_text().split()
            return {"names": ["loyalty-card"], "patterns": iter(lines)}
    """,
    "vault.txt": "Swordf1sh-9 another-One",
    "sub/conftest.py": """
        def pytest_cideldill_redact():
            return {"names": ["BADGE"]}
    """,
    "sub/test_it.py": """
        import os
        import pytest

        one, two, three, four, five = (each[::-1] for each in "10-a 20-b 30-c 40-d 50-e".split())
        SAID = "CUST-12x456, Order Of Alice, Swordf1sh-9, loyaltyCard: 40-d, tax number: 70-g"

        class Client:
            def __init__(self):
                self.taxNumber = two

        def test_holds():
            oldCustomerId, client, LOYALTY_CARD = one, Client(), three
            plain = {"badge": four, "id": "visible"}
            said = SAID
            print(said)
            raise LookupError(f"customer_id={one}")

        def test_ends(capfd):
            while not os.path.exists("end.now"):
                pass
            with capfd.disabled():
                os.write(2, f"Fatal Python error: {SAID} badge={four} customer_id={one}".encode())
                os._exit(3)
    """,
}
SECRETS = ["a-01", "b-02", "c-03", "d-04", "10-a", "20-b", "30-c", "40-d", "70-g", "12x456"]
SECRETS += ["Alice", "Swordf1sh-9"]


@pytest.mark.full
def test_names_and_patterns_of_ini_file_and_hook_are_hidden_everywhere(bench: Bench) -> None:
    """Locals, attributes, items, output, reports; and on stderr, where the server finds them."""
    bench.write(**FURTHER)
    stop = only_stop(bench.run(["sub/test_it.py"]))
    assert all(TAG.fullmatch(locals_of(stop)[each]) for each in ("oldCustomerId", "LOYALTY_CARD"))
    assert "'visible'" in locals_of(stop)["plain"]
    bench.agent.call("breakpoint_continue", pause_id=stop["pause_id"])
    bench.write(**{"end.now": ""})
    assert "warnings" not in bench.until("crashed")
    ended = bench.agent.call("test_stop")
    *_, customer_id = last_words = TAG.findall(ended["end"]["stacks"])
    assert (len(last_words), customer_id) == (7, locals_of(stop)["oldCustomerId"])
    assert exception_of(stop)["message"] == f"customer_id={customer_id}"
    everything = reported(bench, {"stop": stop}, ended)
    assert re.findall("|".join(f".{{,60}}{each}.{{,9}}" for each in SECRETS), everything) == []


FAILING_HOOKS = {
    "conftest.py": """
        import pytest
        def pytest_cideldill_redact(): pytest.skip("no vault with password=zq81-attr-7751")
    """,
    "sub/conftest.py": """
        def pytest_cideldill_redact():
            return {"patterns": ["(Swordf1sh", "CUST-[0-9]+"], "names": ["a,b", 5, "badge"]}
    """,
    "sub/deep/conftest.py": "def pytest_cideldill_redact(): return ['badge']\n",
    "sub/deep/test_it.py": """
        def test_it():
            badge, said = "10-a", "CUST-123456"
            assert 0
    """,
}


@pytest.mark.full
def test_a_hook_that_fails_is_reported_and_ends_no_run(bench: Bench) -> None:
    """A guest's manners: each failure is a warning; what is good of an answer counts."""
    bench.write(**FAILING_HOOKS)
    reply = bench.run(["sub/deep/test_it.py"])
    shown = locals_of(only_stop(reply))
    assert all(TAG.fullmatch(shown[each].strip("'")) for each in ("badge", "said"))
    warnings = bench.agent.call("debug_state")["warnings"]
    assert [TAG.sub("TAG", each).partition("; ")[0] for each in warnings] == [
        "pytest_cideldill_redact of conftest.py: failed: Skipped: no vault with password=TAG",
        "pytest_cideldill_redact of sub/conftest.py: patterns[0] is no regular expression",
        "pytest_cideldill_redact of sub/conftest.py: names[0] is no name as customer_id",
        "pytest_cideldill_redact of sub/conftest.py: names[1] is no name as customer_id",
        "pytest_cideldill_redact of sub/deep/conftest.py: failed: "
        "TypeError: it must return a dict with the keys 'names' and 'patterns'",
    ]
    assert bench.go_on(only_stop(reply))["outcomes"] == {"passed": 0, "failed": 1}


OPEN = """
    import os

    def test_it(capfd):
        password, token = "hunter2-hunter2", "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
        with capfd.disabled():
            os.write(2, f"Fatal Python error: {password=} {token=}".encode())
        assert not password
"""

CRASHING = OPEN.replace("assert not password", "os._exit(3)")


@pytest.mark.full
@pytest.mark.parametrize("where", ["command line", pytest.param("ini file", marks=full)])
def test_redaction_can_be_switched_off(tmp_path: Path, where: str) -> None:
    """`--cideldill-no-redact`; in the processes and in the server."""
    is_ini = where == "ini file"
    text = "[pytest]\ncideldill_no_redact = true\n" if is_ini else ""
    flags = [] if is_ini else ["--cideldill-no-redact"]
    (tmp_path / "pytest.ini").write_text(text, encoding="utf-8")
    with connected(server(tmp_path, *flags)) as agent:
        bench = Bench(agent, tmp_path)
        bench.write(crash=CRASHING)
        stop = bench.stop_of(OPEN)
        assert locals_of(stop)["password"] == "'hunter2-hunter2'"
        assert bench.eval(stop, "[token]") == "['ghp_16C7e42F292c6912E7710c838347Ae178B4a']"
        bench.go_on(stop)
        reply = bench.run(["crash.py"], pause_on="never")
        assert "password='hunter2-hunter2'" in reply["end"]["stacks"]
        assert "redacted" not in reported(bench, reply)


@full
def test_redaction_is_switched_off_for_the_server_by_the_ini_file_of_the_tests(
    bench: Bench,
) -> None:
    """`cideldill-mcp --python` does not read it: the process tells."""
    bench.write(**{"pytest.ini": "[pytest]\ncideldill_no_redact = true\n"})
    reply = bench.test(CRASHING, pause_on="never")
    assert "password='hunter2-hunter2'" in reply["end"]["stacks"]


SHARED = """
    import os
    import pathlib
    import pytest

    @pytest.mark.parametrize("n", [1, 2])
    def test_both(n):
        pathlib.Path(f"here-{n}").touch()
        while not pathlib.Path(f"here-{3 - n}").exists():
            pass
        token = "-".join(["hunter2", "hunter2"])
        other_token = f"{token}-{n}"
        assert not token, f"{other_token=}"
"""


@full
def test_all_processes_of_a_run_give_a_secret_the_same_tag(bench: Bench) -> None:
    """Two workers, and xdist's controller, which a conftest ends."""
    bench.write(
        conftest="""
            import os
            import pytest

            failed = []

            def pytest_runtest_logreport(report):
                failed.extend([report] if report.failed else [])
                if "PYTEST_XDIST_WORKER" not in os.environ and len(failed) == 2:
                    pytest.exit("token=hunter2-hunter2")
        """
    )
    bench.test(SHARED, workers=2)
    first, second = bench.until_paused(2)
    tags = [locals_of(stop)["token"] for stop in (first, second)]
    others = [locals_of(stop)["other_token"] for stop in (first, second)]
    assert TAG.fullmatch(tags[0])
    assert len({*tags, *others}) == 3
    bench.agent.call("breakpoint_continue", pause_id=first["pause_id"])
    end = bench.go_on(second)["end"]
    assert (end["kind"], TAG.findall(end["message"])) == ("interrupted", [tags[0]])


LIMITED = """
    class Cart:
        def __init__(self):
            self.items, self.coupon = [1, 2, 3], "BULK10"

    def inner():
        password, cart, text, number = "hunter2-hunter2", Cart(), "x" * 40, 7 ** 17
        hidden = {"a": [number], "b": [[2]], "authorization": "Zk3-opaque-header-001"}
        late = {"authorization": "Zk3-opaque-header-002"}
        raise LookupError("Zk3-opaque-header-001 Zk3-opaque-header-002")

    def test_it(): inner()
"""


@pytest.mark.full
def test_limits_of_the_ini_file_hold_in_locals_and_weaken_no_redaction(bench: Bench) -> None:
    """What is not shown is looked at for secrets all the same."""
    names = ("items", "depth", "attributes", "string", "locals", "frames")
    chosen = zip(names, (2, 2, 1, 8, 5, 1), strict=True)
    lines = ["[pytest]", *(f"cideldill_max_{name} = {number}" for name, number in chosen)]
    bench.write(**{"pytest.ini": "\n".join(lines)})
    stop = bench.stop_of(LIMITED)
    shown = dict(locals_of(stop))
    assert TAG.fullmatch(shown.pop("password"))
    assert shown == {
        "cart": "Cart(items=[1, 2, … +1 items], … +1 attributes)",
        "text": "'xxxxxxxx…'+32 chars",
        "number": "232630513987207",
        "hidden": "{'a': [232630513987207], 'b': [[1 item]], … +1 items}",
    }
    (frame,) = stop["autopsy"]["frames"]
    assert (frame["function"], stop["autopsy"]["totalFrames"]) == ("inner", 2)
    assert len(set(TAG.findall(stop["autopsy"]["exception"]["message"]))) == 2
    assert "Zk3" not in reported(bench, {"stop": stop})


@pytest.mark.full
def test_a_malformed_ini_option_ends_a_run_at_its_start_by_name(bench: Bench) -> None:
    """A usage error, here of a file that was edited after the server began."""
    bench.write(**{"pytest.ini": "[pytest]\ncideldill_redact_patterns = (\n"})
    reply = bench.test("def test_it(): pass\n")
    assert (reply["exit_code"], reply["end"]["kind"]) == (4, "startup_error")
    assert "cideldill_redact_patterns: '(' is no regular expression" in reply["end"]["message"]


@full
@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("redact_patterns = (", "cideldill_redact_patterns: '(' is no regular expression: "),
        ("max_items = many", "cideldill_max_items: 'many' is not a whole number from 1 to 10000"),
    ],
)
def test_a_malformed_ini_option_is_a_usage_error_of_the_server(
    tmp_path: Path, line: str, sentence: str
) -> None:
    """One line and exit code 4, before a client waits for an answer."""
    (tmp_path / "pytest.ini").write_text(f"[pytest]\ncideldill_{line}\n", encoding="utf-8")
    done = subprocess.run(
        [*module_command(), "--cideldill-mcp"],
        cwd=tmp_path,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.removeprefix("ERROR: ").startswith(sentence)


def test_a_pattern_that_only_the_python_of_the_tests_knows_is_reported_by_number() -> None:
    """Its text may hold a secret."""
    run = Run("r1")
    target = Target(hello_of("r1", "main"), lambda command: None)
    assert run.apply(target, RedactionChosen(["iban"], ["ok", "(Swordf1sh"])) is None
    (warning,) = run.warnings
    assert warning.startswith("the server's Python can't use pattern 2 of 2: ")


@full
def test_the_server_knows_the_ini_file_before_a_process_connects(tmp_path: Path) -> None:
    """A plugin that ends pytest at its start tells secrets on stderr."""
    text = "[pytest]\ncideldill_redact_names = customer_id\n"
    (tmp_path / "pytest.ini").write_text(text, encoding="utf-8")
    (tmp_path / "early.py").write_text("raise OSError('customerId=a-0815')\n", encoding="utf-8")
    with connected(server(tmp_path)) as agent:
        end = agent.call("test_run", args=["-p", "early"])["end"]
    assert end["kind"] == "startup_error"
    assert "customerId=<redacted:name#" in end["message"]
    assert "0815" not in end["message"]


@pytest.mark.full
def test_a_name_that_a_hook_adds_late_is_hidden_in_messages(bench: Bench) -> None:
    """Also of a tracepoint that was bound, and told something, before the hook was known."""
    bench.write(
        **{
            "app.py": """
                def use(loyalty_card):
                    return loyalty_card
            """,
            "conftest.py": """
                import app
                app.use("nothing yet")
                def pytest_cideldill_redact(config): return {"names": ["loyalty card"]}
            """,
            "test_it.py": """
                import app
                def test_it(): assert app.use("zq81-card-7751")
            """,
        }
    )
    added = bench.agent.call("tracepoint_set", file="app.py", line=3, log_message="{loyalty_card}")
    assert bench.run()["exit_code"] == 0
    hits = bench.events("hit")
    mine = [hit for hit in hits if hit["breakpoint_id"] == added["tracepoint"]["id"]]
    assert len(mine) == 2
    assert TAG.fullmatch(mine[1]["message"])
