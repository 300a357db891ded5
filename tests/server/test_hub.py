"""Two connected processes, and strangers: who is let in, what reaches whom, who may die.

Raw clients speak the wire to a real hub and real runs.
"""

from __future__ import annotations

import asyncio
import os
import stat
from dataclasses import replace

import pytest

from cideldill_mcp.processes import listener as hub_module
from cideldill_mcp.processes import process as process_module
from cideldill_mcp.runs import breakpoint_sync as setting_module
from cideldill_mcp.runs import registry as runs_module
from cideldill_mcp.tools import functions
from pytest_cideldill.protocol import (
    AddBreakpoint,
    Configure,
    Evaluate,
    Interrupt,
    NodeFinished,
    NodeRelayed,
    NodeStarted,
    Refused,
    ReleaseAll,
    Replied,
    Resume,
    Resumed,
    SetDefaultBehavior,
    Warned,
    to_plain,
)
from pytest_cideldill.protocol.framing import encode_frame
from tests.server.processes import NO_PID, hello_of, in_loop, serving

# --- two processes ------------------------------------------------------------------------------


@in_loop
async def test_every_process_gets_every_breakpoint_before_it_begins() -> None:
    """Architecture: desired breakpoints are sent to every process before it collects."""
    keys = set()
    async with serving() as front:
        one = front.desired.add_function("shop.total", "stop", None)
        two = front.desired.add_function("tax", "go", "amount > 3")
        await front.start(wanted=["test_a.py"], pause_on="error")
        for worker in ("gw0", "gw1"):
            process = await front.greeted(worker)
            configure, *others = await process.until_begin()
            assert isinstance(configure, Configure)
            assert replace(configure, tag_key="") == Configure("error", 1800.0, ["test_a.py"])
            keys.add(configure.tag_key)
            assert configure.tag_key not in repr(configure)
            assert others == [
                SetDefaultBehavior("stop"),
                AddBreakpoint(0, one.id, "shop.total", "stop", None),
                AddBreakpoint(0, two.id, "tax", "go", "amount > 3"),
            ]
    (key,) = keys
    assert len(key) == 64


