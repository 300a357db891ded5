"""What tests patch, fake, freeze and shadow does not reach the modules that run beside them."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.together.driver import DEADLINE_S, exception_of, only_stop
from tests.together.frontend import clean_environment
from tests.together.installed import on_path
from tests.together.records import recorded
from tests.together.workbench import Bench, workbench

WALKER = """
    import dis, json, pathlib, sys, types

    FAKED = ("posix", "nt", "time", "_io", "io")

    def codes(code):
        yield code
        for each in code.co_consts:
            if isinstance(each, types.CodeType):
                yield from codes(each)

    def pytest_sessionfinish():
        found = {"builtins": [], "faked": [], "imports": [], "calls": []}
        ours = {n: m for n, m in sys.modules.items() if n.startswith("pytest_cideldill.")}
        outside = ("plugin", "hookspecs", "fixtures", "config.agents", "config.parsers")
        outside += ("interpreter.sealed",)
        for name, module in ours.items():
            part = name.partition(".")[2]
            if part in outside:
                continue
            held = vars(module)
            if held["__builtins__"] is vars(sys.modules["builtins"]):
                found["builtins"].append(part)
            for key, value in held.items():
                if isinstance(value, types.BuiltinFunctionType) and value.__module__ in FAKED:
                    found["faked"].append(f"{part}: {key}")
            for code in codes(module.__spec__.loader.get_code(name)):
                look(part, code, held, found)
        pathlib.Path("walked").write_text(json.dumps(found))

    def look(part, code, held, found):
        steps = list(dis.get_instructions(code))
        for step, after in zip(steps, steps[1:]):
            if step.opname == "IMPORT_NAME" and code.co_name != "<module>":
                found["imports"].append(f"{part}.{code.co_qualname}: {step.argval}")
            if step.opname == "LOAD_GLOBAL" and after.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                module = held.get(step.argval)
                is_module = isinstance(module, types.ModuleType)
                if is_module and sys.modules.get(module.__name__) is module:
                    if module.__name__.partition(".")[0] in sys.stdlib_module_names:
                        value = getattr(module, after.argval, None)
                        if isinstance(value, (types.FunctionType, types.BuiltinFunctionType)):
                            call = f"{step.argval}.{after.argval}"
                            found["calls"].append(f"{part}.{code.co_qualname}: {call}")
