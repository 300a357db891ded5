"""Exception breakpoints in real runs (first chance, second chance)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.together.driver import exception_of, locals_of, only_stop
from tests.together.workbench import Bench

full = pytest.mark.full


def added(bench: Bench, exception_type: str, **options: Any) -> dict[str, Any]:
    """Set one: its description."""
    reply = bench.agent.call("breakpoint_set_exception", exception_type=exception_type, **options)
    breakpoint: dict[str, Any] = reply["breakpoint"]
    return breakpoint


def first(bench: Bench, exception_type: str, **options: Any) -> dict[str, Any]:
    """One that stops at raises only."""
    return added(bench, exception_type, break_on_second_chance=False, **options)


def listed(bench: Bench) -> dict[str, Any]:
    """The one breakpoint there is."""
    (known,) = bench.agent.call("breakpoint_list")["breakpoints"]
    assert isinstance(known, dict)
    return known


SHOP = """
    import json

    class CartError(Exception):
        pass

    class EmptyCart(CartError):
        pass

    def price(cart, name):
        try:
            return cart[name]
        except KeyError as missing:
            raise EmptyCart("nothing", 40) from missing

    def parse(text):
        return json.loads(text)
"""

TEST = """
    from shop import price, parse

    def test_swallowed():
        try:
            price({"lamp": 40}, "desk")
        except Exception:
            pass
        for _ in iter([1]):
            pass

    def test_library():
        try:
            parse("{bad")
        except ValueError:
            pass
