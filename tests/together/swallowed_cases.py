"""Live cases of exceptions that are caught: a module each, and what is said about a test of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Swallowed:
    """A module with a function `run`, and what is swallowed in it.

    Attributes:
        name: Its file is `m_NAME.py`.
        source: Of the file.
        lines: All lines of the part; `M` is the file. Empty: nothing is swallowed.
        test: The body of the test's file, if that is no call of `run` and a failure.
        most: How many exceptions are asked for.
        older: The lines on 3.11, where frames of libraries are not seen.
    """

    name: str
    source: str
    lines: tuple[str, ...] = ()
    test: str = ""
    most: int = 9
    older: tuple[str, ...] = ()

    @property
    def nodeid(self) -> str:
        return f"test_{self.name}.py::test_it"

    def files(self) -> dict[str, str]:
        test = self.test or "def test_it():\n    run()\n    assert False, 'in the end'\n"
        head = f"from m_{self.name} import *\nfrom m_{self.name} import run\n\n"
        return {f"m_{self.name}.py": self.source, f"test_{self.name}.py": head + test}


CASES: tuple[Swallowed, ...] = (
    # --- kinds of frames ------------------------------------------------------------------------
    Swallowed(
        "function",
        """\
def inner(n):
    raise ValueError(f"no {n}")

def outer(n):
    return inner(n)

def run():
    try:
        outer(3)
    except ValueError:
        pass
""",
        (
            "ValueError: no 3  raised M:2 inner, caught M:10 run",
            "  unwound: inner ← outer",
        ),
    ),
    Swallowed(
        "loop",
        """\
def price(name):
    raise KeyError(name)

def run():
    for name in ("a", "b", "c"):
        try:
            price(name)
        except KeyError:
            continue
""",
        ("KeyError: 'a'  raised M:2 price, caught M:8 run  ×3", "  unwound: price"),
    ),
    Swallowed(
        "clauses",
        """\
import json

class Own(Exception): pass
class Other(Exception): pass

def fail(kind):
    raise kind("x")

def run():
    for kind in (Own, Other, json.JSONDecodeError, OSError):
        try:
            fail(kind) if kind is not json.JSONDecodeError else json.loads("{")
        except (Own, TypeError):
            a = 1
        except json.JSONDecodeError as error:
            b = 1
        except Other as error:
            str(error)
        except:
            return 3
""",
        (
            "OSError: x  raised M:7 fail, caught M:19 run",
            "  unwound: fail",
            "JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2"
            " (char 1)  raised M:12 run in json.loads, caught M:15 run",
            "Own: x  raised M:7 fail, caught M:13 run",
            "  unwound: fail",
            "Other: x  raised M:7 fail, caught M:17 run",
            "  unwound: fail",
        ),
    ),
    Swallowed(
        "generator",
        """\
def numbers():
    yield 1
    raise ValueError("no more")

def run():
    try:
        list(numbers())
    except ValueError:
        pass
    for each in (n for n in [1]):
        pass
    try:
        next(iter([]))
    except StopIteration:
        pass
    it = numbers()
    next(it)
    it.close()
""",
        ("ValueError: no more  raised M:3 numbers, caught M:8 run", "  unwound: numbers"),
    ),
    Swallowed(
        "inside_generator",
        """\
def parse(text):
    return int(text)

def numbers(texts):
    for text in texts:
        try:
            yield parse(text)
        except ValueError:
            yield 0

def run():
    list(numbers("1x2"))
""",
        (
            "ValueError: invalid literal for int() with base 10: 'x'"
            "  raised M:2 parse, caught M:8 numbers",
            "  unwound: parse",
        ),
    ),
    Swallowed(
        "coroutine",
        """\
import asyncio

async def fetch(n):
    await asyncio.sleep(0)
    raise LookupError(n)

async def both():
    try:
        await fetch(1)
    except LookupError:
        pass
    return await asyncio.gather(fetch(2), return_exceptions=True)

def run():
    asyncio.run(both())
""",
        (
            "LookupError: 1  raised M:5 fetch, caught M:10 both",
            "  unwound: fetch",
            "LookupError: 2  raised M:5 fetch, caught inside asyncio.runners.run,"
            " called at M:15 run",
        ),
    ),
    Swallowed(
        "awaited",
        """\
import asyncio

async def fetch():
    raise LookupError("gone")

async def both():
    task = asyncio.create_task(fetch())
    await asyncio.sleep(0)
    try:
        await task
    except LookupError:
        pass

