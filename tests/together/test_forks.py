"""Experiments in forks of one process come out as in processes of their own, or are made there.

Asked through a client: once as it is, once with `fresh`.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.together.driver import connected, server
from tests.together.experiment_cases import CASES
from tests.together.test_experiments import CHANGES, NOT_APPLIED, SHOP, TESTS, experiments_of
from tests.together.workbench import Bench

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there are no forks here")

full = pytest.mark.full


def soaking(values: list[Any]) -> list[Any]:
    """Second members of a kind, which take long together."""
    return [pytest.param(value, marks=pytest.mark.soak) for value in values]


INI = "[pytest]\naddopts = -p no:rerunfailures -p no:hypothesispytest\n"
"""Without plugins that start threads."""


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    root = tmp_path_factory.mktemp("forks") / "project"
    root.mkdir()
    files = {"shop": SHOP, "test_shop": TESTS, "pytest.ini": INI}
    for case in CASES:
        files[case.name] = case.source
        files[f"test_{case.name}"] = f"import {case.name}\n{textwrap.dedent(case.tests)}"
    for name, text in files.items():
        path = root / (name if "." in name else f"{name}.py")
        path.write_text(textwrap.dedent(text), encoding="utf-8")
    states = str(tmp_path_factory.mktemp("states"))
    env = {"PYTHONDONTWRITEBYTECODE": "1", "XDG_STATE_HOME": states}
    with connected(server(root, env=env)) as agent:
        yield Bench(agent, root)


def ask(bench: Bench, nodeids: list[str], experiments: list[dict[str, Any]], **more: Any) -> Any:
    reply = bench.agent.call(
        "test_experiment", nodeids=nodeids, experiments=experiments, timeout_s=300, **more
    )
    return {name: value for name, value in reply.items() if name not in ("id", "seconds")}


def both(bench: Bench, nodeids: list[str], experiments: list[dict[str, Any]], **more: Any) -> Any:
    """The reply, which is the same in forks and in processes of their own."""
    warm = ask(bench, nodeids, experiments, **more)
    assert warm == ask(bench, nodeids, experiments, fresh=True, **more)
    return warm


@full
def test_two_changes_come_out_as_in_processes_of_their_own(asking: Bench) -> None:
    names = ("a result", "a local")
    changes = [{"name": name} | CHANGES[name][0] for name in names]
    reply = both(asking, ["test_shop.py::test_total"], changes)
    assert reply["cause"] == "a result"


@pytest.mark.parametrize("start", soaking([0, 1, 2, 3]))
def test_all_changes_come_out_as_in_processes_of_their_own(asking: Bench, start: int) -> None:
    some = list(CHANGES.items())[start::4]
    changes = [{"name": name} | change for name, (change, _) in some]
    both(asking, ["test_shop.py"], changes, evaluate=["cart.items"])


@pytest.mark.soak
def test_what_is_not_applied_is_explained_as_in_processes_of_their_own(asking: Bench) -> None:
    changes = [{"name": name} | change for name, (change, _) in NOT_APPLIED.items()]
    both(asking, ["test_shop.py::test_total"], changes)


@pytest.mark.soak
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_fixes_come_out_as_in_processes_of_their_own(asking: Bench, case: Any) -> None:
    both(asking, [f"test_{case.name}.py"], experiments_of(case))


def is_gone(pid: int) -> bool:
    """Whether a process has ended; its new parent may not have looked at it yet."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] in "ZX"


PARENT = "__import__('os').getppid()"
"""Of an experiment's process: in a fork the process that has collected."""

LOST = """
    def lost():
        return 1

    def test_lost():
        assert lost() == 2

    def test_other():
        assert lost() == 1
    """

EXPERIMENTS: list[dict[str, Any]] = [
    {"name": "two", "return": {"function": "lost", "value": 2}},
    {"name": "three", "return": {"function": "lost", "value": 3}},
]