"""

LATE_IMPORTS = {
    # Before the first conftest.
    "hooks.start.switch_on: pytest_cideldill.hooks.debugged_process",
    "hooks.start._declared: pytest_cideldill.hooks.declared_tracepoints",
    "hooks.start._record: pytest_cideldill.hooks.why",
    "hooks.start._record: pytest_cideldill.hooks.recording",
    "hooks.start._of_worker: pytest_cideldill.hooks.xdist",
    "hooks.start.switch_on: pytest_cideldill.hooks.xdist",
    "hooks.recording.begin: pytest_cideldill.hooks.start",
    "config.settings._ini_type: pytest",
    "config.settings._from_ini: pytest",
    "config.settings._toml: tomllib",
    "config.settings._overridden: argparse",
    "config.settings._overridden: shlex",
    "tracing.interface.source_class: pytest_cideldill.tracing.sysmon",
    "tracing.interface.source_class: pytest_cideldill.tracing.settrace",
    # When all tests are over.
    "hooks.recording._put_together: pytest_cideldill.reports.digest",
    "hooks.recording._written_for_people.<locals>.report: pytest_cideldill.reports.html",
    "hooks.recording._written_for_people.<locals>.report: pytest_cideldill.reports.digest",
    "hooks.recording._written_for_people.<locals>.summarized: pytest_cideldill.reports.markdown",
    "records.merge.merge_kept: pytest_cideldill.objects.merge",
    # When a client asks for an object by its content id: dill is no module of Python.
    "objects.pickles._dill: dill",
}

PUBLIC_CALLS = {
    # Before the first conftest, or at the very end.
    "hooks.start._hello: platform.python_version",
    "protocol.current_test_file._mapped: ctypes.addressof",
    "protocol.current_test_file._mapped: ctypes.get_errno",
    "hooks.debugged_process._own_directory: tempfile.mkdtemp",
    "hooks.debugged_process._own_directory: shutil.rmtree",
    "hooks.guest._polite: functools.wraps",
    "hooks.guest._around: functools.wraps",
    # When a client changes the arguments of a call, or names an exception by its path.
    "pauses.resume._signature: inspect.signature",
    "patching.substitute._signature: inspect.signature",
    # Once, when the module is loaded; in a process of its own.
    "sourcecode.helper.main: warnings.simplefilter",
    # When the first function is intercepted: C code that nothing in the tables of fakers means.
    "patching.function_code.show: ctypes.addressof",
    "patching.function_code._slot: ctypes.sizeof",
    # The program's own log, on purpose.
    "hooks.set_trace.UserBreakpoints._pass: logging.getLogger",
    # 3.11: what new threads are given is kept by `threading`.
    "tracing.installer.Installer.check: threading.gettrace",
    "tracing.installer.Installer.install: threading.gettrace",
    "tracing.installer.Installer.install: threading.settrace",
    "tracing.installer.Installer.remove: threading.gettrace",
    "tracing.installer.Installer.remove: threading.settrace",
    "tracing.installer.Installer.leave: threading.gettrace",
    "tracing.installer.Installer.leave: threading.settrace",
}


def project(root: Path, **files: str) -> Path:
    root.mkdir(exist_ok=True)
    (root / "pytest.ini").touch()
    for name, text in files.items():
        (root / f"{name}.py").write_text(textwrap.dedent(text), encoding="utf-8")
    return root


def plain(root: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The run without us."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cideldill", "-p", "no:cacheprovider"],
        cwd=root,
        env=clean_environment(**environment),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=DEADLINE_S * 4,
        check=False,
    )


@pytest.mark.full
@pytest.mark.parametrize("is_served", [True, pytest.param(False, marks=pytest.mark.full)])
def test_nothing_of_ours_is_looked_up_where_the_program_can_change_it(
    tmp_path: Path, is_served: bool
) -> None:
    """By the code of all modules that are loaded: builtins, functions, imports."""
    files = {"conftest": WALKER, "test_it": "def f(x): return x\n\ndef test_it(): f(1)\n"}
    if is_served:
        with workbench(tmp_path / "project") as bench:
            root = bench.root
            project(root, **files)
            bench.breakpoint("f", behavior="go")
            assert bench.run()["exit_code"] == 0
    else:
        root = project(tmp_path / "project", **files)
        assert recorded(root, "--cideldill-trace=test_it.py:1={x}").exit_code == 0
    found = json.loads((root / "walked").read_text())
    assert found["builtins"] == []
    assert found["faked"] == []
    assert set(found["imports"]) <= LATE_IMPORTS
    assert set(found["calls"]) <= PUBLIC_CALLS


SHADOWED = """
    import importlib.machinery, pathlib, sys

    def pytest_unconfigure():
        needed = {each.partition(".")[0] for each in sys.modules}
        here = pathlib.Path(__file__).parent / "shadows"
        here.mkdir()
        for name in sys.stdlib_module_names - needed - set(sys.builtin_module_names):
            is_here = importlib.machinery.PathFinder.find_spec(name) is not None
            if is_here and not name.startswith("_"):
                (here / f"{name}.py").write_text("VALUE = 1\\n")
"""


@pytest.mark.full
def test_a_file_named_as_any_module_of_python_never_becomes_ours(tmp_path: Path) -> None:
    """All but those that pytest imports itself; served, recorded, with calls and evaluations."""
    lister = project(
        tmp_path / "lister", conftest=SHADOWED, test_it="def test_it(): assert [1] == 2\n"
    )
    assert plain(lister).returncode == 1
    shadows = sorted((lister / "shadows").glob("*.py"))
    assert len(shadows) > 50
    root = tmp_path / "project"
    with workbench(root) as bench:
        for each in shadows:
            (root / each.name).write_text(each.read_text())
        text = """
            import secrets

            def f(x):
                return x

            def test_it():
                assert f(secrets.VALUE) == 2
        """
        bench.breakpoint("f")
        stop = bench.stop_of(text)
        assert bench.eval(stop, "[x, 1 + 1]") == "[1, 2]"
        failed = only_stop(bench.go_on(stop))
        assert exception_of(failed)["type"] == "AssertionError"
        bench.go_on(failed)
        calls = ("--cideldill-record-calls=test_it.f", "--cideldill-trace=test_it.py:5={x}")
        for watched in ((), calls):
            record = f"rec{len(watched)}"
            run = recorded(root, "test_it.py", *watched, record=record)
            assert run.exit_code == 1, run.out + run.err
            assert "Traceback" not in run.err + run.out
            assert "not complete" not in run.out


FAKED = """
    import os, time

    def step(i):
        return i

    def test_files(fs):
        opened = [open(f"/file{{n}}", "wb") for n in range(40)]
        for i in range(60):
            step(i)
            print(i)
            time.sleep(0.01)  # rows are written meanwhile
        for each in opened:
            each.close()
        assert {{os.stat(f"/file{{n}}").st_size for n in range(40)}} == {{0}}