def run():
    asyncio.run(both())
""",
        ("LookupError: gone  raised M:4 fetch, caught M:11 both", "  unwound: fetch"),
    ),
    Swallowed(
        "property",
        """\
class Cart:
    @property
    def total(self):
        return self.missing

def run():
    return hasattr(Cart(), "total")
""",
        (
            "AttributeError: 'Cart' object has no attribute 'missing'"
            "  raised M:4 Cart.total, caught in C code, called at M:7 run",
        ),
    ),
    Swallowed(
        "finalizer",
        """\
class File:
    def __del__(self):
        raise OSError("closed")

def run():
    file = File()
    del file
""",
        ("OSError: closed  raised M:3 File.__del__, caught in C code, called at M:7 run",),
        test="import pytest\n\n@pytest.mark.filterwarnings('ignore')\ndef test_it():\n"
        "    run()\n    assert False\n",
    ),
    Swallowed(
        "thread",
        """\
import threading
from concurrent.futures import ThreadPoolExecutor

def work():
    raise ValueError("in the thread")

def run():
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    with ThreadPoolExecutor(1) as pool:
        kept, lost = pool.submit(work), pool.submit(work)
    try:
        kept.result()
    except ValueError:
        pass
""",
        (
            "ValueError: in the thread  raised M:5 work, caught M:15 run",
            "  unwound: work",
            "ValueError: in the thread  raised M:5 work, caught in"
            " concurrent.futures.thread._WorkItem.run",
            "  unwound: work",
            "ValueError: in the thread  raised M:5 work, caught in"
            " threading.Thread._bootstrap_inner",
            "  unwound: work",
        ),
        older=(
            "ValueError: in the thread  raised M:5 work, caught M:15 run",
            "  unwound: work",
            "ValueError: in the thread  raised M:5 work, caught by what runs"
            " concurrent.futures.thread._WorkItem.run",
            "ValueError: in the thread  raised M:5 work, caught by what runs threading.Thread.run",
        ),
        test="import pytest\n\n@pytest.mark.filterwarnings('ignore')\ndef test_it():\n"
        "    run()\n    assert False\n",
    ),
    Swallowed(
        "hidden",
        """\
def inner():
    __tracebackhide__ = True
    raise ValueError("x")

def run():
    __tracebackhide__ = True
    try:
        inner()
    except ValueError:
        pass
""",
        ("ValueError: x  raised M:3 inner, caught M:9 run", "  unwound: inner"),
    ),
    # --- kinds of handlers ----------------------------------------------------------------------
    Swallowed(
        "suppress",
        """\
from contextlib import contextmanager, suppress

def fail():
    raise ValueError("x")

@contextmanager
def quiet():
    try:
        yield
    except ValueError:
        pass

@contextmanager
def loud():
    try:
        yield
    finally:
        str(1)

class Own:
    def __enter__(self): return self
    def __exit__(self, *info): return True

def run():
    with suppress(ValueError):
        fail()
    with quiet():
        with loud():
            fail()
    with Own(), loud():
        fail()
""",
        (
            "ValueError: x  raised M:4 fail, caught M:30 run (with)",
            "  unwound: fail ← loud",
            "ValueError: x  raised M:4 fail, caught M:10 quiet",
            "  unwound: fail ← loud",
            "ValueError: x  raised M:4 fail, caught M:25 run (with)",
            "  unwound: fail",
        ),
    ),
    Swallowed(
        "finally",
        """\
def fail():
    try:
        raise ValueError("x")
    finally:
        str(1)

def cleans():
    try:
        fail()
    finally:
        str(2)

def returns():
    try:
        fail()
    finally:
        return 3

def run():
    try:
        cleans()
    except ValueError:
        pass
    returns()
""",
        (
            "ValueError: x  raised M:3 fail, caught M:17 returns",
            "  unwound: fail",
            "ValueError: x  raised M:3 fail, caught M:22 run",
            "  unwound: fail ← cleans",
        ),
    ),
    Swallowed(
        "reraised",
        """\
def fail():
    raise ValueError("x")

def again():
    try:
        fail()
    except ValueError:
        raise

def explicitly():
    try:
        again()
    except ValueError as error:
        raise error

def later():
    last = None
    for _ in range(3):
        try:
            explicitly()
        except ValueError as error:
            last = error
    raise last

def run():
    try:
        later()
    except Exception:
        pass
