"""Live cases of `test_watch`: small programs, what is watched in them, and what has to be said."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass, field
from typing import Any

_MARK = re.compile(r"# (<\w+>)$", re.MULTILINE)


@dataclass(frozen=True)
class Watched:
    """A small program, and what is watched in it.

    Attributes:
        name: Its file is `test_NAME.py`.
        source: Of the file. A comment `# <1>` names its line: `<1>` in what is expected is its
            `file:line`.
        expression: What is watched.
        has: What stands in the text, or in the message of the refusal.
        asked: Further arguments of `test_watch`.
        lacks: What does not stand in the text.
        writers: The lines that made changes, with counts, most frequent first; None: any.
        outcome: Of the test, watched or not.
        refused: The error code, if there is no answer.
        is_quick: Whether the fast tier has it.
        settles: Whether the same is answered each time.
    """

    name: str
    source: str
    expression: str
    has: tuple[str, ...]
    asked: dict[str, Any] = field(default_factory=dict)
    lacks: tuple[str, ...] = ()
    writers: tuple[tuple[str, int], ...] | None = None
    outcome: str = "passed"
    refused: str = ""
    is_quick: bool = False
    settles: bool = True

    @property
    def file(self) -> str:
        return f"test_{self.name}.py"

    @property
    def nodeid(self) -> str:
        return f"{self.file}::test_it"

    @property
    def text(self) -> str:
        return textwrap.dedent(self.source)

    def placed(self, words: str) -> str:
        """What is expected, with the places of marked lines."""
        for number, line in enumerate(self.text.splitlines(), 1):
            if mark := _MARK.search(line):
                words = words.replace(mark[1], f"{self.file}:{number}")
        return words


def in_(function: str, **more: Any) -> dict[str, Any]:
    return {"function": function, **more}


HOLDERS: tuple[Watched, ...] = (
    Watched(
        "alias",
        """
        class Cart:
            def __init__(self):
                self.items = []

            def add(self, item):
                self.items.append(item)  # <add>

        class Report:
            def __init__(self, cart):
                self.rows = cart.items

            def render(self):
                self.rows.sort(reverse=True)  # <sort>
                return self.rows[0]

        def test_it():
            cart = Cart()
            cart.add(1)
            cart.add(2)
            report = Report(cart)
            report.render()  # <call>
            assert cart.items == [1, 2]
        """,
        "self.items",
        (
            "self.items: []",
            "<add> Cart.add  + 1",
            "<sort> Report.render  [0]  1 → 2, [1]  2 → 1",
            "from test_it <call>",
            "also held at the end by: Report.rows of <Report>",
            "at the end: [2, 1]",
        ),
        in_("Cart.add"),
        writers=(("<add>", 2), ("<sort>", 1)),
        outcome="failed",
        is_quick=True,
    ),
    Watched(
        "default",
        """
        def add(item, bucket=[]):
            bucket.append(item)  # <append>
            return len(bucket)

        def test_it():
            assert add("a") == 1
            assert add("b") == 1  # <second>
        """,
        "bucket",
        (
            "bucket: []",
            "<append> add  + 'a'",
            "<append> add  + 'b'  (from test_it <second>)",
            "default of add(bucket)",
        ),
        in_("add"),
        writers=(("<append>", 2),),
        outcome="failed",
    ),
    Watched(
        "class_attribute",
        """
        class Rates:
            table = {"a": 1}

        def spoil():
            Rates().table["a"] = 2  # <item>

        def replace():
            Rates.table = {"a": 3}  # <whole>

        def test_it():
            spoil()
            replace()
            assert Rates.table == {"a": 1}
        """,
        "Rates.table",
        ("<item> spoil  ['a']  1 → 2", "<whole> replace  {'a': 2} → {'a': 3}"),
        writers=(("<item>", 1), ("<whole>", 1)),
        outcome="failed",
    ),
    Watched(
        "cache",
        """
        CACHE = {}

        def load(key):
            if key not in CACHE:
                CACHE[key] = {"name": key}  # <load>
            return CACHE[key]

        def rename(entry):
            entry["name"] = "other"  # <rename>

        def test_it():
            rename(load("k"))
            assert load("k") == {"name": "k"}
        """,
        "test_cache.CACHE['k']",
        ("unset → {'name': 'k'}", "<rename> rename  ['name']  'k' → 'other'"),
        outcome="failed",
    ),
    Watched(
        "cache_entry",
        """
        CACHE = {}

        def load(key):
            entry = {"name": key}
            CACHE[key] = entry
            return entry

        def test_it():
            load("k")
            CACHE["k"]["name"] = "x"  # <test>
        """,
        "entry",
        ("<test> test_it  ['name']  'k' → 'x'", "test_cache_entry.CACHE['k']"),
        in_("load"),
    ),
    Watched(
        "thread",
        """
        import threading

        def work(shared):
            shared["done"] = True  # <work>

        def test_it():
            shared = {"done": False}
            helper = threading.Thread(target=work, args=(shared,), name="helper-7")
            helper.start()
            helper.join()
            assert not shared["done"]
        """,
        "shared",
        ("<work> work  ['done']  False → True  (thread helper-7)",),
        in_("test_it"),
        outcome="failed",
    ),
    Watched(
        "threads",
        """
        import threading

        def work(shared, count):
            for n in range(count):
                shared.append(n)  # <work>

        def test_it():
            shared = []
            helpers = [threading.Thread(target=work, args=(shared, 500)) for _ in range(3)]
            for helper in helpers:
                helper.start()
            for helper in helpers:
                helper.join()
            assert len(shared) == 1500
        """,
        "shared",
        ("<work> work", "1,501 changes"),
        in_("test_it"),
        settles=False,
    ),
    Watched(
        "polling",
        """
        import threading
        import time

        def work(shared, done):
            time.sleep(0.01)
            shared["n"] = 1  # <work>
            done.append(1)

        def test_it():
            shared, done = {}, []
            threading.Thread(target=work, args=(shared, done)).start()
            while not done:
                time.sleep(0.001)
            assert shared == {"n": 1}
        """,
        "shared",
        ("<work> work", "['n']  + 1"),
        in_("test_it"),
        settles=False,
    ),
    Watched(
        "unwinding",
        """
        class Job:
            def __init__(self):
                self.busy = False

            def run(self):
                self.busy = True  # <set>
                self.step()
                self.busy = False

            def step(self):
                raise KeyError("no")

        def test_it():
            job = Job()
            try:
                job.run()
            except KeyError:
                pass
            assert not job.busy
        """,
        "self.busy",
        ("self.busy: False", "<set> Job.run  False → True", "at the end: True"),
        in_("Job.run"),
        lacks=("True → False",),
        writers=(("<set>", 1),),
        outcome="failed",
    ),
    Watched(
        "while_unwinding",
        """
        class Job:
            def __init__(self):
                self.state = "new"

            def run(self):
                try:
                    raise ValueError("x")
                finally:
                    self.state = "broken"  # <finally>

        def test_it():
            job = Job()
            try:
                job.run()
            except ValueError:
                job.seen = True
        """,
        "self",
        ("<finally> Job.run  .state  'new' → 'broken'", ".seen  + True"),
        in_("Job.run"),
    ),
    Watched(
        "closure",
        """
        def make():
            seen = []
            def inner(n):
                seen.append(n)  # <append>
            return inner

        def test_it():
            inner = make()
            inner(1)
            inner(2)
        """,
        "seen",
        ("<append> make.inner  + 1", "closure seen of make.<locals>.inner"),
        in_("make"),
    ),
    Watched(
        "nonlocal",
        """
        def counter():
            total = 0
            def add(n):
                nonlocal total
                total += n  # <add>
            add(1)
            add(2)
            return total

        def test_it():
            assert counter() == 3
        """,
        "total",
        ("<add> counter.add  0 → 1", "1 → 3"),
        in_("counter"),
    ),
    Watched(
        "partial",
        """
        import functools

        class Button:
            def __init__(self, on_click):
                self.on_click = on_click

        def clicked(log):
            log.append("click")  # <click>

        def start():
            log = []
            button = Button(functools.partial(clicked, log))
            return button

        def test_it():
            button = start()
            button.on_click()
        """,
        "log",
        ("<click> clicked  + 'click'", "Button.on_click.args[0] of <Button>"),
        in_("start"),
    ),
)

KINDS: tuple[Watched, ...] = (
    Watched(
        "set",
        """
        def change(tags):
            tags.add("new")  # <add>

        def test_it():
            tags = {"old"}
            change(tags)
            tags.discard("old")  # <discard>
        """,
        "tags",
        ("<add> change  + 'new'", "<discard> test_it  - 'old'"),
        in_("change"),
    ),
    Watched(
        "deque",
        """
        from collections import deque

        def push(queue):
            queue.append(1)  # <push>

        def test_it():
            queue = deque()
            push(queue)
            queue.append(2)  # <second>
            queue.popleft()  # <pop>
        """,
        "queue",
        ("<push> push  + 1", "<second> test_it  + 2", "<pop> test_it  [0]  - 1"),
        in_("push"),
    ),
    Watched(
        "slots",
        """
        from dataclasses import dataclass, field

        @dataclass(slots=True)
        class Point:
            x: int
            tags: list = field(default_factory=list)

        def move(point):
            point.x += 1  # <move>

        def test_it():
            point = Point(1)
            move(point)
            point.x = 9  # <set>
        """,
        "point",
        ("<move> move  .x  1 → 2", "<set> test_it  .x  2 → 9"),
        in_("move"),
    ),
    Watched(
        "inside",
        """
        class Item:
            def __init__(self, price):
                self.price = price

        class Order:
            def __init__(self):
                self.items = [Item(5)]
                self.first = self.items[0]
                self.meta = {"n": 1}

        def look(order):
            order.seen = True

        def spoil(items, meta):
            items[0].price = 7  # <price>
            items.append(Item(6))  # <append>
            meta["n"] = 2  # <meta>

        def test_it():
            order = Order()
            look(order)
            spoil(order.items, order.meta)
            order.items = []  # <empty>
        """,
        "order",
        (
            ".seen  + True",
            "<price> spoil  .first.price  5 → 7",
            "<append> spoil  .items  + Item(price=6)",
            "<meta> spoil  .meta['n']  1 → 2",
            "<empty> test_it  .items  [",
        ),
        in_("look"),
    ),
    Watched(
        "nested",
        """
        class Item:
            def __init__(self, price):
                self.price = price

        class Order:
            def __init__(self):
                self.items = [Item(5), Item(6)]

            def check(self):
                return len(self.items)

        def discount(item):
            item.price -= 1  # <discount>

        def test_it():
            order = Order()
            order.check()
            discount(order.items[0])
            order.items.insert(0, Item(1))  # <insert>
            order.items = []  # <empty>
        """,
        "self.items[0].price",
        ("5 → 4", "<discount> discount", "<insert> test_it  4 → 1", "<empty> test_it  1 → unset"),
        in_("Order.check"),
    ),
    Watched(
        "index",
        """
        def fill(rows, at):
            rows[at] = "full"  # <fill>
            return rows

        def test_it():
            rows = ["", "", ""]
            fill(rows, 1)
            rows[1] = "x"  # <other>
        """,
        "rows[at]",
        ("rows[at]: ''", "<fill> fill  '' → 'full'", "<other> test_it  'full' → 'x'"),
        in_("fill"),
    ),
    Watched(
        "length",
        """
        def take(queue):
            queue.pop()  # <pop>

        def test_it():
            queue = [1, 2, 3]
            take(queue)
            queue += [4, 5]  # <more>
        """,
        "len(queue)",
        ("len(queue): 3", "<pop> take  3 → 2", "<more> test_it  2 → 4"),
        in_("take"),
    ),
    Watched(
        "computed",
        """
        class Cart:
            def __init__(self):
                self.prices = [1, 2]

            def check(self, limit):
                return limit

        def test_it():
            cart = Cart()
            cart.check(1)
            cart.prices.append(3)  # <append>
            cart.prices[0] = 1
        """,
        "[price * 10 for price in self.prices if price > limit]",
        ("[20]", "<append> test_it  + 30"),
        in_("Cart.check"),
        writers=(("<append>", 1),),
    ),
    Watched(
        "raises",
        """
        def find(table):
            table["a"] = 0  # <zero>
            table["a"] = 2  # <two>

        def test_it():
            find({})
        """,
        "1 / table['a']",
        ("✗ KeyError", "<zero> find  ✗ KeyError → ✗ ZeroDivisionError", "<two> find", "→ 0.5"),
        in_("find"),
    ),
    Watched(
        "property",
        """
        class Box:
            def __init__(self):
                self._size = 1

            @property
            def size(self):
                return self._size

        def grow(box):
            box._size = 5  # <grow>

        def test_it():
            box = Box()
            grow(box)
            box._size = 6  # <more>
        """,
        "box.size",
        ("<grow> grow  1 → 5", "<more> test_it  5 → 6"),
        in_("grow"),
    ),
    Watched(
        "rebinding",
        """
        def collect(parts):
            found = []  # <first>
            for part in parts:
                found = found + [part]  # <again>
            del found[0]
            found = None  # <none>
            return found

        def test_it():
            collect("ab")
        """,
        "found",
        ("<first> collect  unset → []", "<again> collect  [] → ['a']", "['b'] → None"),
        in_("collect"),
    ),
    Watched(
        "equal_numbers",
        """
        def count(items):
            total = 0
            for item in items:
                total = total + item
            return total

        def test_it():
            assert count([0, 0, 10**6, 0]) == 10**6
        """,
        "total",
        ("unset → 0", "0 → 1000000"),
        in_("count"),
        lacks=("0 → 0", "1000000 → 1000000"),
    ),
    Watched(
        "generator",
        """
        def batches(items):
            batch = []  # <new>
            for item in items:
                batch.append(item)  # <append>
                yield batch

        def test_it():
            source = batches([1, 2, 3])
            first = next(source)
            first.append("outside")  # <outside>
            next(source)
            source.close()
            first.append("after")  # <after>
        """,
        "batch",
        (
            "<append> batches  + 1",
            "<outside> test_it  + 'outside'",
            "<append> batches  + 2",
            "<after> test_it  + 'after'",
        ),
        in_("batches"),
    ),
    Watched(
        "coroutine",
        """
        import asyncio

        async def fill(log):
            for n in range(2):
                await asyncio.sleep(0)
                log.append(n)  # <fill>

        async def spoil(log):
            await asyncio.sleep(0)
            log.append("spoilt")  # <spoil>

        async def both():
            log = []
            await asyncio.gather(fill(log), spoil(log))
            return log

        def test_it():
            log = asyncio.run(both())
            log.append("end")  # <end>
        """,
        "log",
        (
            "<fill> fill  + 0",
            "<spoil> spoil  + 'spoilt'",
            "<fill> fill  + 1",
            "<end> test_it  + 'end'",
        ),
        in_("fill"),
    ),
    Watched(
        "recursion",
        """
        def walk(depth, path):
            path.append(depth)  # <append>
            if depth:
                walk(depth - 1, path)
            path.pop()  # <pop>

        def test_it():
            walk(2, [])
        """,
        "path",
        ("path: [2]", "<append> walk  + 1", "+ 0", "<pop> walk", "call 2, from walk"),
        in_("walk", call=2),
    ),
    Watched(
        "when",
        """
        def set_to(box, value):
            box["n"] = value  # <set>

        def test_it():
            box = {}
            for n in range(5):
                set_to(box, n)
        """,
        "box",
        ("box: {'n': 2}", "call 4, from test_it", "<set> set_to  ['n']  2 → 3", "3 → 4"),
        in_("set_to", when="value == 3"),
        lacks=("1 → 2",),
    ),
    Watched(
        "fixture",
        """
        import pytest

        @pytest.fixture
        def basket():
            basket = ["a"]  # <set>
            yield basket
            basket.clear()  # <clear>

        def test_it(basket):
            basket.append("b")  # <test>
        """,
        "basket",
        (
            "<set> basket  unset → ['a']  (in setup)",
            "<test> test_it  + 'b'",
            "<clear> basket  - 'a', - 'b'  (in teardown)",
        ),
        in_("basket"),
    ),
    Watched(
        "returned_fixture",
        """
        import pytest

        @pytest.fixture
        def config():
            made = {"n": 1}
            return made

        def change(config):
            config["n"] += 1  # <change>

        def test_it(config):
            change(config)
        """,
        "made",
        ("<change> change  ['n']  1 → 2",),
        in_("config"),
    ),
    Watched(
        "xfail",
        """
        import pytest

        STATE = {}

        @pytest.mark.xfail(reason="known")
        def test_it():
            STATE["x"] = 1  # <set>
            assert not STATE
        """,
        "STATE",
        ("xfailed: known", "<set> test_it  ['x']  + 1"),
        outcome="xfailed",
    ),
    Watched(
        "module",
        """
        import sys

        LIMIT = 10

        def lower():
            global LIMIT
            LIMIT -= 3  # <lower>

        def test_it():
            lower()
            assert sys.modules[__name__].LIMIT == 7
        """,
        "LIMIT * 2",
        ("LIMIT * 2: 20", "<lower> lower  20 → 14"),
        {"module": "test_module"},
    ),
    Watched(
        "subclasses",
        """
        from collections import OrderedDict, defaultdict

        class Stack(list):
            def __init__(self):
                super().__init__()
                self.name = "s"

        def change(stack, table, order):
            stack.append(1)  # <stack>
            stack.name = "t"  # <name>
            table["k"].append(2)

        def test_it():
            change(Stack(), defaultdict(list), OrderedDict(a=1))
        """,
        "stack",
        ("<stack> change  + 1", "<name> change  .name  's' → 't'"),
        in_("change"),
    ),
    Watched(
        "defaultdict",
        """
        from collections import defaultdict

        def change(table):
            assert "k" not in table
            table["k"].append(2)  # <append>

        def test_it():
            table = defaultdict(list)
            change(table)
            assert dict(table) == {"k": [2]}
        """,
        "table['k']",
        ("table['k']: unset", "<append> change  unset → [2]"),
        in_("change"),
    ),
)

GUEST: tuple[Watched, ...] = (
    Watched(
        "freed",
        """
        import weakref

        class Cart:
            def __init__(self):
                self.items = []

        def look(cart):
            items = cart.items
            items.append(1)
            return len(items)

        def test_it():
            cart = Cart()
            ref = weakref.ref(cart)
            look(cart)
            cart.items.append(2)  # <last>
            del cart; assert ref() is None
            again = Cart()
            again.items.append(3)
        """,
        "items",
        ("<last> test_it  + 2", "not seen any more after"),
        in_("look"),
        lacks=("+ 3",),
    ),
    Watched(
        "freed_object",
        """
        import weakref

        class Cart:
            pass

        def look(cart):
            cart.n = 1

        def test_it():
            cart = Cart()
            ref = weakref.ref(cart)
            look(cart)
            cart = None; assert ref() is None
        """,
        "cart",
        (".n  + 1", "not seen any more after"),
        in_("look"),
    ),
    Watched(
        "cycle",
        """
        import gc
        import weakref

        class Node:
            def __init__(self):
                self.me = self
                self.seen = []

        def make():
            node = Node()
            node.seen.append(1)  # <append>
            return weakref.ref(node)

        def test_it():
            ref = make()
            gc.collect()
            assert ref() is None
        """,
        "node",
        ("unset → Node(", "not seen any more after"),
        in_("make"),
    ),
    Watched(
        "ids",
        """
        def make(n):
            made = [n]
            made.append(n)  # <append>

        def test_it():
            for n in range(200):
                make(n)
            for n in range(200):
                other = [n]
                other.append("x")
        """,
        "made",
        ("<append> make  + 0", "not seen any more after"),
        in_("make"),
        lacks=("'x'", "+ 1"),
    ),
    Watched(
        "deleted",
        """
        LOG = []

        class Entry:
            def __init__(self, n):
                self.n = n
                self.data = [n]

            def __del__(self):
                LOG.append(self.n)

        def make(n):
            entry = Entry(n)
            return entry.data

        def test_it():
            make(1); LOG.append("a")
            kept = make(2)
            LOG.append("b")
            kept.append("more")  # <more>
            assert LOG == [1, "a", 2, "b"]
        """,
        "entry.data",
        ("<more> test_it  + 'more'", "local kept in test_it"),
        in_("make", call=2),
    ),
    Watched(
        "hostile",
        """
        CALLS = []

        class Nasty:
            def __init__(self, n):
                self.n = n

            def _no(self, *_):
                CALLS.append(1)
                raise RuntimeError("called")

            __eq__ = __ne__ = __lt__ = __repr__ = __str__ = __len__ = __bool__ = _no
            __hash__ = _no
            __getattr__ = __iter__ = __contains__ = __format__ = _no

        def touch(items):
            items[0].n = 2
            items[0] = Nasty(3)  # <replace>

        def test_it():
            items = [Nasty(1)]
            touch(items)
            items.append(Nasty(4))  # <append>
            assert CALLS == []
        """,
        "items",
        ("<replace> touch  [0]  Nasty(n=1) → Nasty(n=3)", "<append> test_it  + Nasty(n=4)"),
        in_("touch"),
    ),
    Watched(
        "hostile_object",
        """
        CALLS = []

        class Meta(type):
            def __eq__(cls, other):
                CALLS.append("class eq")
                return True

            def __hash__(cls):
                CALLS.append("class hash")
                return 1

        class Nasty(metaclass=Meta):
            def __init__(self):
                self.n = 1

            def __getattribute__(self, name):
                if name not in ("n", "__dict__", "__class__"):
                    CALLS.append(name)
                return object.__getattribute__(self, name)

            def __eq__(self, other):
                CALLS.append("eq")
                return True

            def __hash__(self):
                CALLS.append("hash")
                return 1

        def touch(nasty):
            nasty.n = 2  # <two>

        def test_it():
            nasty = Nasty()
            holder = [nasty]
            CALLS.clear()  # of defining the class
            touch(nasty)
            nasty.n = 3  # <three>
            assert CALLS == []
        """,
        "nasty",
        ("<two> touch  .n  1 → 2", "<three> test_it  .n  2 → 3"),
        in_("touch"),
    ),
    Watched(
        "disarmed",
        """
        import sys

        def fill(items):
            for n in range(5):
                items.append(n)  # <append>

        def test_it():
            items = []
            fill(items)
            if sys.version_info >= (3, 12):
                monitoring = sys.monitoring
                ours = [n for n in range(6) if monitoring.get_tool(n) == "pytest-cideldill"]
                for tool in ours:
                    assert monitoring.get_events(tool) == 0
                    for function in (fill, test_it):
                        assert monitoring.get_local_events(tool, function.__code__) == 0
        """,
        "items",
        (
            "until: len(items) > 2 is true after <append> fill",
            "locals: items=[0, 1, 2], n=2",
            "then: [0, 1, 2]",
        ),
        in_("fill", until="len(items) > 2"),
        lacks=("+ 3",),
    ),
    Watched(
        "fork",
        """
        import os

        def test_it():
            items = []
            pid = os.fork()
            if not pid:
                items.append("child")
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
            items.append("parent")  # <parent>
        """,
        "items",
        ("<parent> test_it  + 'parent'",),
        in_("test_it"),
        lacks=("'child'",),
    ),
    Watched(
        "exits",
        """
        import os

        def test_it():
            items = []
            items.append(1)  # <one>
            items.append(2)  # <two>
            os._exit(3)
        """,
        "items",
        ("<one> test_it  + 1", "<two> test_it  + 2", "the process ended before pytest did"),
        in_("test_it"),
        outcome="unfinished",
    ),
    Watched(
        "secret",
        """
        class Client:
            def __init__(self):
                self.password = "hunter2-aa91-b"

            def rotate(self):
                self.password = "swordfish-77-x"  # <set>

        def test_it():
            Client().rotate()
        """,
        "self.password",
        ("<set> Client.rotate", "<redacted:password"),
        in_("Client.rotate"),
        lacks=("hunter2", "swordfish"),
    ),
)

ANSWERS: tuple[Watched, ...] = (
    Watched(
        "until",
        """
        def balance(moves):
            total = 10
            for move in moves:
                total += move  # <move>
            return total

        def test_it():
            balance([5, -10, -7, 4])
        """,
        "total",
        (
            "until: total < 0 is true after <move> balance  (from test_it",
            "locals: moves=[5, -10, -7, 4], total=-2, move=-7",
            "then: -2",
        ),
        in_("balance", until="total < 0"),
        lacks=("-2 → 2",),
    ),
    Watched(
        "until_at_first",
        """
        def clear(items):
            items.clear()
            items.append(1)

        def test_it():
            clear([1])
        """,
        "items",
        ("until: items is true at the beginning", "until: items is true after"),
        in_("clear", until="items"),
    ),
    Watched(
        "until_never",
        """
        def clear(items):
            items.clear()

        def test_it():
            clear([1])
        """,
        "items",
        ("until: len(items) > 3 was never true", "- 1"),
        in_("clear", until="len(items) > 3"),
    ),
    Watched(
        "many",
        """
        def fill(items):
            for n in range(1000):
                items.append(n)  # <fill>

        def test_it():
            items = []
            fill(items)
            items.clear()  # <clear>
        """,
        "items",
        ("#1 <fill> fill  + 0", "1,001 changes: <fill> fill ×1,000", "<clear> test_it ×1"),
        in_("fill", max_changes=20),
        writers=(("<fill>", 1000), ("<clear>", 1)),
    ),
    Watched(
        "large",
        """
        def change(items, table):
            items[70_000] = "x"  # <list>
            table[5_000] = "y"  # <dict>

        def test_it():
            items = list(range(100_000))
            change(items, dict.fromkeys(range(10_000)))
        """,
        "items",
        ("[70000]  70000 → 'x'",),
        in_("change"),
    ),
    Watched(
        "unchanged",
        """
        def read(items):
            return len(items)

        def test_it():
            read([1, 2])
        """,
        "items",
        ("items: [1, 2]", "it was not changed"),
        in_("read"),
        writers=(),
    ),
    Watched(
        "never_set",
        "def test_it():\n    pass\n",
        "missing.thing",
        ("missing.thing: unset", "it was never set"),
    ),
    Watched(
        "local_of_test",
        """
        class Cart:
            def __init__(self):
                self.total = 0

            def add(self, price):
                self.total += price  # <add>

        def test_it():
            cart = Cart()  # <made>
            cart.add(3)
            assert cart.total == 4
        """,
        "cart.total",
        ("begins, call 1", "<made> test_it  unset → 0", "<add> Cart.add  0 → 3"),
        writers=(("<made>", 1), ("<add>", 1)),
        outcome="failed",
    ),
    Watched(
        "fixture_of_test",
        """
        import pytest

        class Cart:
            def __init__(self):
                self.items = []

        @pytest.fixture
        def cart():
            return Cart()

        def test_it(cart):
            cart.items.append(1)  # <add>
            assert len(cart.items) == 2
        """,
        "len(cart.items)",
        ("len(cart.items): 0  as", "<add> test_it  0 → 1"),
        writers=(("<add>", 1),),
        outcome="failed",
    ),
    Watched(
        "local_never_set",
        """
        def test_it():
            if not __name__:
                cart = 1
        """,
        "cart",
        ("cart: unset  at the beginning of the test", "it was never set"),
        writers=(),
    ),
    Watched(
        "not_called",
        "def price():\n    return 1\n\ndef test_it():\n    price()\n",
        "x",
        ("makes no call of a function 'prize'", "test_not_called.price"),
        in_("prize"),
        refused="function_not_found",
    ),
    Watched(
        "call_beyond",
        "def price():\n    return 1\n\ndef test_it():\n    price()\n",
        "x",
        ("price has 1 call", "none with number 2"),
        in_("price", call=2),
        refused="invalid_parameter",
    ),
)

CASES = (*HOLDERS, *KINDS, *GUEST, *ANSWERS)