def parents(bench: Bench, file: str, **more: Any) -> set[str]:
    """The parents of the processes in which the experiments were made."""
    asked = ask(bench, [file], EXPERIMENTS, evaluate=[PARENT], **more)
    assert asked["experiments"][0]["flips"] == [f"{file}::test_lost"]
    return {each["values"][PARENT] for each in asked["experiments"]}


@full
def test_experiments_have_one_parent_which_is_not_that_of_fresh_ones(asking: Bench) -> None:
    asking.write(test_lost=LOST)
    warm, fresh = parents(asking, "test_lost.py"), parents(asking, "test_lost.py", fresh=True)
    assert (len(warm), len(fresh), len(warm | fresh)) == (1, 1, 2)


OBSTACLES = {
    "a thread": "import threading, time\n"
    "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()",
    "a folder": "import tempfile\nfolder = tempfile.TemporaryDirectory()",
    "a file": "open(__file__ + '.log', 'w').close()",
    "an open file": "kept = open(__file__)",
    "a socket": "import socket\nends = socket.socketpair()",
    "a loop": "import asyncio\nloop = asyncio.new_event_loop()",
    "a child": "import subprocess, sys\nchild = subprocess.Popen([sys.executable, '-c', ''])",
    "shared memory": "import multiprocessing\nlock = multiprocessing.get_context('fork').Lock()",
}


@pytest.mark.parametrize(
    "obstacle", [pytest.param("a thread", marks=full), *soaking(list(OBSTACLES)[1:])]
)
def test_what_forks_would_share_is_not_forked(asking: Bench, obstacle: str) -> None:
    name = f"test_no_{obstacle.replace(' ', '_')}"
    asking.write(**{name: f"{OBSTACLES[obstacle]}\n{textwrap.dedent(LOST)}"})
    assert parents(asking, f"{name}.py") == parents(asking, f"{name}.py", fresh=True)


@pytest.mark.soak
def test_what_ran_before_the_tests_is_not_forked(asking: Bench) -> None:
    call = "import threading\nthread = threading.Thread(target=lost)\nthread.start()\nthread.join()"
    asking.write(test_called=f"{textwrap.dedent(LOST)}\n{call}")
    warm = parents(asking, "test_called.py")
    assert warm == parents(asking, "test_called.py", fresh=True)
    both(asking, ["test_called.py"], EXPERIMENTS)


@pytest.mark.soak
def test_a_test_that_forks_would_disturb_is_not_forked(asking: Bench) -> None:
    asking.write(
        test_own=f"""
        import os
        OWN = os.getpid()
        {textwrap.indent(textwrap.dedent(LOST), " " * 8).strip()}

        def test_process():
            assert os.getpid() == OWN
        """
    )
    reply = both(asking, ["test_own.py"], EXPERIMENTS)
    assert reply["baseline"]["test_own.py::test_process"] == "passed"


@pytest.mark.soak
@pytest.mark.timeout(200)
def test_one_that_hangs_holds_no_other_one_up_and_nothing_is_left(asking: Bench) -> None:
    pids = asking.root / "pids.txt"
    asking.write(
        test_hanging=f"""
        import os, signal, time

        def limit():
            return 0

        def test_it():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            with open({str(pids)!r}, "a") as file:
                print(os.getpid(), file=file)
            end = time.monotonic() + limit()
            while time.monotonic() < end:
                time.sleep(0.1)
            assert limit()
        """
    )
    values = (0.2, 600, 0.3, 0.4)
    experiments = [
        {"name": str(each), "return": {"function": "limit", "value": each}} for each in values
    ]
    reply = asking.agent.call(
        "test_experiment", nodeids=["test_hanging.py"], experiments=experiments, timeout_s=20
    )
    outcomes = [each["outcomes"]["test_hanging.py::test_it"] for each in reply["experiments"]]
    assert outcomes == ["passed", "unfinished", "passed", "passed"], reply["text"]
    for pid in map(int, pids.read_text().split()):
        assert is_gone(pid)