""",
        (
            "ValueError: x  raised M:2 fail, caught M:28 run",
            "  unwound: fail ← again ← explicitly ← later",
            "ValueError: x  raised M:2 fail, caught M:21 later  ×2",
            "  unwound: fail ← again ← explicitly",
        ),
    ),
    Swallowed(
        "translated",
        """\
class Own(Exception): pass

def find():
    return {}["mug"]

def price():
    try:
        find()
    except KeyError as error:
        raise Own("no price") from error

def run():
    try:
        price()
    except Own:
        pass
""",
        (
            "Own: no price, from KeyError: 'mug'  raised M:10 price, caught M:15 run",
            "  unwound: price",
        ),
    ),
    Swallowed(
        "nested",
        """\
def fail(kind):
    raise kind("x")

def run():
    try:
        fail(KeyError)
    except KeyError:
        try:
            fail(ValueError)
        except ValueError:
            pass
    try:
        try:
            fail(OSError)
        except ValueError:
            pass
    except OSError:
        pass
""",
        (
            "OSError: x  raised M:2 fail, caught M:17 run",
            "  unwound: fail",
            "ValueError: x  raised M:2 fail, caught M:10 run",
            "  unwound: fail",
            "KeyError: 'x'  raised M:2 fail, caught M:7 run",
            "  unwound: fail",
        ),
    ),
    Swallowed(
        "group",
        """\
def fail():
    raise ExceptionGroup("many", [ValueError(1), TypeError(2)])

def run():
    try:
        fail()
    except* ValueError:
        pass
    except* TypeError:
        pass
""",
        (
            "ExceptionGroup: many (2 sub-exceptions)  raised M:2 fail, caught M:7 run",
            "  unwound: fail",
        ),
    ),
    Swallowed(
        "logged",
        """\
import logging

def fail():
    raise ValueError("x")

def quiet():
    try:
        fail()
    except ValueError:
        return None

def run():
    quiet()
    try:
        fail()
    except ValueError:
        logging.exception("oh")
""",
        (
            "ValueError: x  raised M:4 fail, caught M:9 quiet",
            "  unwound: fail",
            "ValueError: x  raised M:4 fail, caught M:16 run",
            "  unwound: fail",
        ),
    ),
    # --- libraries ------------------------------------------------------------------------------
    Swallowed(
        "through_library",
        """\
import functools

def key(n):
    raise ValueError(n)

@functools.lru_cache
def cached(n):
    return key(n)

def run():
    try:
        sorted([1, 2], key=cached)
    except ValueError:
        pass
""",
        ("ValueError: 1  raised M:4 key, caught M:13 run", "  unwound: key ← cached"),
    ),
    Swallowed(
        "in_library",
        """\
import logging

class Broken:
    def __str__(self):
        raise ValueError("no text")

def run():
    logging.raiseExceptions = False
    try:
        logging.getLogger("x").warning("%s", Broken())
    finally:
        logging.raiseExceptions = True
""",
        (
            "ValueError: no text  raised M:5 Broken.__str__, caught in logging.StreamHandler.emit,"
            " called at M:10 run",
            "  unwound: Broken.__str__",
        ),
        older=(
            "ValueError: no text  raised M:5 Broken.__str__, caught inside logging.Logger.warning,"
            " called at M:10 run",
        ),
        test="import logging\nimport io\n\ndef test_it():\n    handler ="
        " logging.StreamHandler(io.StringIO())\n    logging.getLogger('x').addHandler(handler)\n"
        "    logging.getLogger('x').propagate = False\n    run()\n    assert False\n",
    ),
    # --- what is left behind --------------------------------------------------------------------
    Swallowed(
        "left",
        """\
TOTAL = 0
CACHE = {}

class Cart:
    def __init__(self):
        self.total, self.items = 0, {}

    def add(self, name, price):
        global TOTAL
        self.items[name] = price
        self.total += price
        TOTAL = 4
        CACHE["last"] = name
        if price > 100:
            self.large = True
        self.check(price)
        self.checked = True

    def check(self, price):
        if price == 7:
            raise ValueError("seven")

def run():
    cart = Cart()
    for price in (2, 7):
        try:
            cart.add("mug", price)
        except ValueError:
            pass
""",
        (
            "ValueError: seven  raised M:21 Cart.check, caught M:28 run",
            "  unwound: Cart.check ← Cart.add",
            "  left behind: self.items['mug']=7 (M:10), self.total=9 (M:11), TOTAL=4 (M:12),"
            " CACHE['last']='mug' (M:13)",
        ),
    ),
    Swallowed(
        "left_elsewhere",
        """\
