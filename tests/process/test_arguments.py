"""Modified arguments, for every kind of parameter; refused requests leave the call paused."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

from tests.process.debuggee import ROOT, Debuggee, debuggee

pytestmark = pytest.mark.full  # many scans of all that a test process holds


def target_of_every_kind(
    a: Any, b: Any = "b", /, c: Any = "c", *rest: Any, d: Any, e: Any = "e", **more: Any
) -> Any:
    return a, b, c, rest, d, e, more


def target_plain(first: Any, second: Any = 2) -> Any:
    return first, second


@pytest.fixture
def process() -> Iterator[Debuggee]:
    with debuggee() as made:
        made.add(f"{__name__}.target_*")
        yield made


@pytest.mark.parametrize(
    ("args", "kwargs", "result"),
    [
        (None, None, (1, "b", "c", (), 4, "e", {})),
        ([10], None, (10, "b", "c", (), 4, "e", {})),
        ([10, 20, 30, 40, 50], None, (10, 20, 30, (40, 50), 4, "e", {})),
        (None, {"d": 40}, (1, "b", "c", (), 40, "e", {})),
        (None, {"c": 30, "e": 50}, (1, "b", 30, (), 4, 50, {})),
        (None, {"x": 60, "a": 70}, (1, "b", "c", (), 4, "e", {"x": 60, "a": 70})),
        ([10, 20], {"c": 30, "d": 40}, (10, 20, 30, (), 40, "e", {})),
        ([{"$eval": "a + 1"}], {"d": {"$eval": "[b for _ in [a]]"}},
         (2, "b", "c", (), ["b"], "e", {})),
        (None, {"x": {"$literal": {"$eval": "a"}}}, (1, "b", "c", (), 4, "e",
                                                      {"x": {"$eval": "a"}})),
    ],
)  # fmt: skip
def test_modified_arguments_reach_parameters_of_every_kind(
    process: Debuggee, args: Any, kwargs: Any, result: Any
) -> None:
    """Positional ones from the first on, and those keywords."""
    running = process.call(target_of_every_kind, 1, d=4)
    process.resume(process.stop()["id"], modified_args=args, modified_kwargs=kwargs)
    assert running.result() == result


@pytest.mark.quick
def test_what_is_omitted_stays(process: Debuggee) -> None:
    """Extra positional and keyword arguments of the call included."""
    running = process.call(target_of_every_kind, 1, 2, 3, 4, 5, d=6, x=7)
    process.resume(process.stop()["id"], modified_kwargs={"c": 30, "e": 8})
    assert running.result() == (1, 2, 30, (4, 5), 6, 8, {"x": 7})


@pytest.mark.parametrize(
    ("args", "kwargs", "result"),
    [
        ([], None, (1, 2, 3, (4, 5), 6, "e", {"x": 7})),
        ([10], None, (10, 2, 3, (4, 5), 6, "e", {"x": 7})),
        ([10, 20], None, (10, 20, 3, (4, 5), 6, "e", {"x": 7})),
        ([10, 20], {"c": 30}, (10, 20, 30, (4, 5), 6, "e", {"x": 7})),
        ([10, 20, 30], None, (10, 20, 30, (), 6, "e", {"x": 7})),
        ([10, 20, 30, 40], None, (10, 20, 30, (40,), 6, "e", {"x": 7})),
    ],
)
def test_fewer_arguments_than_positional_parameters_leave_the_others(
    process: Debuggee, args: Any, kwargs: Any, result: Any
) -> None:
    """However the caller passed them; all of them replace the extra ones as well."""
    running = process.call(target_of_every_kind, 1, 2, 3, 4, 5, d=6, x=7)
    process.resume(process.stop()["id"], modified_args=args, modified_kwargs=kwargs)
    assert running.result() == result
    running = process.call(target_plain, second=5, first=1)
    process.resume(process.stop()["id"], modified_args=[10])
    assert running.result() == (10, 5)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ([1, 2, 3], None),
        ([], {"third": 3}),
        (None, {"third": 3}),
        ([1], {"first": 2}),
        ([{"$eval": "1/0"}], None),
        (None, {"second": {"$eval": "nowhere"}}),
        (None, {"$eval": "5"}),
    ],
)
def test_arguments_that_do_not_fit_leave_the_call_paused(
    process: Debuggee, args: Any, kwargs: Any
) -> None:
    """`invalid_arguments`; the next request decides."""
    running = process.call(target_plain, 1)
    id = process.stop()["id"]
    body = process.refused(process.resume, id, modified_args=args, modified_kwargs=kwargs)
    assert body["error"] == "invalid_arguments"
    assert running.thread.is_alive()
    process.resume(id, modified_args=["still", "paused"])
    assert running.result() == ("still", "paused")


@pytest.mark.parametrize(
    ("action", "how", "code"),
    [
        ("explode", {}, "invalid_action"),
        ("skip", {"fake_result": {"$eval": "sys.exit()"}}, "invalid_arguments"),
        ("skip", {"fake_result": {"$cid": "x"}}, "cid_not_found"),
        ("raise", {"exception_type": "Nothing"}, "invalid_exception_type"),
        ("raise", {"exception_type": "int"}, "invalid_exception_type"),
    ],
)
def test_a_refused_request_leaves_the_call_paused(
    process: Debuggee, action: str, how: dict[str, Any], code: str
) -> None:
    """Everything is validated before the thread is released."""
    running = process.call(target_plain, 1)
    id = process.stop()["id"]
    assert process.refused(process.resume, id, action, **how)["error"] == code
    assert running.thread.is_alive()
    process.resume(id)
    assert running.result() == (1, 2)


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs POSIX signals")
def test_ctrl_c_while_a_request_is_checked_ends_the_pause_and_is_answered() -> None:
    """Every request is answered; the interrupt is the test's. On a main thread of its own."""
    script = """
        import signal, threading
        from tests.process.test_arguments import *
        with debuggee() as process:
            process.add(f"{target_plain.__module__}.target_*")
            answers = []
            def agent():
                how = {"modified_args": [{"$eval": "__import__('signal').raise_signal(2)"}]}
                answers.append(process.refused(process.resume, process.stop()["id"], **how))
            thread = threading.Thread(target=agent)
            thread.start()
            try:
                target_plain(1)
            except KeyboardInterrupt:
                thread.join(10)
                assert [each["error"] for each in answers] == ["pause_not_found"]
            else:
                raise AssertionError("not interrupted")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        cwd=ROOT,
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert done.stderr.decode() == ""
    assert done.returncode == 0
