"""What a program can see of its interpreter is the same while its calls are watched."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.together.conftest import MakeProject
from tests.together.driver import DEADLINE_S
from tests.together.frontend import clean_environment
from tests.together.records import command, recorded
from tests.together.workbench import workbench

OBSERVER = """
    import _thread, abc, asyncio, atexit, builtins, codecs, contextvars, copyreg, decimal
    import functools, gc, linecache, locale, logging, os, random, re, signal, sys, threading
    import time, types, warnings, weakref

    class Watched:
        def __init__(self, number):
            self.number = number

    class Interface(abc.ABC):
        @abc.abstractmethod
        def method(self): ...

    @functools.lru_cache
    def cached(number):
        return number

    VARIABLE = contextvars.ContextVar("variable", default=0)

    def functions(module):
        return [each for each in vars(module).values() if isinstance(each, types.FunctionType)]

    def descriptors():
        if not os.path.isdir("/proc/self/fd"):
            return None
        found = {}
        for each in os.listdir("/proc/self/fd"):
            try:
                found[each] = os.readlink(f"/proc/self/fd/{each}")
            except OSError:
                pass  # of the listing itself
        return found

    def folders():
        return sorted(each for each in os.listdir(".") if each != "seen.json")

    def observed(module, value):
        main = threading.main_thread()
        seen = {
            "modules": sorted(sys.modules),
            "builtins": sorted(vars(builtins)),
            "filters": [repr(each) for each in warnings.filters],
            "registry": sorted(map(repr, getattr(module, "__warningregistry__", {}))),
            "lines": sorted(linecache.cache),
            "references": sys.getrefcount(value),
            "referrers": len(gc.get_referrers(value)),
            "attributes": sorted(vars(value)),
            "weak references": weakref.getweakrefcount(value),
            "weak references of its class": weakref.getweakrefcount(type(value)),
            "subclasses": len(type(value).__subclasses__()),
            "interfaces": abc._get_dump(Interface)[1:] and len(abc._get_dump(Interface)[1]),
            "cached": cached.cache_info(),
            "functions": [(each.__name__, sorted(vars(each))) for each in functions(module)],
            "codes": [hash(each.__code__) for each in functions(module)],
            "constants": [
                [type(each).__name__ for each in function.__code__.co_consts]
                for function in functions(module)
            ],
            "globals": sorted(vars(module)),
            "collector": (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()),
            "garbage": len(gc.garbage),
            "collector's callbacks": len(gc.callbacks),
            "debug flags": gc.get_debug(),
            "switch interval": sys.getswitchinterval(),
            "recursion limit": sys.getrecursionlimit(),
            "hooks": [
                repr(getattr(sys, name))
                for name in ("excepthook", "unraisablehook", "displayhook", "breakpointhook")
            ],
            "hook of threads": repr(threading.excepthook),
            "tracing": (sys.getprofile(), threading.getprofile()),
            "generators' hooks": sys.get_asyncgen_hooks(),
            "origin of coroutines": sys.get_coroutine_origin_tracking_depth(),
            "exception": sys.exc_info(),
            "last exception": [hasattr(sys, "last_value"), hasattr(sys, "last_exc")],
            "threads": [each.name for each in threading.enumerate()],
            "counted threads": threading.active_count(),
            "name of the thread": main.name,
            "stack size": threading.stack_size(),
            "signals": [repr(signal.getsignal(each)) for each in sorted(signal.valid_signals())],
            "wakeup": signal.set_wakeup_fd(-1),
            "timers": [
                signal.getitimer(each) for each in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL)
            ],
            "blocked signals": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
            "random": hash(random.getstate()),
            "variables": sorted((repr(k), repr(v)) for k, v in contextvars.copy_context().items()),
            "decimal": repr(decimal.getcontext()),
            "locale": locale.setlocale(locale.LC_ALL),
            "zone": time.tzname,
            "environment": dict(os.environ) | {"PYTEST_CURRENT_TEST": ""},
            "folder": os.getcwd(),
            "files": folders(),
            "path": list(sys.path),
            "finders": [repr(each) for each in sys.meta_path],
            "caches of importers": len(sys.path_importer_cache),
            "reducers": len(copyreg.dispatch_table),
            "compiled expressions": len(re._cache),
            "loggers": sorted(logging.root.manager.loggerDict),
            "loop": asyncio._get_running_loop(),
            "policy": repr(asyncio.events._event_loop_policy),
            "descriptors": descriptors(),
            "children": len(os.listdir("/proc/self/task")) if os.path.isdir("/proc") else 0,
            "umask": oct(umask()),
            "arguments": list(sys.argv),
            "at exit": atexit._ncallbacks(),
            "codecs": repr(codecs.lookup_error("strict")),
        }
        return seen

    def kept(names):
        # Of its locals, to be compared later.
        return [(name, id(value)) for name, value in names.items()]

    class Counting(dict):  # the namespace of a class
        changes = 0

        def __setitem__(self, *item):
            self.changes += 1
            super().__setitem__(*item)

        def __delitem__(self, name):
            self.changes += 1
            super().__delitem__(name)

    class Counted(type):
        @classmethod
        def __prepare__(cls, *args):
            return Counting()

        def __init__(cls, name, bases, names):
            super().__init__(name, bases, names)
            cls.changes = names.changes

    def umask():
        now = os.umask(0)
        os.umask(now)
        return now