"""


@pytest.fixture
def shop(bench: Bench) -> Bench:
    """A module whose errors are handled."""
    bench.write(shop=SHOP, test_it=TEST)
    return bench


@full
def test_a_raise_stops_before_anyone_handles_it(shop: Bench) -> None:
    """Raised by C code, in Python with a cause, by a library: where the user's code sees it first.

    Set before the run for a class that is not imported yet; the breakpoint survives the run.
    """
    key = first(shop, "KeyError")
    assert (key["type"], key["verified"], key["hitCount"]) == ("exception", True, 0)
    cart = first(shop, "shop.CartError")
    assert (cart["verified"], cart["state"]) == (False, "pending")
    stop = only_stop(shop.run(["test_it.py"]))
    assert (stop["phase"], stop["reason"]) == ("raise", "exception")
    assert (stop["breakpoint_id"], stop["hit_count"]) == (key["id"], 1)
    assert exception_of(stop) == {"type": "KeyError", "message": "'desk'"}
    assert stop["location"]["function"] == "price"
    assert stop["autopsy"]["frames"][0]["source"] == "return cart[name]"
    assert locals_of(stop)["name"] == "'desk'"
    assert shop.eval(stop, "__exception__.args, name") == "(('desk',), 'desk')"
    assert stop["autopsy"]["frames"][1]["function"] == "test_swallowed"

    stop = only_stop(shop.go_on(stop))
    assert stop["breakpoint_id"] == cart["id"]
    assert exception_of(stop)["type"] == "shop.EmptyCart"
    (cause,) = stop["autopsy"]["innerExceptions"]
    assert cause.pop("location")["source"] == "return cart[name]"
    assert cause == {"type": "KeyError", "message": "'desk'", "depth": 1, "relation": "cause"}
    value = first(shop, "json.JSONDecodeError")  # while paused, under another name than its own
    assert (value["verified"], value["state"]) == (True, "bound")

    stop = only_stop(shop.go_on(stop))
    assert (stop["breakpoint_id"], stop["location"]["function"]) == (value["id"], "parse")
    assert stop["autopsy"]["frames"][0]["isExternal"] is True
    assert shop.go_on(stop)["exit_code"] == 0
    known = shop.agent.call("breakpoint_list")["breakpoints"]
    assert [(each["id"], each["state"], each["hit_count"]) for each in known] == [
        (key["id"], "bound", 1),
        (cart["id"], "bound", 1),
        (value["id"], "bound", 1),
    ]


@pytest.mark.full
def test_another_exception_can_be_raised_instead(shop: Bench) -> None:
    """Phase `raise` allows continue and raise (chained)."""
    first(shop, "shop.EmptyCart", include_subtypes=False)
    shop.write(
        test_it="""
        from shop import price

        def test_chained():
            try:
                price({}, "desk")
            except OSError as error:
                seen = [error, error.__context__, error.__context__.__cause__]
                names = [type(each).__name__ for each in seen]
                assert names == ["OSError", "EmptyCart", "KeyError"]
            else:
                assert False
        """
    )
    stop = only_stop(shop.run(["test_it.py"]))
    refused = shop.agent.refused("breakpoint_continue", pause_id=stop["pause_id"], action="skip")
    assert (refused["error"], refused["allowed"]) == ("invalid_action", ["continue", "raise"])
    reply = shop.go_on(stop, action="raise", exception_type="OSError", exception_message="gone")
    assert reply["exit_code"] == 0, reply


@full
def test_it_can_be_switched_and_removed_while_a_test_is_paused(shop: Bench) -> None:
    """`breakpoint_enable`, `breakpoint_remove` by id, counts that start anew with each run."""
    key = first(shop, "LookupError")  # KeyError is a subtype
    shop.write(
        test_it="""
        def test_many():
            for number in range(4):
                try:
                    {}[number]
                except KeyError:
                    pass
        """
    )
    stop = only_stop(shop.run(["test_it.py"]))
    off = shop.agent.call("breakpoint_enable", id=key["id"], enabled=False)["breakpoint"]
    assert (off["state"], off["hitCount"], off["type"]) == ("disabled", 1, "exception")
    assert shop.go_on(stop)["exit_code"] == 0
    assert shop.agent.call("breakpoint_enable", id=key["id"])["breakpoint"]["enabled"] is True
    stop = only_stop(shop.run(["test_it.py"]))
    assert stop["hit_count"] == 1
    stop = only_stop(shop.go_on(stop))
    assert (stop["hit_count"], listed(shop)["hit_count"]) == (2, 2)
    shop.agent.call("breakpoint_remove", id=key["id"])
    assert shop.go_on(stop)["exit_code"] == 0
    assert shop.agent.call("breakpoint_list")["breakpoints"] == []


SUBTLE = """
    import asyncio
    import contextlib
    import pytest
    from concurrent.futures import ThreadPoolExecutor

    class Lazy:
        @property
        def name(self):
            raise AttributeError("name")

    def generate():
        try:
            yield 1
        finally:
            pass

    async def cancelled():
        task = asyncio.ensure_future(asyncio.sleep(10))
        await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    def again():
        try:
            try:
                raise OSError("first")
            except OSError as error:
                raise error
            finally:
                pass
        except OSError as error:
            try:
                raise
            except OSError:
                pass

    async def failing():
        await asyncio.sleep(0)
        raise RuntimeError("in a task")

    def in_a_pool():
        raise BufferError("in a pool")

    def test_control():
        for run in (lambda: asyncio.run(failing()), lambda: pool.submit(in_a_pool).result()):
            with ThreadPoolExecutor() as pool, contextlib.suppress(RuntimeError, BufferError):
                run()
        generator = generate()
        next(generator)
        generator.close()
        for _ in generate():
            next(iter([]), None)
        with contextlib.suppress(StopIteration):
            next(iter([]))
        asyncio.run(cancelled())
        try:
            pytest.skip("no")
        except BaseException:
            pass
        try:
            pytest.fail("no")
        except BaseException:
            pass
        again()
        hasattr(Lazy(), "name")
        try:
            raise ExceptionGroup("group", [ValueError(1), TypeError(2)])
        except* ValueError:
            pass
        except* TypeError:
            pass
