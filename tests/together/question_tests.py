"""Live cases of questions: threads, names, kinds of tests, tests that misbehave, and sources."""

from __future__ import annotations

import sys

from tests.together.question_cases import Case

# On 3.11 calls of functions made in C can't be seen, so what came just before is lost.
AT_THE_END = ("work(n=3) … not ended",) if sys.version_info >= (3, 12) else ()

TESTS: tuple[Case, ...] = (
    # --- threads, C, libraries, names -----------------------------------------------------------
    Case(
        "threads",
        """
        import threading

        def work(n):
            return n * 2

        def test_it():
            for name in ("alpha", "beta"):
                thread = threading.Thread(target=work, args=(len(name),), name=name)
                thread.start()
                thread.join()
        """,
        ("[alpha] work(n=5) → 10", "[beta] work(n=4) → 8"),
    ),
    Case(
        "thread_lines",
        """
        import threading

        def work(n):
            m = n * 2
            return m

        def test_it():
            thread = threading.Thread(target=work, args=(3,), name="alpha")
            thread.start()
            thread.join()
        """,
        ("work(n=3) → 6", "in thread alpha", "m=6"),
        {"function": "work"},
    ),
    Case(
        "c_callable",
        "def test_it():\n    assert len('a') == 1\n",
        ("len", "C"),
        {"function": "builtins.len"},
        refused="invalid_parameter",
    ),
    Case(
        "library",
        "import json\n\ndef test_it():\n    assert json.loads('1') == 1\n",
        ("json.loads",),
        {"function": "json.loads"},
        refused="invalid_parameter",
    ),
    Case(
        "misspelled",
        """
        def compute_total(n):
            return n

        def alpha(): pass
        def beta(): pass
        def gamma(): pass

        def test_it():
            alpha(), beta(), gamma(), compute_total(1)
        """,
        ("did you mean test_misspelled.compute_total?",),
        {"function": "compute_totl"},
        refused="function_not_found",
    ),
    Case(
        "uncalled",
        """
        def compute(n):
            return n

        def other(n):
            return n

        def test_it():
            other(1)
        """,
        ("makes no call of a function 'compute'",),
        {"function": "compute"},
        refused="function_not_found",
    ),
    # --- secrets and hostile objects ------------------------------------------------------------
    Case(
        "secrets",
        """
        import os

        class Account:
            def __init__(self, user, password):
                self.user = user
                self.api_key = password[::-1]

        def login(user, password):
            token = os.environ["SERVICE_TOKEN"]
            account = Account(user, password)
            account.api_key = token + "x"
            return f"{user}:{token}"

        def test_it():
            assert login("jo", "correct-h0rse-battery") == ""
        """,
        ("login(user='jo', password=<redacted:password", "✗"),
        lacks=("h0rse", "esr0h", "zq81"),
        outcome="failed",
    ),
    Case(
        "secret_lines",
        """
        import os

        def login(user, password):
            token = os.environ["SERVICE_TOKEN"]
            pair = (user, password)
            table = {"password": password, "n": 1}
            for letter in "ab":
                table["n"] += 1
            raise ValueError(f"bad {token} {password}")

        def test_it():
            login("jo", "correct-h0rse-battery")
        """,
        ("user='jo'", "<redacted", "ValueError: bad <redacted"),
        {"function": "login"},
        lacks=("h0rse", "zq81"),
        outcome="failed",
    ),
    Case(
        "hostile",
        """
        class Hostile:
            def __repr__(self): raise SystemExit("repr")
            def __eq__(self, other): raise SystemExit("eq")
            def __hash__(self): raise SystemExit("hash")
            def __bool__(self): raise SystemExit("bool")
            def __len__(self): raise SystemExit("len")
            def __iter__(self): raise SystemExit("iter")
            def __getattribute__(self, name): raise SystemExit(name)
            def __getattr__(self, name): raise SystemExit(name)

        class Meta(type):
            def __getattribute__(cls, name): raise SystemExit(name)
            def __eq__(cls, other): raise SystemExit("eq")
            def __hash__(cls): raise SystemExit("hash")

        def take(thing, *more):
            kept = [thing]
            kept += more
            last = kept[-1]
            thing = last
            return thing

        def test_it():
            kind = Meta("Kind", (), {})
            take(Hostile(), Hostile(), kind)
        """,
        ("take(thing=Hostile()", "kept=", "last=", "passed"),
        {"function": "take"},
    ),
    # --- kinds of tests -------------------------------------------------------------------------
    Case(
        "setup_fails",
        """
        import pytest

        def connect():
            raise ConnectionError("refused")

        @pytest.fixture
        def server():
            return connect()

        def test_it(server):
            pass
        """,
        ("error", "setup ✗", "connect() ✗ ConnectionError: refused"),
        outcome="error",
    ),
    Case(
        "teardown_fails",
        """
        import pytest

        def disconnect():
            raise ConnectionError("gone")

        @pytest.fixture
        def server():
            yield 1
            disconnect()

        def test_it(server):
            assert server
        """,
        ("error", "teardown ✗", "disconnect() ✗ ConnectionError: gone", "server() goes on"),
        outcome="error",
    ),
    Case(
        "skipped",
        """
        import pytest

        @pytest.mark.skip(reason="not today")
        def test_it():
            pass
        """,
        ("skipped: not today",),
        outcome="skipped",
    ),
    Case(
        "xfail",
        """
        import pytest

        def broken():
            raise KeyError("x")

        @pytest.mark.xfail(reason="known")
        def test_it():
            broken()
        """,
        ("xfailed", "broken() ✗ KeyError: 'x'", "known"),
        outcome="xfailed",
    ),
    Case(
        "unittest",
        """
        import unittest

        def work(n):
            return n

        class TestBox(unittest.TestCase):
            def setUp(self):
                self.n = work(1)

            def test_one(self):
                with self.subTest("sub"):
                    self.assertEqual(work(2), 3)
        """,
        ("TestBox.setUp()", "work(n=1) → 1", "work(n=2) → 2", "[sub] AssertionError: 2 != 3"),
        lacks=("contextmanager.<locals>",) if sys.version_info >= (3, 12) else (),
        test="TestBox::test_one",
        outcome="failed",
    ),
    Case(
        "parametrized",
        """
        import pytest

        def work(text):
            return text

        @pytest.mark.parametrize("text", ["a b", "[x]::y", "ü/\\\\n", ""])
        def test_it(text):
            work(text)
        """,
        ("work(text='[x]::y')",),
        test="test_it[[x]::y]",
    ),
    Case(
        "all_parameters",
        """
        import pytest

        def work(n):
            return n

        @pytest.mark.parametrize("n", [1, 2, 3])
        def test_it(n):
            assert work(n) != 2
        """,
        ("test_it[2]", "one of 3 tests", "work(n=2) → 2"),
        outcome="failed",
    ),
    Case(
        "doctest",
        '''
        def add(a, b):
            """Add.

            >>> add(1, 2)
            4
            """
            return a + b
        ''',
        ("add(a=1, b=2) → 3", "expected 4, got 3"),
        test="test_doctest.add",
        outcome="failed",
    ),
    Case(
        "classes",
        """
        class Helper:
            def value(self):
                return 1

        class TestOuter:
            class TestInner:
                def setup_method(self):
                    self.helper = Helper()

                def test_one(self):
                    assert self.helper.value() == 1
        """,
        ("TestOuter.TestInner.setup_method", "Helper.value() → 1"),
        test="TestOuter::TestInner::test_one",
    ),
    Case(
        "not_found",
        "def test_basket(): pass\n",
        ("test_not_found.py::test_basket",),
        test="test_baskt",
        refused="test_not_found",
    ),
    Case(
        "uncollected",
        "import missing_module_xyz\n\ndef test_it(): pass\n",
        ("can't be collected", "No module named 'missing_module_xyz'"),
        refused="not_live",
    ),
    Case(
        "syntax",
        "def test_it(:\n    pass\n",
        ("can't be collected", "SyntaxError", "(line 1)"),
        refused="not_live",
    ),
    # --- tests that misbehave -------------------------------------------------------------------
    Case(
        "hangs",
        """
        import time

        def wait(seconds):
            while True:
                time.sleep(seconds)

        def test_it():
            wait(0.05)
        """,
        ("partial: the test was ended by Ctrl-C after", "wait(seconds=0.05)"),
        {"timeout_s": 8},
        outcome="unfinished",
        settles=False,
    ),
    Case(
        "exits",
        """
        import os

        def work(n):
            if n == 3:
                os._exit(0)
            return n

        def test_it():
            for n in range(5):
                work(n)
        """,
        ("work(n=2) → 2", *AT_THE_END, "ended before"),
        outcome="unfinished",
    ),
    Case(
        "killed",
        """
        import os, signal

        def work(n):
            if n == 3:
                os.kill(os.getpid(), signal.SIGKILL)
            return n

        def test_it():
            for n in range(5):
                work(n)
        """,
        ("work(n=2) → 2", *AT_THE_END, "ended before"),
        outcome="unfinished",
    ),
    Case(
        "closes_files",
        """
        import os

        def work(n):
            return n

        def test_it():
            work(1)
            os.closerange(3, 1000)
            work(2)
        """,
        ("work(n=1) → 1", "work(n=2) → 2"),
        outcome="failed",  # pytest itself can't go on
    ),
    Case(
        "forks",
        """
        import os

        def work(n):
            return n

        def test_it():
            work(1)
            pid = os.fork()
            if not pid:
                work(100)
                os._exit(0)
            os.waitpid(pid, 0)
            work(2)
        """,
        ("work(n=1) → 1", "work(n=2) → 2"),
        lacks=("work(n=100)",),
    ),
    Case(
        "forks_into_pytest",
        """
        import os

        def work(n):
            return n

        def test_it():
            work(1)
            pid = os.fork()
            if not pid:
                return
            os.waitpid(pid, 0)
            work(2)
        """,
        ("work(n=1) → 1", "work(n=2) → 2", "passed"),
    ),
    Case(
        "settrace",
        """
        import sys

        def work(n):
            m = n
            return m

        def test_it():
            seen = []
            def tracer(frame, event, arg):
                seen.append(event)
                return tracer
            before = sys.gettrace()
            sys.settrace(tracer)
            work(1)
            sys.settrace(before)
            work(2)
            assert "line" in seen
        """,
        ("work(n=2) → 2",),
    ),
    Case(
        "monitoring",
        """
        import sys

        def work(n):
            return n

        def test_it():
            if sys.version_info >= (3, 12):
                m = sys.monitoring
                seen = []
                m.use_tool_id(1, "mine")
                m.register_callback(1, m.events.PY_START, lambda code, at: seen.append(code))
                m.set_events(1, m.events.PY_START)
                work(1)
                m.set_events(1, 0)
                m.free_tool_id(1)
                m.restart_events()
                assert work.__code__ in seen
            work(2)
        """,
        ("work(n=2) → 2", "passed"),
    ),
    Case(
        "frozen_time",
        """
        import time

        def work(n):
            return time.time()

        def test_it():
            kept = time.time, time.monotonic, time.perf_counter
            time.time = time.monotonic = time.perf_counter = lambda: 1.5
            assert work(1) == 1.5
            time.time, time.monotonic, time.perf_counter = kept
        """,
        ("work(n=1) → 1.5", "passed"),
    ),
    Case(
        "patched_builtins",
        """
        import builtins, os, json

        def work(n):
            return n

        def test_it():
            def broken(*args, **kwargs):
                raise RuntimeError("patched")
            names = ("open", "repr", "len", "print", "isinstance", "type", "id", "getattr")
            kept = os.write, json.dumps, {name: vars(builtins)[name] for name in names}
            vars(builtins).update(dict.fromkeys(names, broken))
            os.write = json.dumps = broken
            work([1, 2])
            os.write, json.dumps, before = kept
            vars(builtins).update(before)
        """,
        ("work(n=[1, 2]) → [1, 2]", "passed"),
    ),
    Case(
        "moves",
        """
        import os, sys

        def work(n):
            print("noise")
            return n

        def test_it():
            os.chdir("/")
            sys.stdout = sys.stderr = open(os.devnull, "w")
            os.dup2(sys.stdout.fileno(), 1)
            work(1)
        """,
        ("test_moves.py:4", "work(n=1) → 1", "passed"),
    ),
    Case(
        "recursion_limit",
        """
        def down(n):
            return down(n + 1)

        def test_it():
            down(0)
        """,
        ("RecursionError: maximum recursion depth", "down(n=0) ", "levels alike"),
        lacks=("not ended",),
        outcome="failed",
    ),
    # --- sources --------------------------------------------------------------------------------
    Case(
        "source",
        """
        def grade(n):
            if n > 10:
                return "high"
            for each in range(n):
                n += each
            return n

        def test_it():
            grade(3)
            grade(4)
        """,
        ("def grade(n):", "7×", "2×"),
        {"function": "grade"},
        of_source=True,
    ),
    Case(
        "source_of_class",
        """
        class Box:
            def one(self):
                return 1

            def two(self):
                return self.one() + self.one()

        def test_it():
            Box().two()
        """,
        ("class Box:", "2×", "1×"),
        {"function": "Box"},
        of_source=True,
    ),
)