"""

SUITE = """
    import gc, json, os, pathlib
    import pytest
    import shop
    from observer import Watched, observed

    DIFFERENT = {}
    # Its module, qualified name, amount, what is added, a method, and the cell of the class.
    CHANGES_OF_CLASS = 6

    def watched(number, held):
        for result in (
            shop.table({}, held),
            *shop.counted(number, held),
            shop.outer(number, held),
            shop.made(number, held) - CHANGES_OF_CLASS + number + 1,
        ):
            if result not in (None, number + 1):
                DIFFERENT[f"locals or changes of {result}"] = [number]
        gc.collect()  # what holds its own locals is in them

    @pytest.mark.parametrize("number", range(3))
    def test_it(number):
        held = Watched(number)
        observed(shop, held)
        before = observed(shop, held)
        watched(number, held)
        after = observed(shop, held)
        for name in before:
            if before[name] != after[name]:
                DIFFERENT[f"{name} of {number}"] = [repr(before[name]), repr(after[name])]

    def test_differences():
        pathlib.Path("seen.json").write_text(json.dumps(DIFFERENT))
"""

SHOP = """
    from observer import Counted, kept

    def inner(number, held):
        held = [held]
        mine = locals()
        mine["number"] = mine["extra"] = 5
        before = kept(mine)
        result = number + 1  # watched
        after = kept(mine)
        return result if before == after and locals() is mine else "inner"

    def outer(number, held):
        def enclosed():
            return number, held

        mine = locals()
        mine["held"] = mine["extra"] = 5
        before = kept(mine)
        result = inner(number, held)
        after = kept(mine)
        return result if before == after and locals() is mine else "outer"

    def table(prices, held):
        mine = locals()
        mine["prices"] = mine["extra"] = 5
        before = kept(mine)
        try:
            return prices["none"]
        except KeyError:
            after = kept(mine)
            return None if before == after and locals() is mine else "table"

    def counted(number, held):
        mine = locals()
        mine["held"] = mine["extra"] = 5
        before = kept(mine)
        yield inner(number, held)
        yield None if before == kept(mine) and locals() is mine else "counted"

    def made(number, held):
        class Made(metaclass=Counted):
            amount = number
            added = inner(number, held)

            def method(self):
                return __class__

        return Made.changes