@in_loop
async def test_a_breakpoint_added_later_is_set_in_both_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody waits for a slow process before the next one is asked; the answers are merged."""
    monkeypatch.setattr(setting_module, "BIND_S", 600.0)
    async with serving() as front:
        await front.start()
        processes = await front.live("gw0", "gw1")
        adding = front.call("breakpoint_add", function_name="total")
        commands = [await each.next(AddBreakpoint) for each in processes]
        assert {(each.id, each.function_name) for each in commands} == {("fn-1", "total")}
        for process, command, names in zip(
            processes, commands, (["shop.total"], ["shop.total", "tax.total"]), strict=True
        ):
            answer = {"functions": names, "verified": True, "message": None}
            await process.send(Replied(command.request, answer))
        reply = await adding
        assert (reply["functions"], reply["verified"]) == (["shop.total", "tax.total"], True)


@in_loop
async def test_two_simultaneous_stops_are_two_pauses_of_their_workers() -> None:
    """A list of pauses; `paused` as soon as one is."""
    async with serving() as front:
        run = await front.start()
        processes = await front.live("gw0", "gw1")
        ids = [await each.stop() for each in processes]
        assert ids == ["r1.gw0.1", "r1.gw1.1"]
        await front.until(lambda: len(run.pauses) == 2)
        paused = (await front.call("breakpoint_list_paused"))["paused"]
        assert {(each["id"], each["worker"]) for each in paused} == set(
            zip(ids, ("gw0", "gw1"), strict=True)
        )
        state = await front.call("debug_state")
        assert (state["state"], sorted(state["paused"])) == ("paused", ids)


@in_loop
async def test_a_command_reaches_the_process_that_paused_and_no_other() -> None:
    """Each pause is owned by one connection."""
    async with serving() as front:
        run = await front.start()
        gw0, gw1 = await front.live("gw0", "gw1")
        ids = [await gw0.stop(), await gw1.stop()]
        await front.until(lambda: len(run.pauses) == 2)
        resuming = front.call("breakpoint_continue", pause_id=ids[1], action="skip", fake_result=5)
        resume = await gw1.answer(Resume, action="skip")
        assert (resume.pause_id, resume.fake_result) == (ids[1], 5)
        reply = await resuming
        assert reply.pop("pending") == {
            "stops": 1,
            "hits": 0,
            "after": run.pauses[ids[0]]["seq"] - 1,
        }
        assert reply == {"status": "ok", "pause_id": ids[1], "action": "skip"}
        await gw1.send(Resumed(ids[1], "skip", "client"))
        evaluating = front.call("breakpoint_repl_eval", pause_id=ids[0], expression="1 + 1")
        # The first thing that the other process hears of:
        result = {
            "session_id": "s",
            "output": "2",
            "stdout": "",
            "is_error": False,
            "result_cid": None,
            "changed": [],
        }
        evaluate = await gw0.answer(Evaluate, **result, timed_out=False)
        assert evaluate.expression == "1 + 1"
        assert (await evaluating)["output"] == "2"
        await front.until(lambda: list(run.pauses) == [ids[0]])


@in_loop
async def test_a_process_that_dies_takes_its_pauses_along_and_the_other_goes_on() -> None:
    """`by: disconnect`; who asks for the pause is told that it is over."""
    async with serving() as front:
        run = await front.start()
        gw0, gw1 = await front.live("gw0", "gw1")
        ids = [await gw0.stop(), await gw1.stop()]
        await front.until(lambda: len(run.pauses) == 2)
        waiting = front.call("breakpoint_continue", pause_id=ids[0])
        await gw0.next(Resume)
        await gw0.close()
        assert (await waiting)["error"] == "not_live"
        await front.until(lambda: list(run.pauses) == [ids[1]])
        gone = await front.call("breakpoint_continue", pause_id=ids[0])
        assert (gone["error"], gone["reason"]) == ("pause_not_found", "already_resumed")
        resuming = front.call("breakpoint_continue", pause_id=ids[1])
        await gw1.answer(Resume, action="continue")
        assert (await resuming)["status"] == "ok"


@in_loop
async def test_one_pause_is_resumed_once_however_many_ask() -> None:
    """Of two clients one wins; the process decides, the refusal is handed on."""
    async with serving() as front:
        run = await front.start()
        (process,) = await front.live("main")
        id = await process.stop()
        await front.until(lambda: len(run.pauses) == 1)
        both = [front.call("breakpoint_continue", pause_id=id) for _ in range(2)]
        await process.answer(Resume, action="continue")
        second = await process.next(Resume)
        error = {"error": "pause_not_found", "message": "gone", "reason": "already_resumed"}
        await process.send(Replied(second.request, error=error))
        replies = [await each for each in both]
        assert [reply.get("error") for reply in replies] == [None, "pause_not_found"]
        unknown = await front.call("breakpoint_continue", pause_id="r1.gw7.1")
        assert (unknown["error"], unknown["reason"]) == ("pause_not_found", "unknown")


# --- who does not answer ------------------------------------------------------------------------


@in_loop
async def test_a_process_that_does_not_answer_is_busy_and_keeps_its_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every wait is bounded. The late answer finds nobody and harms nobody."""
    monkeypatch.setattr(functions, "RESUME_S", 0.05)
    monkeypatch.setattr(process_module, "EXTRA_S", (0.02, 0.02, 0.02))
    async with serving() as front:
        run = await front.start()
        (process,) = await front.live("gw0")
        id = await process.stop()
        await front.until(lambda: len(run.pauses) == 1)
        busy = await front.call("breakpoint_continue", pause_id=id)
        assert (busy["error"], busy["worker"]) == ("process_busy", "gw0")
        assert f"pid {NO_PID}" in busy["message"]
        late = await process.next(Resume)
        monkeypatch.setattr(functions, "RESUME_S", 10.0)
        again = front.call("breakpoint_continue", pause_id=id, action="skip")
        while isinstance(second := await process.receive(), Interrupt):
            assert second.request == late.request  # it may be an expression that takes so long
        assert isinstance(second, Resume)
        assert second.request != late.request
        await process.send(Replied(late.request, {"action": "continue"}))
        await process.send(Replied(second.request, {"action": "skip"}))
        await process.send(Replied(999, {"action": "raise"}))
        assert (await again)["action"] == "skip"