"""


@pytest.mark.full
def test_nothing_of_a_record_is_written_into_a_fake_file_system(tmp_path: Path) -> None:
    root = project(tmp_path / "project", test_it=FAKED.replace("{{", "{").replace("}}", "}"))
    watched = ("--cideldill-trace=test_it.py:5=i={i}", "--cideldill-record-calls=test_it.step")
    run = recorded(root, *watched, environment=on_path("pyfakefs"))
    assert run.exit_code == 0, run.out
    assert "60 hits" in run.out
    assert "not complete" not in run.out
    assert len(run.of("hit")) == 60


FROZEN = """
    import {library}

    def step(i):
        return i

    def test_time():
        with {travel}:
            step(1)
        step(2)
"""


@pytest.mark.full
@pytest.mark.sample("freezegun*", "time-machine 2*")
@pytest.mark.parametrize(
    ("package", "library", "travel"),
    [
        ("time-machine 2", "time_machine", 'time_machine.travel("2041-05-06", tick=False)'),
        ("time-machine", "time_machine", 'time_machine.travel("2041-05-06", tick=False)'),
        ("freezegun", "freezegun", 'freezegun.freeze_time("2041-05-06")'),
    ],
)
def test_limits_and_stamps_are_real_while_clocks_are_frozen(
    tmp_path: Path, package: str, library: str, travel: str
) -> None:
    """An endless expression of a tracepoint ends; no event is of 2041."""
    root = project(tmp_path / "project", test_it=FROZEN.format(library=library, travel=travel))
    endless = "--cideldill-trace=test_it.py:5={sum(1 for _ in iter(int, 1))}"
    run = recorded(root, endless, environment=on_path(package))
    assert run.exit_code == 0
    assert [each["message"] for each in run.of("hit")] == ["<error: timeout>"] * 2
    stamps = [each["ts"] for each in run.events]
    assert max(stamps) - min(stamps) < 60


EARLY = {
    "gevent": "from gevent import monkey\nmonkey.patch_all()\n",
    "eventlet": "import eventlet\neventlet.monkey_patch()\n",
}


@pytest.mark.full
@pytest.mark.sample("gevent")
@pytest.mark.parametrize("library", EARLY)
def test_tests_pause_in_a_program_that_was_patched_before_us(tmp_path: Path, library: str) -> None:
    """The I/O thread is a thread of the system, so that commands reach a parked test."""
    env = on_path(library, further=str(tmp_path / "early"))
    project(tmp_path / "early", early=EARLY[library])
    # trio, which anyio's plugin imports, needs methods that eventlet's sockets have not.
    arguments = ("-p", "early", "-p", "no:anyio")
    with workbench(tmp_path / "project", *arguments, env=env) as bench:
        stop = bench.stop_of("def test_it():\n    held = [1]\n    assert held == 2\n")
        assert bench.eval(stop, "held") == "[1]"
        assert bench.go_on(stop)["exit_code"] == 1


FORBIDDEN = """
    import asyncio, socket
    import pytest

    class Blocked(Exception): pass

    class NoSocket:
        def __init__(self, *args, **kwargs): raise Blocked

    @pytest.fixture(autouse=True)
    def no_sockets(monkeypatch):
        monkeypatch.setattr(socket, "socket", NoSocket)

    async def answer():
        return 42

    def inner(x):
        return x

    def test_it():
        assert inner(1) == 1