"""

FILES = {"observer": OBSERVER, "test_it": SUITE, "shop": SHOP}
LINE = SHOP.splitlines().index("        result = number + 1  # watched") + 1
HOLDS_LOCALS = sys.version_info[:2] == (3, 12)
"""Whether a function holds its locals, and nobody but a look at its frame renews them.

Before, the interpreter does so where lines are traced; after, `locals()` is a copy of its own.
"""


def changed(root: Path) -> dict[str, Any]:
    """What the program saw change, and how."""
    found: dict[str, Any] = json.loads((root / "seen.json").read_text(encoding="utf-8"))
    return {each: found[each] for each in found if HOLDS_LOCALS or not each.startswith("locals")}


@pytest.mark.full
@pytest.mark.sample("nothing", "both")
@pytest.mark.parametrize("watched", ["nothing", "hits", "calls", "both"])
def test_a_recorded_run_looks_as_one_without_us(make_project: MakeProject, watched: str) -> None:
    root = make_project(**FILES)
    arguments = []
    if watched in ("hits", "both"):
        arguments.append(f"--cideldill-trace=shop.py:{LINE}={{number}} {{held}}")
    if watched in ("calls", "both"):
        arguments.append("--cideldill-record-calls=shop.*")
    done = recorded(root, *arguments)
    assert done.exit_code == 0, done.out
    assert len(done.of("hit")) == (9 if watched in ("hits", "both") else 0)
    assert changed(root) == {}


@pytest.mark.full
def test_a_run_without_us_sees_no_change(make_project: MakeProject) -> None:
    root = make_project(**FILES)
    subprocess.run(
        command("-p", "no:cideldill"),
        cwd=root,
        env=clean_environment(),
        timeout=DEADLINE_S,
        check=True,
        capture_output=True,
    )
    assert changed(root) == {}


FRAMES = 3
"""Frames that a client looks at in a stop."""

MOST_LOOKED_AT = 8
"""Stops where it looks at all of these."""

WAYS: dict[str, Any] = {
    "stops": lambda bench: bench.breakpoint("shop.*"),
    "recorded calls": lambda bench: bench.breakpoint("shop.*", behavior="go"),
    "lines": lambda bench: bench.agent.call("breakpoint_set", file="shop.py", line=LINE),
    "messages": lambda bench: bench.agent.call(
        "tracepoint_set", file="shop.py", line=LINE, log_message="{number} {held}"
    ),
    "raises": lambda bench: bench.agent.call("breakpoint_set_exception", exception_type="KeyError"),
}


@pytest.mark.full
@pytest.mark.sample("stops", "raises", "recorded calls")
@pytest.mark.parametrize("way", WAYS)
def test_a_served_run_looks_as_one_without_us(tmp_path: Path, way: str) -> None:
    """Also where clients look: at variables, the stack, results of expressions, an object."""
    with workbench(tmp_path / "project") as bench:
        bench.write(**FILES)
        WAYS[way](bench)
        reply, stops = bench.run(), 0
        while reply["stops"]:
            stops += 1
            (stop,) = reply["stops"]
            about = {"pause_id": stop["pause_id"]}
            answer = bench.agent.call("breakpoint_repl_eval", **about, expression="held")
            for frame in range(FRAMES if stops < MOST_LOOKED_AT else 1):
                where = about | {"frame_index": frame}
                bench.agent.call("variables_get", **where)
                bench.agent.call("variables_get", **where, names=["held"])
                bench.agent.call("breakpoint_repl_eval", **where, expression="dir(), new := 1")
            bench.agent.call("stacktrace_get", **about)
            bench.agent.call("threads_list")
            if way == "lines":
                bench.agent.call("debug_step", **about)
            if cid := answer.get("result_cid"):
                bench.agent.call("breakpoint_inspect_object", cid=cid)
            reply = bench.go_on(stop)
        assert reply["outcomes"] == {"passed": 4, "failed": 0}
        assert (stops > 0) == (way in ("stops", "lines", "raises"))
        assert changed(bench.root) == {}
