"""How runs end: each way is told from the others, with the last test and the stacks where known.

The kinds are those of `end` in the reply of `test_run`.
"""

from __future__ import annotations

import os
import select
from typing import Any

import pytest

from tests.together.workbench import Bench

full = pytest.mark.full


def ended(reply: dict[str, Any]) -> tuple[str, str, int]:
    return reply["state"], reply["end"]["kind"], reply["exit_code"]


@pytest.mark.full
def test_a_collection_error_is_reported_and_ends_a_run_that_pytest_would_end(bench: Bench) -> None:
    """pytest's own exit code 2; the text of the report is in `errors`."""
    bench.write(test_a="def broken(:\n", test_b="def test_b(): pass\n")
    reply = bench.run()
    assert ended(reply) == ("finished", "interrupted", 2)
    assert reply["outcomes"] == {"passed": 0, "failed": 0, "error": 1}
    (error,) = reply["errors"]
    assert error["nodeid"] == "test_a.py"
    assert "SyntaxError" in error["message"]
    assert reply["stops"] == []
    reply = bench.run(args=["--continue-on-collection-errors"])
    assert ended(reply) == ("finished", "finished", 1)
    assert reply["outcomes"] == {"passed": 1, "failed": 0, "error": 1}


@pytest.mark.full
def test_a_bad_option_is_a_startup_error_with_the_words_of_pytest(bench: Bench) -> None:
    """pytest's exit code 4."""
    reply = bench.test("def test_it(): pass", args=["--no-such-option"])
    assert ended(reply) == ("finished", "startup_error", 4)
    assert "unrecognized arguments: --no-such-option" in reply["end"]["message"]
    assert any("end.message" in step for step in reply["next"])


@pytest.mark.full
def test_a_broken_conftest_is_a_startup_error(bench: Bench) -> None:
    """pytest's exit code 4."""
    bench.write(conftest="raise LookupError('of the conftest')\n")
    reply = bench.test("def test_it(): pass")
    assert ended(reply) == ("finished", "startup_error", 4)
    assert "LookupError: of the conftest" in reply["end"]["message"]


@full
def test_a_conftest_that_exits_is_a_startup_error(bench: Bench) -> None:
    """A process that left before pytest could say how it ended did not start."""
    bench.write(conftest="import sys; sys.exit('cannot work here')\n")
    reply = bench.test("def test_it(): pass")
    assert reply["end"]["kind"] == "startup_error"
    assert "cannot work here" in reply["end"]["message"]


@pytest.mark.full
def test_a_run_without_tests_says_what_was_looked_for(bench: Bench) -> None:
    """pytest's exit code 5."""
    reply = bench.test("def not_a_test(): pass")
    assert ended(reply) == ("finished", "no_tests", 5)
    assert reply["outcomes"] == {"passed": 0, "failed": 0}
    message = reply["end"]["message"]
    assert message.startswith(f"no tests: 0 found in {bench.root}/test_it.py (python_files test_")
    assert f"rootdir {bench.root}" in message
    assert "python_functions test;" in message
    assert reply["next"][0].startswith("look at end.message")
    assert bench.agent.call("debug_state")["end"] == reply["end"]
    assert bench.agent.call("breakpoint_wait", timeout_ms=1)["end"] == reply["end"]


@pytest.mark.full
def test_files_with_tests_whose_names_do_not_match_are_named(bench: Bench) -> None:
    """When nothing was found; by a quick look at the text, so nothing is imported."""
    bench.write(
        **{
            "checks/check_cart.py": "raise SystemExit('imported')\ndef test_total(): pass\n",
            "checks/later.py": "class TestCart:\n    x = 1\n\n    def test_it(self): 0\n",
            "shop/testing.py": "class TestClient:\n    def get(self): pass\n\ndef testament(): 1\n",
            "venv/pyvenv.cfg": "",
            "venv/lib/other.py": "def test_of_a_library(): pass\n",
            "build/copy.py": "def test_total(): pass\n",
            "conftest.py": "def test_nothing(): pass\n",
        }
    )
    message = bench.run()["end"]["message"]
    assert message.startswith(f"no tests: 0 found in {bench.root} (python_files test_")
    assert message.endswith(
        "; these hold tests, and their names do not match python_files: checks/check_cart.py, "
        "checks/later.py"
    )
    bench.write(**{f"checks/more_{n}.py": "async def test_it(): pass\n" for n in range(6)})
    message = bench.run()["end"]["message"]
    assert message.endswith("checks/more_0.py, checks/more_1.py, checks/more_2.py and 3 more")


@pytest.mark.full
@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_without_tests_says_who_left_them_out(bench: Bench, workers: int) -> None:
    """Options, and plugins, whose tests are counted; what no file has stands in `missing`."""
    text = "def test_a(): pass\ndef test_b(): pass\n"
    more = {"workers": workers} if workers else {}
    end = bench.test(text, keyword="nothing", markers="slow", **more)["end"]
    assert end["kind"] == "no_tests"
    assert "2 deselected by -k 'nothing', -m 'slow'" in end["message"]
    assert "python_files" not in end["message"]
    end = bench.run(["nowhere.py"], **more)["end"]
    assert end["message"].startswith("no tests: 0 found as none of the names exists (")
    bench.write(
        conftest="""
        def pytest_collection_modifyitems(config, items):
            config.hook.pytest_deselected(items=list(items))
            del items[:]
    """
    )
    end = bench.run(["test_it.py"], **more)["end"]
    assert "2 found in" in end["message"]
    assert "2 deselected by a plugin or a conftest" in end["message"]