@in_loop
async def test_a_breakpoint_waits_for_a_busy_process_only_so_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What can't be known is accepted with `verified: false` and a message."""
    monkeypatch.setattr(setting_module, "BIND_S", 0.05)
    async with serving() as front:
        await front.start()
        await front.live("gw0", "gw1")
        reply = await front.call("breakpoint_add", function_name="total")
        assert (reply["status"], reply["verified"]) == ("ok", False)
        assert "does not answer" in reply["message"]


@pytest.mark.full
@in_loop
async def test_an_evaluation_that_takes_too_long_is_interrupted_and_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`eval_timeout` says whether it stopped; the interrupt is repeated, then given up."""
    monkeypatch.setattr(process_module, "EXTRA_S", (0.05, 0.05, 10.0))
    async with serving() as front:
        run = await front.start()
        (process,) = await front.live("main")
        id = await process.stop()
        await front.until(lambda: len(run.pauses) == 1)
        asked = {"pause_id": id, "expression": "while True: pass", "timeout_s": 0.1}
        evaluating = front.call("breakpoint_repl_eval", **asked)
        request = (await process.next(Evaluate)).request
        for _ in range(3):
            assert await process.next(Interrupt) == Interrupt(request)
        result = {"session_id": "s", "output": "interrupted", "stdout": "", "is_error": True}
        done = result | {"changed": [], "timed_out": True}
        await process.send(Replied(request, done))
        reported = await evaluating
        assert (reported["error"], reported["stopped"]) == ("eval_timeout", True)
        monkeypatch.setattr(process_module, "EXTRA_S", ())
        stuck = await front.call("breakpoint_repl_eval", **asked)
        assert (stuck["error"], stuck["stopped"]) == ("eval_timeout", False)


# --- many processes ------------------------------------------------------------------------------


@pytest.mark.full
@in_loop
async def test_many_processes_that_have_much_to_send_leave_the_loop_to_others() -> None:
    """`docs/scale.md`: one connection at a time, and a little of it."""
    async with serving() as front:
        await front.start()
        processes = await front.live(*(f"gw{number}" for number in range(8)))
        starts = [NodeStarted(f"test_{number:04}.py::test_x", 1.0) for number in range(1000)]
        most = hub_module.CHUNK // len(encode_frame(to_plain(starts[0]))) + 2
        before = front.log.last_seq
        sending = [asyncio.create_task(each.send(*starts)) for each in processes]
        at_once = []
        while (reported := front.log.last_seq) < before + 8 * 1000:
            await asyncio.sleep(0)
            at_once.append(front.log.last_seq - reported)
        await asyncio.gather(*sending)
        assert 0 < max(at_once) <= most


@in_loop
async def test_what_others_reported_counts_when_the_main_process_of_a_run_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The verdict waits for the end of their connections as long as something comes."""
    monkeypatch.setattr(runs_module, "SILENT_S", 3600.0)
    async with serving() as front:
        run = await front.start()
        (worker,) = await front.live("gw0")
        await worker.send(NodeStarted("a", 1.0))
        assert run.child is not None
        run.child.kill()
        await front.until(lambda: run.child is not None and run.child.returncode is not None)
        assert not run.is_over
        await worker.send(NodeFinished("a", 0.1, {"passed": 1}))
        await worker.close()
        await front.until(lambda: run.is_over)
        assert run.results.outcomes == {"passed": 1}


@in_loop
async def test_a_test_that_the_controller_reports_waits_for_what_its_worker_reported() -> None:
    """`Run.take_held`: bytes of a worker that died may be unread when xdist has its reports."""
    async with serving() as front:
        run = await front.start()
        main, worker = await front.live("main", "gw0")
        await main.send(
            NodeRelayed("gw0", "a", 1.0, [], {"passed": 1}, 0.1, has_ended=True),
            NodeRelayed("gw0", "b", 1.0, [], {"passed": 1}, 0.1, has_ended=True),
            Warned("told"),
        )
        await front.until(lambda: run.warnings == ["told"])
        assert run.results.done == 0
        await worker.send(NodeStarted("a", 1.0), NodeFinished("a", 0.1, {"passed": 1}))
        await worker.close()
        await front.until(lambda: run.results.done == 2)
        assert run.results.outcomes == {"passed": 2}