class Slotted:
    __slots__ = ("size",)

class Base:
    made = 0

class Item(Base):
    pass

def make(slotted, cache, key):
    Item.made = 3
    Item.made += 1
    cache[key] = slotted.size = 2
    own = {}
    own["lost"] = 1
    raise ValueError(key)

def run():
    slotted, cache = Slotted(), {}
    try:
        make(slotted, cache, "k")
    except ValueError:
        pass
    return slotted, cache
""",
        (
            "ValueError: k  raised M:16 make, caught M:22 run",
            "  unwound: make",
            "  left behind: Item.made=4 (M:12), cache['k']=2 (M:13), slotted.size=2 (M:13)",
        ),
    ),
    Swallowed(
        "uncertain",
        """\
class Job:
    a = b = c = d = e = f = g = h = 0

    def set(self, flag):
        try:
            self.a = int("x")
        except ValueError:
            pass
        if flag:
            self.b = 1
        for self.c in ():
            pass
        while True:
            self.d = 1
            if flag:
                self.g = 1
            break
        self.e = self.f = 2
        with self:
            self.h = 3
            raise KeyError("k")

    def __enter__(self):
        pass

    def __exit__(self, *info):
        self.b = 5

def run():
    job = Job()
    try:
        job.set(False)
    except KeyError:
        pass
    return [1 for _ in job.__dict__]
""",
        (
            "KeyError: 'k'  raised M:21 Job.set, caught M:33 run",
            "  unwound: Job.set",
            "  left behind: self.d=1 (M:14), self.e=2 (M:18), self.f=2 (M:18), self.h=3 (M:20)",
            "ValueError: invalid literal for int() with base 10: 'x'"
            "  raised M:6 Job.set, caught M:7 Job.set",
        ),
    ),
    Swallowed(
        "comprehension",
        """\
class Odd:
    def __getattr__(self, name):
        raise AttributeError(f"{name}!") from None

    @property
    def size(self):
        return self.missing

def run():
    return list(hasattr(each, "size") for each in [Odd()])
""",
        (
            "AttributeError: missing!  raised M:3 Odd.__getattr__, caught in C code,"
            " called at M:10 run",
            "  unwound: Odd.__getattr__ ← Odd.size",
        ),
    ),
    Swallowed(
        "repaired",
        """\
class Account:
    def __init__(self):
        self.money, self.busy, self.count = 5, False, 0

    def take(self, n):
        self.count += 1
        self.busy = True
        self.money -= n
        try:
            self.check()
        finally:
            self.busy = False

    def check(self):
        if self.money < 0:
            raise ValueError("too much")

def run():
    account = Account()
    try:
        account.take(7)
    except ValueError:
        account.money = 5
    account.count += 0
""",
        (
            "ValueError: too much  raised M:16 Account.check, caught M:22 run",
            "  unwound: Account.check ← Account.take",
            "  left behind: self.count=1 (M:6)",
        ),
    ),
    Swallowed(
        "repaired_late",
        """\
class Account:
    money, tries = 5, 0

    def take(self, n):
        self.tries = 1
        self.money = -2
        raise ValueError("too much")

def note():
    pass

def run():
    account = Account()
    try:
        account.take(7)
    except ValueError:
        try:
            {}["log"]
        except KeyError:
            note()
        account.money = 5
    note()
    account.tries = 0
""",
        (
            "ValueError: too much  raised M:7 Account.take, caught M:16 run",
            "  unwound: Account.take",
            "  left behind: self.tries=1 (M:5)",
            "KeyError: 'log'  raised M:18 run, caught M:19 run",
        ),
    ),
    Swallowed(
        "gone",
        """\
class Half:
    def __init__(self):
        self.name = "half"
        raise ValueError("not made")

def run():
    try:
        Half()
    except ValueError:
        pass
""",
        (
            "ValueError: not made  raised M:4 Half.__init__, caught M:9 run",
            "  unwound: Half.__init__",
        ),
    ),
    Swallowed(
        "perhaps",
        """\
class Sum:
    def __init__(self):
        self.total = 0

    def add(self, numbers):
        self.total = 100
        for n in numbers:
            self.total += self.checked(n)

    def checked(self, n):
        if n > 2:
            raise ValueError(n)
        return n

def run():
    sum = Sum()
    try:
        sum.add([1, 2, 3])
    except ValueError:
        pass