"""


@pytest.mark.full
def test_await_needs_no_socket_and_leaves_nothing_behind(bench: Bench) -> None:
    """Whether something waits or not; an unraisable exception would fail the test."""
    bench.write(**{"pytest.ini": "[pytest]\nfilterwarnings = error\n"})
    bench.breakpoint("test_it.inner")
    stop = bench.stop_of(FORBIDDEN)
    assert bench.eval(stop, "await answer()") == "42"
    assert bench.eval(stop, "await asyncio.sleep(0.01, 43)") == "43"
    assert bench.eval(stop, "await asyncio.to_thread(lambda: 44)") == "44"
    reply: dict[str, Any] = bench.go_on(stop)
    assert reply["exit_code"] == 0, reply
    bench.write(**{"pytest.ini": ""})


STUBBORN = """
    import importlib.machinery, _thread

    def start_new_thread(*args):
        raise NotImplementedError

    _thread.start_new_thread = start_new_thread
    importlib.machinery.BuiltinImporter.create_module = lambda spec: _thread
"""


@pytest.mark.full
@pytest.mark.parametrize("is_recorded", [pytest.param(False, marks=pytest.mark.full), True])
def test_what_can_t_be_had_of_the_interpreter_is_refused_by_name(
    tmp_path: Path, is_recorded: bool
) -> None:
    """The library that replaced it, at the start; no test runs as if it were watched."""
    root = project(tmp_path / "project", stubborn=STUBBORN, test_it="def test_it(): pass\n")
    reported = "stubborn has replaced functions of _thread"
    if is_recorded:
        watched = "--cideldill-record-calls=test_it.*"
        run = recorded(root, "-p", "stubborn", watched, environment={"PYTHONPATH": str(root)})
        assert run.exit_code == pytest.ExitCode.USAGE_ERROR
        assert reported in run.err
        return
    env = {"PYTHONPATH": str(root)}
    with workbench(tmp_path / "served", "-p", "stubborn", env=env) as bench:
        reply = bench.test("def test_it(): pass\n")
        assert reply["end"]["kind"] == "startup_error"
        assert reported in reply["end"]["message"]


PATCHING = """
    import builtins, io, json, os, pathlib, pickle, sys, tempfile

    calls = []

    def counting(owner, name):
        original = getattr(owner, name)

        def counted(*args, **kwargs):
            caller = sys._getframe(1).f_globals["__name__"]
            if name != "__import__" or caller not in ("pickle", "dill._dill"):  # as they pickle
                calls.append(f"{caller}: {name} {args[:1]!r:.80}")
            return original(*args, **kwargs)

        setattr(owner, name, counted)
        return owner, name, original

    PATCHED = [
        (builtins, "__import__"), (builtins, "open"), (io, "open"), (os, "stat"), (os, "open"),
        (os, "getcwd"), (os.path, "abspath"), (os.path, "join"), (tempfile, "gettempdir"),
    ]

    def passed(thing): return thing

    def test_it():
        class Local: x = 1
        modules, before = set(sys.modules), dict(pickle._Pickler.dispatch)
        originals = [counting(*each) for each in PATCHED]
        try:
            passed(Local())
        finally:
            for each in originals:
                setattr(*each)
        came = sorted({name.partition(".")[0] for name in set(sys.modules) - modules})
        same = before == pickle._Pickler.dispatch
        pathlib.Path("told.json").write_text(json.dumps([calls, came, same]))
"""


@pytest.mark.full
def test_a_copy_is_made_past_what_a_test_has_patched(shared_bench: Bench) -> None:
    """dill comes when a client asks for what needs it, and calls nothing that is patched."""
    shared_bench.write(test_it=PATCHING)
    shared_bench.breakpoint("test_it.passed")
    stop = only_stop(shared_bench.run(["test_it.py"]))
    asked = shared_bench.agent.call(
        "breakpoint_repl_eval", pause_id=stop["pause_id"], expression="thing"
    )
    found = shared_bench.agent.call("breakpoint_inspect_object", cid=asked["result_cid"])
    assert found["repr"] == "Local()"
    reply = shared_bench.go_on(
        stop, action="modify", modified_args=[{"$cid": asked["result_cid"]}], modified_kwargs={}
    )
    assert reply["outcomes"] == {"passed": 1, "failed": 0}
    reported = json.loads((shared_bench.root / "told.json").read_text(encoding="utf-8"))
    assert reported == [[], ["dill"], True]
    shared_bench.clear()