"""


def stops_of(bench: Bench, reply: dict[str, Any]) -> list[str]:
    """The exceptions of all stops of a run to its end."""
    seen = []
    while reply["stops"]:
        stop = only_stop(reply)
        seen.append(exception_of(stop)["type"])
        reply = bench.go_on(stop)
    assert reply["exit_code"] == 0, reply
    return seen


@full
def test_an_exception_stops_once_and_control_flow_not_at_all(bench: Bench) -> None:
    """Not what ends loops, tasks and tests; what is raised again is no news; groups are one."""
    first(bench, "BaseException")
    assert stops_of(bench, bench.test(SUBTLE)) == [
        "RuntimeError", "BufferError", "OSError", "AttributeError", "ExceptionGroup",
    ]  # fmt: skip


@full
@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("StopIteration", ["StopIteration"]),
        ("GeneratorExit", ["GeneratorExit"]),
        ("asyncio.CancelledError", ["asyncio.exceptions.CancelledError"]),
        ("Skipped", ["Skipped"]),
        ("pytest.fail.Exception", ["Failed"]),
    ],
)
def test_control_flow_stops_when_it_is_named(bench: Bench, name: str, seen: list[str]) -> None:
    first(bench, name)
    assert stops_of(bench, bench.test(SUBTLE)) == seen


@full
def test_a_function_that_is_intercepted_raises_as_itself(shop: Bench) -> None:
    """Once, without our frames; what the client has a call raise stops nowhere."""
    first(shop, "KeyError")
    shop.breakpoint("shop.price")
    stop = only_stop(shop.run(["test_it.py::test_swallowed"]))
    assert stop["phase"] == "before"
    stop = only_stop(shop.go_on(stop))
    assert (stop["phase"], stop["location"]["function"]) == ("raise", "price")
    functions = [frame["function"] for frame in stop["autopsy"]["frames"][:3]]
    assert functions[0] == "price"
    assert "test_swallowed" in functions
    assert shop.go_on(stop)["exit_code"] == 0
    stop = only_stop(shop.run(["test_it.py::test_swallowed"]))
    reply = shop.go_on(stop, action="raise", exception_type="KeyError", exception_message="mine")
    assert (reply["exit_code"], reply["stops"]) == (0, [])


@full
def test_a_callable_of_c_that_is_intercepted_raises_in_its_caller(bench: Bench) -> None:
    """Our wrapper calls it, but what it raises is the program's."""
    first(bench, "ValueError")
    bench.breakpoint("roots.sqrt")
    bench.write(roots="from math import sqrt\ndef root(value): return sqrt(value)\n")
    stop = bench.stop_of(
        """
        import pytest
        from roots import root

        def test_root():
            with pytest.raises(ValueError):
                root(-1.0)
        """
    )
    assert stop["phase"] == "before"
    stop = only_stop(bench.go_on(stop))
    assert (stop["phase"], stop["location"]["function"]) == ("raise", "root")
    assert bench.go_on(stop)["exit_code"] == 0


ADDED = """
    import ctypes, sys
    from types import TracebackType

    class LookupMiss(Exception): pass

    api = ctypes.pythonapi
    api.PyThreadState_Get.restype = ctypes.c_void_p
    api.PyFrame_New.restype = ctypes.py_object
    api.PyFrame_New.argtypes = [ctypes.c_void_p, *[ctypes.py_object] * 3]
    api.PyCode_NewEmpty.restype = ctypes.py_object

    def made_of_c(name):
        \"""A frame as compilers to C make one for a traceback.\"""
        code = api.PyCode_NewEmpty(b"fast.pyx", name, 4)
        return api.PyFrame_New(api.PyThreadState_Get(), code, globals(), {})

    def fails(error):
        place = None
        for name in (b"inner", b"fails"):
            place = TracebackType(place, made_of_c(name), 0, 4)
        error = error.with_traceback(place)
        api.PyErr_SetObject(ctypes.py_object(type(error)), ctypes.py_object(error))

    def fails_in_cython(error):
        import pyximport
        pyximport.install(language_level=3)
        import fast
        fast.fails(error)
"""