""",
        (
            "ValueError: 3  raised M:12 Sum.checked, caught M:19 run",
            "  unwound: Sum.checked ← Sum.add",
            "  left behind: self.total=103 (M:6/8)",
        ),
    ),
    Swallowed(
        "secret",
        """\
class Client:
    def login(self, password):
        self.password = password
        raise ValueError(f"password={password}")

def run():
    client = Client()
    try:
        client.login("hunter2-hunter2")
    except ValueError:
        pass
""",
        ("*<redacted:password", "!hunter2"),
    ),
    Swallowed(
        "wrapped",
        "def run():\n    raise ValueError('x')\n",
        test="""\
import functools

def wrapper(function):
    @functools.wraps(function)
    def test_it():
        try:
            function()
        except ValueError:
            pass
        assert False
    return test_it

@wrapper
def test_it():
    try:
        run()
    except ValueError:
        pass
    assert False
""",
    ),
    # --- absence --------------------------------------------------------------------------------
    Swallowed("nothing", "def run():\n    return sum(n for n in range(3))\n"),
    Swallowed(
        "failure",
        """\
def find():
    raise KeyError("mug")

def run():
    try:
        find()
    except KeyError as error:
        raise ValueError("no price") from error
""",
        test="def test_it():\n    run()\n",
    ),
    Swallowed(
        "expected",
        """\
def run():
    raise ValueError("x")
""",
        test="""\
import contextlib
import pytest

def expect():
    with pytest.raises(ValueError):
        run()

def test_it():
    with pytest.raises(ValueError):
        run()
    pytest.raises(ValueError, run)
    with contextlib.suppress(ValueError):
        run()
    try:
        run()
    except ValueError:
        pass
    def inside():
        try:
            run()
        except ValueError:
            pass
    inside()
    expect()
    assert False
""",
    ),
    Swallowed(
        "library_alone",
        """\
import collections
import copy
import json

def run():
    json.dumps({"a": 1}, default=str)
    copy.deepcopy(collections.OrderedDict(a=[1]))
    getattr(collections, "nothing", None)
    try:
        return 1
    finally:
        str(2)
""",
    ),
    Swallowed(
        "protocols",
        """\
class Old:
    def __getitem__(self, n):
        if n > 2:
            raise IndexError(n)
        return n

    def __getattr__(self, name):
        raise AttributeError(name)

class Next:
    def __iter__(self):
        return self

    def __next__(self):
        raise StopIteration

def run():
    list(Old()), list(Next()), hasattr(Old(), "x")
""",
    ),
)

GUEST = """
import gc, weakref
from m import LOG, Cart, Own, Strange, buy, fail

def test_it():
    cart = Cart()
    found = []
    for _ in range(5):
        try:
            fail(found)
        except Own:
            pass
    assert [each() for each in found] == [None] * len(found)
    buy(cart)
    lost = weakref.ref(cart)
    del cart
    assert lost() is None
    assert LOG == []
    assert False, "in the end"
"""
"""What is to be seen of a program whose code notes that it runs, and of what is alive."""

HOST = """
import weakref

LOG = []

class Strange:
    def __getattribute__(self, name):
        LOG.append(name)
        return object.__getattribute__(self, name)
    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)
    def __eq__(self, other):
        LOG.append("eq")
        return NotImplemented
    def __hash__(self):
        LOG.append("hash")
        return 1
    def __repr__(self):
        LOG.append("repr")
        return "!"

class Own(Exception):
    def __init__(self, found, strange):
        found.append(weakref.ref(self))
    def __str__(self):
        LOG.append("str")
        return "!"
    __repr__ = __str__
    def __hash__(self):
        LOG.append("hash of the exception")
        return 1
    @property
    def __context__(self):
        LOG.append("context")
    __cause__ = __traceback__ = __context__

class Local:
    pass

class Meta(type):
    def __getattribute__(cls, name):
        LOG.append(f"class: {name}")
        return type.__getattribute__(cls, name)
    def __instancecheck__(cls, x):
        LOG.append("isinstance")
        return False

class Odd(Exception, metaclass=Meta):
    pass

class Cart:
    @property
    def total(self):
        LOG.append("property")

def fail(found):
    local = Local()
    local.inner = inner = Local()
    found += [weakref.ref(local), weakref.ref(inner)]
    raise Own(found, Strange())

def odd(cart):
    cart.strange = Strange()
    cart.strange.x = 1
    cart.count = 3
    raise Odd(cart)

def buy(cart):
    try:
        odd(cart)
    except (Odd, Own):
        pass
"""
"""Its module."""
