"""Child processes of tests: not connected, not slowed, not broken, whatever is armed.

The children pass every breakpoint there is; with one that stopped they would wait
for ever, as nobody could let them go on.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import Any

import pytest

from tests.together.driver import locals_of, only_stop
from tests.together.workbench import OVER, Bench

full = pytest.mark.full

pytestmark = [
    pytest.mark.long(32),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
]

SHOP = """
    import os, time

    def meet(n):
        return n  # LINE

    def tick(n):
        return n + 1  # TICK

    def stumble():
        try:
            {}["x"]
        except KeyError:
            return 2

    def child(n=7):
        for each in range(50): tick(each)
        return meet(n) + stumble()

    def end_of(pid):
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            gone, status = os.waitpid(pid, os.WNOHANG)
            if gone:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.002)
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        return "it hangs"

    def fork(work=child):
        pid = os.fork()
        if pid == 0:
            status = 99
            try:
                status = work()
            finally:
                os._exit(status)
        return end_of(pid)
"""


def line_of(text: str, mark: str) -> int:
    """Where a line is that has this comment."""
    (number,) = (n for n, line in enumerate(text.splitlines(), 1) if line.endswith(f"# {mark}"))
    return number


def arm(bench: Bench, *, tracepoint: bool = True) -> str:
    """Set a breakpoint of every kind on what children run; the id of the tracepoint."""
    bench.write(shop=SHOP)
    bench.breakpoint("shop.meet")
    bench.breakpoint("shop.stumble", behavior="go")
    bench.agent.call("breakpoint_set", file="shop.py", line=line_of(SHOP, "LINE"))
    bench.agent.call("breakpoint_set_exception", exception_type="KeyError")
    if not tracepoint:
        return ""
    line = line_of(SHOP, "TICK")
    reported = bench.agent.call("tracepoint_set", file="shop.py", line=line, log_message="{n}")
    return str(reported["tracepoint"]["id"])


def stops_until_the_end(bench: Bench) -> tuple[Counter[tuple[str, str]], dict[str, Any]]:
    """Let every pause go on at once: the test and phase of each, and the state at the end."""
    seen: Counter[tuple[str, str]] = Counter()
    while (now := bench.agent.call("debug_state"))["state"] not in OVER:
        for pause in bench.agent.call("breakpoint_list_paused")["paused"]:
            seen[pause["nodeid"].partition("::")[2], pause["phase"]] += 1
            bench.agent.call("breakpoint_continue", pause_id=pause["id"])
    return seen, now


FORKS = """
    import json, multiprocessing, os, pathlib, subprocess, sys, threading
    from shop import child, fork, meet, tick

    def test_fork():
        assert [fork() for _ in range(3)] == [9, 9, 9]
        assert fork(lambda: fork()) == 9

    def test_on_a_thread():
        got = []
        thread = threading.Thread(target=lambda: got.append(fork()))
        thread.start(); thread.join()
        assert got == [9]

    def test_threads_of_the_child():
        def work():
            got = []
            threads = [threading.Thread(target=lambda: got.append(child())) for _ in range(3)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            return sum(got)
        assert fork(work) == 27

    def test_process():
        process = multiprocessing.get_context("fork").Process(target=lambda: sys.exit(child()))
        process.start(); process.join(20)
        assert process.exitcode == 9

    def test_nothing_of_the_debugger_is_left():
        def work():
            import _thread, signal
            left = [name for name in os.environ if "CIDELDILL" in name]
            left += [str(trace) for trace in (sys.gettrace(), threading.gettrace()) if trace]
            monitoring = getattr(sys, "monitoring", None)
            left += [monitoring.get_tool(n) for n in range(6)] if monitoring else []
            for starter in ("_start_joinable_thread", "_start_new_thread"):
                mine = getattr(threading, starter, None)
                if mine is not None and mine.__module__ != "_thread": left.append(starter)
            for fd in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd") else ():
                try: target = os.readlink(f"/proc/self/fd/{fd}")
                except OSError: continue
                if target.endswith((".out", ".err")): continue  # what the run prints goes there
                if "cideldill" in target or target in sockets: left.append(target)
            if type(signal.getsignal(signal.SIGURG)) is not signal.Handlers: left.append("SIGURG")
            pathlib.Path("left.json").write_text(json.dumps([each for each in left if each]))
            return 0
        folder = "/proc/self/fd"
        fds = os.listdir(folder) if os.path.exists(folder) else ()
        sockets = [os.readlink(f"{folder}/{fd}") for fd in fds if os.path.exists(f"{folder}/{fd}")]
        sockets = [each for each in sockets if "socket" in each]
        assert fork(work) == 0

    def test_here():
        assert (tick(1), meet(3)) == (2, 3)
"""


@pytest.mark.full
def test_forked_children_run_as_if_nothing_was_armed(bench: Bench) -> None:
    """They end with their own status, and no event of theirs comes; the parent stays armed."""
    tracepoint = arm(bench)
    bench.test(FORKS, wait=False, pause_on="failure")
    seen, end = stops_until_the_end(bench)
    assert seen == {("test_here", "before"): 1, ("test_here", "line"): 1}
    assert end["outcomes"] == {"passed": 6}
    assert json.loads((bench.root / "left.json").read_text(encoding="utf-8")) == []
    assert bench.listed(tracepoint)["hit_count"] == 1
    records = bench.agent.call("breakpoint_get_call_records")["calls"]
    names = {each["method_name"] for each in records if each["run_id"] == end["run_id"]}
    assert names == {"meet"}
    assert "warnings" not in end


BEGINS = """
    import os, pathlib, time
    from shop import fork

    def test_it():
        took = []
        for _ in range(10):
            out, into = os.pipe()
            def work():
                os.write(into, repr(time.process_time()).encode())
                return 0
            assert fork(work) == 0
            took.append(float(os.read(out, 100)))
            os.close(out); os.close(into)
        pathlib.Path("took").write_text(repr(sorted(took)[5]))
"""


@full
def test_a_forked_child_begins_as_soon_as_without_breakpoints(bench: Bench) -> None:
    """The processor's time up to its first instruction; to look at all objects takes 30 ms."""
    took = []
    for prepare in (lambda: bench.write(shop=SHOP), lambda: arm(bench)):
        prepare()
        assert bench.test(BEGINS)["outcomes"] == {"passed": 1, "failed": 0}
        took.append(float((bench.root / "took").read_text(encoding="utf-8")))
    plain, armed = took
    assert armed < 5 * plain + 0.005


OTHERS = """
    import concurrent.futures, multiprocessing, os, subprocess, sys
    import pytest
    from shop import child, end_of, fork, meet

    pytest_plugins = ["pytester"]

    def leave(n): sys.exit(child(n))

    @pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
    def test_process(method):
        process = multiprocessing.get_context(method).Process(target=leave, args=(3,))
        process.start(); process.join(30)
        assert process.exitcode == 5

    @pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
    def test_pool(method):
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map_async(child, [1, 2, 3]).get(30) == [3, 4, 5]

    @pytest.mark.parametrize("method", ["fork", "spawn"])
    def test_executor(method):
        context = multiprocessing.get_context(method)
        with concurrent.futures.ProcessPoolExecutor(2, context) as pool:
            assert [each.result(30) for each in (pool.submit(child, n) for n in (1, 2))] == [3, 4]

    def test_programs():
        script = "import shop, sys, os; sys.exit(shop.child() + ('CIDELDILL_CHILD' in os.environ))"
        python = [sys.executable, "-c", script]
        more = [{"close_fds": False}, {"preexec_fn": child}, {"start_new_session": True}]
        for options in ({}, *more):
            assert subprocess.run(python, timeout=30, **options).returncode == 9
        assert os.waitstatus_to_exitcode(os.system("exit 3")) == 3
        assert end_of(os.posix_spawn("/bin/sh", ["sh", "-c", "exit 4"], os.environ)) == 4

    def test_signalled():
        def work():
            os.kill(os.getpid(), 15)
            return child()
        assert fork(work) == -15

    INNER = '''
        import shop
        def test_good(): assert shop.child() == 9
        def test_bad(): assert shop.meet(1) == 0
    '''

    @pytest.mark.parametrize("workers", [(), ("-n2",)])
    def test_pytest_in_a_process(pytester, monkeypatch, workers):
        pytester.makepyfile(INNER)
        monkeypatch.setenv("PYTHONPATH", os.path.dirname(__file__))
        for name in [name for name in os.environ if "XDIST" in name]:
            monkeypatch.delenv(name)
        done = pytester.runpytest_subprocess("-p", "no:cacheprovider", *workers)
        done.assert_outcomes(passed=1, failed=1)

    OWN = "def test_good(): pass\\ndef test_bad(): assert 0\\n"

    def test_pytest_in_this_process(pytester):
        pytester.makepyfile(OWN)
        for _ in range(2):
            done = pytester.runpytest_inprocess("-p", "no:cacheprovider")
            done.assert_outcomes(passed=1, failed=1)

    def test_pytest_main(pytester):
        pytester.makepyfile(OWN)
        assert pytest.main(["-p", "no:cacheprovider", str(pytester.path)]) == 1

    def test_here(): assert meet(3) == 3
"""


@full
@pytest.mark.timeout(180)
@pytest.mark.parametrize("workers", [0, *(pytest.param(n, marks=pytest.mark.soak) for n in (2, 4))])
def test_children_of_every_make_run_as_in_a_plain_run(bench: Bench, workers: int) -> None:
    """multiprocessing, subprocesses and pytest inside of pytest; with failures pausing."""
    arm(bench)
    bench.test(OTHERS, wait=False, **({"workers": workers} if workers else {}))
    seen, end = stops_until_the_end(bench)
    assert seen == {("test_here", "before"): 1, ("test_here", "line"): 1}
    assert end["outcomes"] == {"passed": 15}
    assert "warnings" not in end


PAUSED = """
    import os, pathlib, threading
    from shop import fork, meet

    def test_it():
        got, began = [], threading.Event()

        def forks():
            while not os.path.exists("enough") or not got:
                got.append(fork())
                began.set()

        thread = threading.Thread(target=forks, name="forker")
        thread.start()
        try:
            assert began.wait(30)
            assert meet(3) == 30
        finally:
            pathlib.Path("enough").touch()
            thread.join()
        assert set(got) == {9}
"""


@pytest.mark.full
def test_forks_while_a_thread_is_paused(bench: Bench) -> None:
    """The pause stays and answers; so do forks that its evaluations make."""
    arm(bench, tracepoint=False)
    stop = bench.stop_of(PAUSED)
    assert (stop["phase"], locals_of(stop)) == ("before", {"n": "3"})
    for _ in range(5):
        assert bench.eval(stop, "n + 1") == "4"
    own = "import os\npid = os.fork()\nif pid == 0: os._exit(5)\nos.waitpid(pid, 0)[1]"
    assert bench.eval(stop, own) == str(5 << 8)
    assert bench.eval(stop, "fork()") == "9"
    assert bench.agent.call("debug_state")["paused"] == [stop["pause_id"]]
    reply = bench.go_on(stop, modified_args=[30])
    assert only_stop(reply)["phase"] == "line"
    assert bench.go_on(only_stop(reply))["outcomes"] == {"passed": 1, "failed": 0}


HOT = """
    import json, os, pathlib, threading, time
    import pytest
    from shop import end_of, fork, tick

    @pytest.mark.parametrize("n", range(int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1))))
    def test_it(n):
        over, counts = threading.Event(), []

        def work():
            count = 0
            while not over.is_set():
                tick(count)
                count += 1
                if count % 50 == 0: time.sleep(0.005)
            counts.append(count)

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads: thread.start()
        try:
            for _ in range(10):
                tick(0)
                assert fork() == 9
        finally:
            over.set()
            for thread in threads: thread.join()
        pathlib.Path(f"count-{n}").write_text(str(sum(counts) + 10))
"""


@full
@pytest.mark.parametrize("workers", [0, 2, pytest.param(4, marks=pytest.mark.soak)])
def test_forks_amid_a_hot_tracepoint(bench: Bench, workers: int) -> None:
    """Every hit of the parents is counted, none of the children."""
    tracepoint = arm(bench)
    bench.test(HOT, wait=False, **({"workers": workers} if workers else {}))
    seen, end = stops_until_the_end(bench)
    assert (seen, end["outcomes"]) == ({}, {"passed": max(workers, 1)})
    counted = [int(path.read_text(encoding="utf-8")) for path in bench.root.glob("count-*")]
    assert bench.listed(tracepoint)["hit_count"] == sum(counted) > 200
    assert len(counted) == max(workers, 1)


ODD = """
    import os
    from shop import fork, meet

    def step(n):
        a = n
        got = fork()
        return got + a

    def test_in_a_condition(): assert step(0) == 9
    def test_in_a_step(): assert step(1) == 10
"""


@full
def test_forks_inside_conditions_templates_and_steps(bench: Bench) -> None:
    arm(bench)
    bench.write(test_it=ODD)
    bench.agent.call(
        "tracepoint_set", file="test_it.py", line=6,
        log_message="{fork()}", condition="n == 0 and fork() == 9",
    )  # fmt: skip
    reply = bench.run(["test_it.py::test_in_a_condition"])
    assert reply["outcomes"] == {"passed": 1, "failed": 0}
    assert [hit["message"] for hit in reply["hits"]] == ["9"]
    bench.breakpoint("test_it.step")
    stop = only_stop(bench.run(["test_it.py::test_in_a_step"]))
    lines = [
        bench.agent.call("debug_step", pause_id=stop["pause_id"], mode=mode)["location"]["line"]
        for mode in ("in", "over", "over")
    ]
    assert lines == [6, 7, 8]
    assert bench.go_on(stop)["outcomes"] == {"passed": 1, "failed": 0}


RETURNS = """
    import os, pathlib, time
    from shop import end_of, meet

    def test_it():
        pid = os.fork()
        if pid:
            assert end_of(pid) == 1  # pytest's own, for the test that fails there too
        else:
            pathlib.Path("child").write_text(str(os.getpid()))

    def test_breakpoint():
        pid = os.fork()
        if pid == 0:
            breakpoint()
            os._exit(6)
        assert end_of(pid) == 6

    def test_bad():
        assert meet(3) == 4
"""


@full
def test_a_child_that_runs_on_through_the_tests_stops_nowhere(bench: Bench) -> None:
    """As it would without us: it has its own verdict, and takes nothing away from the parent's."""
    arm(bench)
    reply = bench.test(RETURNS, timeout_s=60)
    stop, seen = only_stop(reply), []
    while reply["state"] == "paused":
        stop = only_stop(reply)
        seen.append((stop["nodeid"].partition("::")[2], stop["phase"]))
        assert bench.eval(stop, "__import__('os').getpid()") != (bench.root / "child").read_text()
        reply = bench.go_on(stop)
    assert seen == [("test_bad", "before"), ("test_bad", "line"), ("test_bad", "post_mortem")]
    assert (reply["exit_code"], reply["outcomes"]) == (1, {"passed": 2, "failed": 1})
    events = bench.events("test_started", "test_outcome")
    assert Counter(event["type"] for event in events) == {"test_started": 3, "test_outcome": 3}


RAW = """
    import ctypes, os
    from shop import child, end_of

    def test_it():
        pid = ctypes.PyDLL(None).fork()  # as C code does it: nobody tells Python
        if pid == 0:
            os._exit(child())
        assert end_of(pid) == 9
"""


@full
def test_a_child_that_c_code_forked_does_not_stop(bench: Bench) -> None:
    arm(bench)
    reply = bench.test(RAW, pause_on="never")
    assert (reply["stops"], reply["outcomes"]) == ([], {"passed": 1, "failed": 0})