@full
@pytest.mark.parametrize("scope", ["user", "all"])
@pytest.mark.parametrize("made_by", ["hand", "Cython"])
def test_entries_that_c_code_adds_to_a_traceback_are_no_frames(
    bench: Bench, scope: str, made_by: str
) -> None:
    """The first frame that can stop is the one in Python that called the C code."""
    if made_by == "Cython":
        pytest.importorskip("Cython")
    call = "fails" if made_by == "hand" else "fails_in_cython"
    caller = f"""
        import quick

        def lookup(key):
            quick.{call}(quick.LookupMiss(key))

        def test_it():
            try: lookup("desk")
            except quick.LookupMiss: pass
    """
    pyx = "def inner(error):\n    raise error\n\ndef fails(error):\n    inner(error)\n"
    bench.write(**{"quick": ADDED, "fast.pyx": pyx})
    first(bench, "LookupMiss", scope=scope)
    stop = bench.stop_of(caller)
    place = stop["location"]
    assert (place["file"], place["function"]) == ("quick.py", call)
    assert bench.eval(stop, "type(error).__name__") == "'LookupMiss'"
    assert bench.go_on(stop)["outcomes"] == {"passed": 1, "failed": 0}


@pytest.mark.full
def test_a_module_that_can_t_be_imported_stops_where_it_raises(bench: Bench) -> None:
    """While tests are collected there is no test yet; `breakpoint_wait` finds the stop."""
    known = first(bench, "ImportError")
    bench.write(test_it="import nothing_of_this_name")
    bench.run(["test_it.py"], wait=False)
    stop = bench.agent.call("breakpoint_wait", breakpoint_id=known["id"])
    assert (stop["hit"], "nodeid" in stop, stop["reason"]) == (True, False, "exception")
    assert stop["autopsy"]["exception"]["type"] == "ModuleNotFoundError"
    reply = bench.go_on(stop)
    assert reply["exit_code"] == 2, reply


FAILING = """
    import pytest

    @pytest.fixture(scope="module")
    def broken():
        raise ValueError("of the fixture")

    def test_handled():
        with pytest.raises(ValueError):
            raise ValueError("handled")

    def test_fails():
        raise ValueError("of the test")

    def test_one(broken): pass
    def test_two(broken): pass
"""


@pytest.mark.full
def test_what_escapes_a_test_or_a_fixture_stops_there(bench: Bench) -> None:
    """Second chance: also when no failure is to pause; once for an exception."""
    known = added(bench, "ValueError", break_on_first_chance=False)
    stop = bench.stop_of(FAILING, pause_on="never")
    assert (stop["phase"], stop["reason"]) == ("post_mortem", "exception")
    assert (stop["breakpoint_id"], stop["hit_count"]) == (known["id"], 1)
    assert (stop["nodeid"], stop["when"]) == ("test_it.py::test_fails", "call")
    assert bench.eval(stop, "__exception__") == "ValueError('of the test')"
    refused = bench.agent.refused("breakpoint_continue", pause_id=stop["pause_id"], action="raise")
    assert refused["allowed"] == ["continue"]
    stop = only_stop(bench.go_on(stop))
    assert (stop["nodeid"], stop["when"]) == ("test_it.py::test_one", "setup")
    reply = bench.go_on(stop)
    assert (reply["exit_code"], reply["outcomes"]["error"]) == (1, 2)
    assert listed(bench)["hit_count"] == 2


@full
def test_a_failure_that_pauses_anyway_pauses_once(bench: Bench) -> None:
    """It tells the breakpoint."""
    known = added(bench, "ValueError", break_on_first_chance=False)
    stop = bench.stop_of("def test_it(): raise ValueError('x')")
    assert (stop["reason"], stop["breakpoint_id"]) == ("test_failure", known["id"])
    assert bench.go_on(stop)["exit_code"] == 1


THREADS = """
    import threading

    class Careless:
        def __del__(self):
            raise LookupError("in a finalizer")

    def work():
        number = 41
        raise LookupError("in a thread")

    def test_thread():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    def test_finalizer():
        Careless()
"""