# --- the place ----------------------------------------------------------------------------------


@in_loop
async def test_the_socket_is_in_a_private_directory_that_goes_with_the_server() -> None:
    """Unix socket in a 0700 directory."""
    async with serving() as front:
        await front.start()
        invitation = front.invitation()
        directory = invitation["directory"]
        assert stat.S_IMODE(os.stat(directory).st_mode) == 0o700
        assert os.path.dirname(invitation["address"]) == directory
        assert invitation["run_id"] == "r1"
    assert not os.path.exists(directory)


@in_loop
async def test_where_a_socket_path_is_too_long_it_is_loopback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Loopback TCP elsewhere."""
    monkeypatch.setattr(hub_module, "MAX_SOCKET_PATH", 0)
    async with serving() as front:
        run = await front.start()
        address = front.invitation()["address"]
        assert (address[0], len(address)) == ("127.0.0.1", 2)
        (process,) = await front.live("main")
        assert run.is_connected
        await process.send(Warned("over TCP"))
        await front.until(lambda: run.warnings == ["over TCP"])


@pytest.mark.full
@in_loop
async def test_closing_releases_everybody_and_hangs_up() -> None:
    """Paused tests are released before the run is ended."""
    async with serving() as front:
        await front.start()
        processes = await front.live("gw0", "gw1")
        for each in processes:
            await each.stop()
        await front.until(lambda: len(front.runs.get("r1").pauses) == 2)
        closing = front.runs.close("disconnect", 5.0)
        await closing
        for each in processes:
            assert await each.next(ReleaseAll) == ReleaseAll("disconnect")
            assert await each.is_dropped()


# --- what odd processes say ---------------------------------------------------------------------


@in_loop
async def test_a_second_process_of_a_name_is_sent_away_and_the_first_goes_on() -> None:
    """Its pause lives on; when it has gone another one may come."""
    async with serving() as front:
        await front.start()
        (process,) = await front.live("gw0")
        pause = await process.stop()
        await front.until(lambda: pause in front.runs.get("r1").pauses)
        second = await front.greeted("gw0")
        refused = await second.next(Refused)
        assert "gw0 of r1 is connected already" in refused.reason
        assert await second.is_dropped()
        assert pause in front.runs.get("r1").pauses
        await process.close()
        await front.until(lambda: not front.runs.get("r1").targets)
        third = await front.greeted("gw0")
        assert await third.until_begin()


@in_loop
async def test_files_that_a_process_names_are_read_only_where_it_was_invited_to() -> None:
    """Regular ones of the private folder: neither pipes nor what links lead to."""
    async with serving() as front:
        await front.start()
        folder = front.runs.directory
        os.mkfifo(folder / "pipe")
        (folder / "real").touch()
        (folder / "link").symlink_to("/etc/passwd")
        for name, is_taken in {"pipe": 0, "link": 0, "none": 0, "../x": 0, "real": 1}.items():
            process = await front.connect("r1", "gw0")
            path = f"{folder}/{name}"
            hello = replace(hello_of("r1", "gw0"), position_file=path, stacks_file=path)
            await process.send(hello)
            await process.until_begin()
            reported = front.runs.get("r1").targets["gw0"].hello
            taken = path if is_taken else None
            assert (reported.position_file, reported.stacks_file) == (taken, taken)
            await process.close()
            await front.until(lambda: not front.runs.get("r1").targets)


@in_loop
async def test_odd_moments_and_pauses_of_a_process_break_nothing() -> None:
    async with serving() as front:
        await front.start()
        (process,) = await front.live("gw0")
        for odd in (
            {"kind": "stopped", "pause": {"id": "r1.x.1"}},
            {"kind": "node_started", "nodeid": None, "ts": 1.0},
            {"kind": "warned", "message": "w", "ts": "x"},
            {"kind": "warned", "message": "w", "ts": 10**400},
        ):
            await process.raw(encode_frame(odd))
        pause = await process.stop()
        await front.until(lambda: pause in front.runs.get("r1").pauses)
        assert front.runs.get("r1").pauses.keys() == {pause}