@pytest.mark.full
def test_a_plugin_that_says_there_were_no_tests_is_shown_as_one(bench: Bench) -> None:
    """Exit code 5 after tests that passed."""
    bench.write(conftest="def pytest_sessionfinish(session): session.exitstatus = 5\n")
    reply = bench.test("def test_a(): pass\n")
    assert ended(reply) == ("finished", "finished", 5)
    assert (
        "something else set the exit status to 5: a plugin or a conftest" in reply["end"]["message"]
    )


@pytest.mark.full
def test_pytest_exit_ends_the_run_with_its_own_code(bench: Bench) -> None:
    """Codes above 5 are no crash."""
    reply = bench.test(
        """
        import pytest
        def test_a(): pass
        def test_b(): pytest.exit("enough", returncode=42)
        def test_c(): pass
        """
    )
    assert ended(reply) == ("finished", "finished", 42)
    assert "enough" in reply["end"]["message"]
    assert reply["outcomes"] == {"passed": 1, "failed": 0}


@pytest.mark.full
def test_a_keyboard_interrupt_in_a_test_interrupts_the_run(bench: Bench) -> None:
    """pytest's exit code 2; that test has no report."""
    reply = bench.test("def test_a(): pass\ndef test_b(): raise KeyboardInterrupt\n")
    assert ended(reply) == ("finished", "interrupted", 2)
    assert reply["end"]["lastTest"] == "test_it.py::test_b"
    assert reply["outcomes"] == {"passed": 1, "failed": 0}


@pytest.mark.full
def test_an_error_in_a_hook_is_an_internal_error_with_its_text(bench: Bench) -> None:
    """pytest's exit code 3."""
    bench.write(conftest="def pytest_runtest_logreport(report): {}['of the hook']\n")
    reply = bench.test("def test_it(): pass")
    assert ended(reply) == ("finished", "internal_error", 3)
    assert "KeyError: 'of the hook'" in reply["end"]["message"]


@full
def test_sys_exit_in_a_test_is_a_failed_test(bench: Bench) -> None:
    """As in a plain run."""
    reply = bench.test("import sys\ndef test_it(): sys.exit(0)\n", pause_on="never")
    assert ended(reply) == ("finished", "finished", 1)
    assert reply["failures"][0]["exception"]["type"] == "SystemExit"


@pytest.mark.full
@pytest.mark.parametrize("phase", ["setup", pytest.param("teardown", marks=full)])
def test_a_crash_outside_the_call_reports_the_phase(bench: Bench, phase: str) -> None:
    """The position is written before each phase, so the first instruction counts as well."""
    reply = bench.test(
        f"""
        import os
        def setup_function(): os._exit(1) if "{phase}" == "setup" else None
        def teardown_function(): os._exit(1)
        def test_it(): pass
        """
    )
    assert reply["end"]["kind"] == "crashed"
    assert (reply["end"]["lastTest"], reply["end"]["lastPhase"]) == ("test_it.py::test_it", phase)


@full
def test_a_crash_at_import_has_no_last_test(bench: Bench) -> None:
    """Nothing is made up."""
    reply = bench.test("import os; os._exit(7)")
    assert ended(reply) == ("crashed", "crashed", 7)
    assert "lastTest" not in reply["end"]


@pytest.mark.full
def test_a_crash_while_paused_ends_the_pause(bench: Bench) -> None:
    """A pause whose process is gone is gone, too."""
    stop = bench.stop_of("def test_bad(): assert 0")
    refused = bench.agent.refused(
        "breakpoint_repl_eval",
        pause_id=stop["pause_id"],
        expression="__import__('os')._exit(9)",
    )
    assert refused["error"] == "not_live"
    assert bench.until("crashed")["paused"] == []


STUCK = """
    import os, pathlib, threading
    def test_leaves_a_thread():
        pathlib.Path("busy").write_text(str(os.getpid()))
        threading.Thread(target=threading.Event().wait).start()
"""


@full
@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs a way to wait for any process")
def test_a_process_that_hangs_after_its_verdict_is_gone_some_time_later(bench: Bench) -> None:
    """Nothing is left behind, even when nobody asks for it."""
    assert bench.test(STUCK)["exit_code"] == 0
    process = os.pidfd_open(int((bench.root / "busy").read_text(encoding="utf-8")))
    try:
        assert select.select([process], [], [], 20)[0] == [process]
    finally:
        os.close(process)


@pytest.mark.full
def test_the_verdict_does_not_wait_for_a_thread_that_never_ends(bench: Bench) -> None:
    """The process hangs in `threading._shutdown` after its `finish`."""
    reply = bench.test(STUCK)
    assert ended(reply) == ("finished", "finished", 0)
    assert reply["duration_s"] < 8
    assert bench.test("def test_next(): pass")["exit_code"] == 0