@full
def test_what_escapes_a_thread_stops_there(bench: Bench) -> None:
    """And what can't be raised at all; pytest's warnings of both come as ever."""
    added(bench, "LookupError", break_on_first_chance=False)
    stop = bench.stop_of(THREADS)
    assert (stop["phase"], stop["reason"]) == ("post_mortem", "exception")
    assert (stop["location"]["function"], locals_of(stop)) == ("work", {"number": "41"})
    assert stop["thread"]["name"].startswith("Thread-")
    stop = only_stop(bench.go_on(stop))
    assert exception_of(stop) == {"type": "LookupError", "message": "in a finalizer"}
    assert stop["location"]["function"] == "Careless.__del__"
    reply = bench.go_on(stop)
    assert reply["exit_code"] == 0
    assert reply["outcomes"]["passed"] == 2
    bench.agent.call("breakpoint_remove", id=listed(bench)["id"])
    assert bench.run(args=["-W", "error"], pause_on="never")["outcomes"]["failed"] == 2


@full
def test_evaluations_stop_nowhere_and_every_frame_may_be_asked_for(bench: Bench) -> None:
    """`scope: all` stops in a library that handles it; an expression's error is the client's."""
    test = """
        import ipaddress

        def test_address():
            assert ipaddress.ip_address("::1").version == 6
    """
    first(bench, "ipaddress.AddressValueError")
    assert bench.test(test)["exit_code"] == 0
    first(bench, "ipaddress.AddressValueError", scope="all")
    stop = bench.stop_of(test)
    assert stop["autopsy"]["frames"][0]["isExternal"] is True
    assert stop["location"]["function"] == "test_address"  # the top user frame, as everywhere
    assert "AddressValueError" in bench.eval(stop, "IPv4Address('x')", frame_index=0)
    assert bench.go_on(stop)["exit_code"] == 0
    counts = [each["hit_count"] for each in bench.agent.call("breakpoint_list")["breakpoints"]]
    assert counts == [0, 1]


@full
def test_workers_stop_and_forked_children_do_not(bench: Bench) -> None:
    """Counts are those of all workers."""
    first(bench, "ZeroDivisionError")
    bench.write(
        test_it="""
        import os
        import pytest

        @pytest.mark.parametrize("number", range(2))
        def test_divides(number):
            child = os.fork()
            if not child:
                try:
                    1 / 0
                except ZeroDivisionError:
                    os._exit(7)
                os._exit(1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
            with pytest.raises(ZeroDivisionError):
                1 / 0
        """
    )
    reply = bench.run(workers=2, args=["--dist=each"], wait=False)
    assert reply["run_id"]
    for stop in bench.until_paused(2):
        bench.agent.call("breakpoint_continue", pause_id=stop["pause_id"])
    seen = 2
    while bench.agent.call("debug_state")["state"] not in ("finished", "crashed"):
        for stop in bench.agent.call("breakpoint_list_paused")["paused"]:
            bench.agent.call("breakpoint_continue", pause_id=stop["pause_id"])
            seen += 1
    assert (seen, listed(bench)["hit_count"]) == (4, 4)
    assert bench.agent.call("debug_state")["outcomes"] == {"passed": 4}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({}, "missing_parameter"),
        ({"exception_type": "a b"}, "invalid_exception_type"),
        ({"exception_type": "shop..Error"}, "invalid_exception_type"),
        ({"exception_type": "print"}, "invalid_exception_type"),
        ({"exception_type": "KeyError", "scope": "mine"}, "invalid_parameter"),
        (
            {
                "exception_type": "KeyError",
                "break_on_first_chance": False,
                "break_on_second_chance": False,
            },
            "invalid_parameter",
        ),
    ],
)
def test_what_can_t_be_set_is_refused(bench: Bench, arguments: dict[str, Any], error: str) -> None:
    """Nothing is added."""
    assert bench.agent.refused("breakpoint_set_exception", **arguments)["error"] == error
    assert bench.agent.call("breakpoint_list")["breakpoints"] == []
