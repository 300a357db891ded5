"""The functions of a project from its sources: which files, which module names, what they define.

The module names are compared
with pytest's own, what files define with the code that CPython compiles.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_cideldill.interpreter.one_shot import reply_in
from pytest_cideldill.project import Project
from pytest_cideldill.sourcecode import catalog
from pytest_cideldill.sourcecode.catalog import Catalog, scan
from pytest_cideldill.sourcecode.describe import FunctionInfo
from pytest_cideldill.sourcecode.helper import answer, source_map
from pytest_cideldill.sourcecode.names import close_names, parse_function_name
from tests.each_case import for_each

full = pytest.mark.full

Write = Callable[..., None]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write files below `tmp_path`: `write("shop/cart.py", "a.py", text=…)`, `**{path: text}`."""

    def write(*paths: str, text: str = "def f(): pass\n", **files: str) -> None:
        for path, content in (dict.fromkeys(paths, text) | files).items():
            file = tmp_path / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(textwrap.dedent(content), encoding="utf-8")

    return write


def found(root: Path) -> set[str]:
    return set(scan(str(root)).files)


def names_in(result: Catalog, file: str) -> list[str]:
    return [each.qualname for each in result.contents[file].functions]


# --- which files --------------------------------------------------------------------------------

OWN = ["top.py", "shop/cart.py", "src/shop/tax.py", "tests/test_it.py", "build/__init__.py",
       "build/tools.py", "venv_tools/x.py", "deep/er/and/deeper.py"]  # fmt: skip
FOREIGN = ["env/lib/python3/site-packages/x.py", "env/bin/tool.py", "conda/lib/y.py",
           "lib/site-packages/z.py", "prefix/lib/os.py"]  # fmt: skip
HIDDEN = [".tox/py/a.py", ".git/hooks/b.py", "node_modules/c.py", "dist/d.py", "shop.egg-info/e.py",
          "shop/__pycache__/f.py", "dist/shop/cart.py"]  # fmt: skip


def test_the_files_are_user_code_without_hidden_folders_and_those_of_builds(
    tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`project.Project` says what user code is; a scan must not be of another opinion."""
    write(*OWN, *FOREIGN, *HIDDEN, "env/pyvenv.cfg", "conda/conda-meta/history", "notes.txt")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    monkeypatch.setattr(sys, "exec_prefix", str(tmp_path / "prefix"))
    assert found(tmp_path) == set(OWN)
    project = Project(str(tmp_path))
    for file in OWN:
        assert project.is_user(str(tmp_path / file))
    for file in set(FOREIGN) - {"conda/lib/y.py"}:
        assert not project.is_user(str(tmp_path / file))


def test_further_files_and_folders_are_shown_absolutely(tmp_path: Path, write: Write) -> None:
    """The ini option `cideldill_user_paths`; named as if each were a project."""
    write("project/shop/cart.py", "libs/cargo/__init__.py", "libs/cargo/rates.py")
    write("tools/one.py", "tools/two.py")
    further = [str(tmp_path / each) for each in ("libs", "tools/one.py", "nowhere")]
    scanned = catalog.scan(str(tmp_path / "project"), further=further)
    libs = (tmp_path / "libs").as_posix()
    assert scanned.files == {
        "shop/cart.py": ("shop.cart",),
        f"{libs}/cargo/__init__.py": ("cargo",),
        f"{libs}/cargo/rates.py": ("cargo.rates",),
        (tmp_path / "tools/one.py").as_posix(): ("one",),
    }
    assert scanned.is_complete


def test_a_checkout_inside_of_an_environment_is_a_project(tmp_path: Path, write: Write) -> None:
    write("pyvenv.cfg", "shop/cart.py")
    assert found(tmp_path) == {"shop/cart.py"}


@pytest.mark.full
def test_this_package_is_nobodys_project() -> None:
    """As in `Project`: who works on it debugs it by its tests."""
    root = Path(catalog.__file__).resolve().parent.parent.parent
    files = found(root)
    assert "tests/process/test_catalog.py" in files
    assert not any(file.startswith("pytest_cideldill/") for file in files)


def test_links_lead_out_but_nowhere_twice_and_never_round(tmp_path: Path, write: Write) -> None:
    write("project/shop/cart.py", "elsewhere/other.py")
    root = tmp_path / "project"
    for name, target in {
        "shop/round": root, "again": root / "shop", "outside": tmp_path / "elsewhere",
        "linked.py": root / "shop" / "cart.py", "broken.py": root / "nothing.py",
    }.items():  # fmt: skip
        (root / name).symlink_to(target)
    assert found(root) == {"shop/cart.py", "outside/other.py"}
    (tmp_path / "link").symlink_to(root)
    assert found(tmp_path / "link") == {"shop/cart.py", "outside/other.py"}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a file that blocks who opens it")
def test_what_is_no_regular_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "folder.py").mkdir()
    assert found(tmp_path) == set()


def test_a_project_that_is_too_large_loses_its_deepest_folders(
    tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("a/deep/x.py", "b/y.py", "z.py")
    monkeypatch.setattr(catalog, "MAX_FILES", 2)
    result = scan(str(tmp_path))
    assert set(result.files) == {"b/y.py", "z.py"}
    assert not result.is_complete
    assert scan(str(tmp_path / "nowhere")).files == {}


# --- under which names --------------------------------------------------------------------------

LAYOUTS = {
    "top.py": "top",
    "shop/__init__.py": "shop",
    "shop/cart.py": "shop.cart",
    "shop/deep/__init__.py": "shop.deep",
    "shop/deep/tax.py": "shop.deep.tax",
    "space/inner/plain.py": "space.inner.plain",
    "src/pack/__init__.py": "pack",
    "src/pack/mod.py": "pack.mod",
    "src/pack/__main__.py": "pack.__main__",
    "src/cloud/storage/__init__.py": "cloud.storage",
    "src/cloud/storage/blob.py": "cloud.storage.blob",
    "libs/one/src/one/__init__.py": "one",
    "libs/one/src/one/core.py": "one.core",
    "backend/app/__init__.py": "app",
    "backend/app/models.py": "app.models",
    "my-tools/run.py": "run",
    "on_path/plain2.py": "plain2",
    "tests/conftest.py": "conftest",
    "tests/test_flat.py": "test_flat",
    "tests/beside.py": "beside",
    "tests/unit/__init__.py": "unit",
    "tests/unit/test_unit.py": "unit.test_unit",
    "tests/unit/deep/__init__.py": "unit.deep",
    "tests/unit/deep/unit_test.py": "unit.deep.unit_test",
    "shop/tests/__init__.py": "shop.tests",
    "shop/tests/test_shop.py": "shop.tests.test_shop",
    "src/pack/test_inline.py": "pack.test_inline",
}


def test_files_have_the_names_that_python_and_pytest_import_them_by(
    tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(*LAYOUTS)
    monkeypatch.syspath_prepend(tmp_path / "on_path")
    modules = scan(str(tmp_path)).files
    assert {file: names[0] for file, names in modules.items()} == LAYOUTS
    assert modules["tests/test_flat.py"] == ("test_flat", "tests.test_flat")
    assert modules["tests/unit/test_unit.py"] == ("unit.test_unit", "tests.unit.test_unit")
    assert "backend.app.models" in modules["backend/app/models.py"]


REPORT = """
    def pytest_collection_finish(session):
        for item in session.items:
            file = item.path.relative_to(item.config.rootpath).as_posix()
            print("NAMED", file, item.module.__name__)
"""


@pytest.mark.full
@pytest.mark.parametrize("is_package", [False, True])
def test_the_names_of_test_modules_are_those_that_pytest_gives(
    tmp_path: Path, write: Write, is_package: bool
) -> None:
    root = tmp_path / "project"
    tests = [f"project/{file}" for file in LAYOUTS]
    write(*tests, text="def test_it(): pass\n", **{"project/conftest.py": REPORT})
    if is_package:
        write("project/__init__.py")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-s", "--co",
               f"--rootdir={root}", "-c", os.devnull]  # fmt: skip
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    named = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("NAMED")]
    assert len(named) == 5, done.stdout
    files = scan(str(root)).files
    assert {file: files[file][0] for file, _ in named} == dict(named)
    assert files["shop/cart.py"][0] == "shop.cart"
    assert files.get("__init__.py") == (("project",) if is_package else None)


# --- what they define ---------------------------------------------------------------------------

SHOP = '''
import typing
from functools import cached_property, wraps

def total(prices, /, tax=0.2, *more, currency="EUR" * 40, **rest):
    """Sums."""
    yield from prices
    def inner(x): return lambda: (yield x)

class Cart[T]:
    count: typing.Callable = lambda self: (yield)

    def __init__(self): self.items = []
    @property
    def size(self): return 1
    @size.setter
    def size(self, value): pass
    @cached_property
    def cached(self): return [lambda: (yield) for _ in ()]
    @staticmethod
    async def fetch(url): return url
    @classmethod
    async def stream(cls): yield 1
    def __private(self):
        class Local:
            def method(self):
                global made_global
                def made_global(self): pass
                class made_too: pass
        try:
            def tried(): pass
        except ValueError:
            def handled(): pass
        else:
            def other(): pass
        finally:
            def ended(): pass

    if typing.TYPE_CHECKING:
        def checked(self): pass
    else:
        def checked(self, n): pass
    @typing.overload
    def dual(self, x: int) -> int: ...
    @typing.overload
    def dual(self, x: str) -> str: ...
    def dual(self, x): return x

@wraps(
    total
)
def decorated(*, only): ...

match 1:
    case 1:
        def matched(): pass
with open(__file__) as f:
    for line in f:
        def looped(): pass
async def gather():
    async with x:
        async for y in z:
            async def inside(): await y
def übersicht(): pass
'''.replace("Cart[T]", "Cart[T]" if sys.version_info >= (3, 12) else "Cart")

Row = tuple[str, int, str, str]


def rows(functions: tuple[FunctionInfo, ...]) -> set[Row]:
    return {(each.qualname, each.line, each.signature_text, each.kind) for each in functions}


def compiled(path: Path) -> set[Row]:
    """What CPython's compiler says, without those that stand back behind another."""
    reported = source_map(str(path), path.name).functions()
    text = path.read_text(encoding="utf-8", errors="replace").splitlines()

    def is_second(line: int) -> bool:
        above = takewhile(lambda each: each.strip().startswith("@"), text[line - 2 :: -1])
        return any(word in each for each in above for word in (".setter", ".deleter", "overload"))

    plain = {each.qualname for each in reported if not is_second(each.line)}
    return rows(tuple(e for e in reported if e.qualname not in plain or not is_second(e.line)))


def test_functions_are_shown_as_the_compiler_makes_them(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP, encoding="utf-8")
    (contents,) = scan(str(tmp_path)).contents.values()
    assert contents.problem is None
    assert rows(contents.functions) == compiled(tmp_path / "shop.py")
    kinds = {each.qualname: each.kind for each in contents.functions}
    assert kinds["Cart.size"] == "property"
    assert kinds["Cart.stream"] == "async generator class method"
    signatures = {each.qualname: each.signature_text for each in contents.functions}
    assert signatures["Cart.dual"] == "(self, x)"
    assert signatures["Cart.size"] == "(self)"


PACKAGES = ("concurrent", "ctypes", "email", "http", "importlib", "logging", "unittest", "xml")


@pytest.mark.full
@pytest.mark.sample("asyncio", "ctypes", "json", "logging")
@pytest.mark.parametrize(
    "package", ["json", "asyncio", *(pytest.param(each, marks=full) for each in PACKAGES)]
)
def test_the_standard_library_is_shown_as_the_compiler_makes_it(package: str) -> None:
    """But for code that is never reached, which the compiler leaves out."""
    root = Path(os.__file__).parent / package
    if not root.exists():
        pytest.skip("this Python comes without it")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = scan(str(root), seconds=100)
        differing = 0
        for file in result.contents:
            expected = compiled(root / file)
            reported = rows(result.contents[file].functions)
            assert {each[0] for each in expected} <= {each[0] for each in reported}, file
            differing += reported != expected
    assert result.contents
    assert differing <= len(result.contents) / 50


ODD = {
    "latin.py": b"# coding: latin-1\ndef \xfcber(): pass\n",
    "mark.py": b"\xef\xbb\xbfdef marked(): pass\n",
    "windows.py": b"def one():\r\n    yield\r\ndef two():\r\n    pass\r\n",
    "empty.py": b"",
    "warns.py": b"def warned(): return '\\d' is 1\n",
}
BROKEN = {
    "bad.py": b"def f(:\n",
    "wide.py": "def f(): pass\n".encode("utf-16"),
    "null.py": b"def f(): pass\0\n",
    "cookie.py": b"# coding: no-such\ndef f(): pass\n",
    "bytes.py": b"def f(): return '\xff'\n",
    "nested.py": b"x = " + b"(" * 1_000 + b")" * 1_000,
    "chain.py": b"def f(x=" + b"-" * 5_000 + b"1): pass\n",
}


def test_files_are_read_in_their_encoding_and_those_that_cannot_be_read_say_why(
    tmp_path: Path,
) -> None:
    """One bad file must not cost the others."""
    for name, data in (ODD | BROKEN).items():
        (tmp_path / name).write_bytes(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = scan(str(tmp_path))
    assert {name: names_in(result, name) for name in ODD} == {
        "latin.py": ["über"], "mark.py": ["marked"], "windows.py": ["one", "two"], "empty.py": [],
        "warns.py": ["warned"],
    }  # fmt: skip
    lines = [each.line for each in result.contents["windows.py"].functions]
    kinds = [each.kind for each in result.contents["windows.py"].functions]
    assert (lines, kinds) == ([1, 3], ["generator function", "function"])
    for name in ODD:
        assert result.contents[name].problem is None
    for name in BROKEN:
        assert result.contents[name].problem, name
        assert result.contents[name].functions == ()
    assert "line 1" in (result.contents["bad.py"].problem or "")


def test_files_that_machines_made_are_not_parsed(
    tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("large.py", text="def f(): pass\n" * 100)
    monkeypatch.setattr(catalog, "MAX_BYTES", 1_000)
    assert "larger than 1,000" in (scan(str(tmp_path)).contents["large.py"].problem or "")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read all")
def test_what_may_not_be_read_is_reported(tmp_path: Path, write: Write) -> None:
    write("secret.py", "closed/x.py")
    (tmp_path / "secret.py").chmod(0)
    (tmp_path / "closed").chmod(0)
    result = scan(str(tmp_path))
    (tmp_path / "closed").chmod(0o700)
    assert set(result.files) == {"secret.py"}
    assert result.contents["secret.py"].problem


# --- how much is read ---------------------------------------------------------------------------


def test_files_that_did_not_change_are_not_read_again(tmp_path: Path, write: Write) -> None:
    write("a.py", "b.py", "c.py")
    first = scan(str(tmp_path))
    known = {file: each.stamp for file, each in first.contents.items()}
    assert set(known) == {"a.py", "b.py", "c.py"}
    write("b.py", text="def g(): pass\n")
    os.utime(tmp_path / "b.py", ns=(1, known["b.py"][0] + 1))
    (tmp_path / "c.py").unlink()
    write("d.py")
    second = scan(str(tmp_path), known=known)
    assert second.unchanged == ["a.py"]
    assert {file: names_in(second, file) for file in second.contents} == {
        "b.py": ["g"], "d.py": ["f"],
    }  # fmt: skip
    assert set(second.files) == {"a.py", "b.py", "d.py"}


@for_each(
    ("name", "files"),
    [
        ("total", {"shop/cart.py", "shop/order.py", "tests/test_total.py"}),
        ("shop.cart.total", {"shop/cart.py"}),
        ("shop.cart.Cart.total", {"shop/cart.py"}),
        ("shop.cart:total", {"shop/cart.py"}),
        ("cart.py::total", {"shop/cart.py"}),
        ("shop.*", {"shop/__init__.py", "shop/cart.py", "shop/order.py"}),
        ("shop.c*.total", {"shop/__init__.py", "shop/cart.py"}),  # a class `c…` of `shop`
        ("*.total", {"shop/__init__.py", "shop/cart.py", "shop/order.py", "tests/test_total.py"}),
        ("tests.test_total.*", {"tests/test_total.py"}),
        ("test_total.total", {"tests/test_total.py"}),
        ("json.loads", set()),
        ("übersicht", {"shop/__init__.py", "shop/cart.py", "shop/order.py", "tests/test_total.py"}),
    ],
)
def test_only_files_that_may_define_a_function_are_read(
    tmp_path: Path, write: Write, name: str, files: set[str]
) -> None:
    text = "def total(): pass\n"
    write("shop/cart.py", "shop/order.py", "tests/test_total.py", text=text)
    write("shop/__init__.py")
    result = scan(str(tmp_path), name=parse_function_name(name))
    assert set(result.contents) == files
    assert len(result.files) == 4


def test_what_there_is_no_time_for_is_counted_and_read_the_next_time(
    tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(*(f"m{number}.py" for number in range(10)))
    ticks = iter(range(1_000))
    monkeypatch.setattr(catalog, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
    first = scan(str(tmp_path), seconds=6)
    assert 0 < first.unread < 10
    assert len(first.contents) + first.unread == 10
    known = {file: each.stamp for file, each in first.contents.items()}
    second = scan(str(tmp_path), known=known, seconds=60)
    assert second.unread == 0
    assert not set(second.contents) & set(first.contents)
    assert not scan(str(tmp_path), seconds=0).is_complete


@full
def test_thousands_of_files_take_seconds_and_a_second_look_next_to_nothing(
    tmp_path: Path, write: Write
) -> None:
    """Two thousand files, forty thousand functions."""
    body = "    def method_{0}(self, value, *rest, key=None):\n        return [value, key]\n\n"
    text = "class Thing:\n" + "".join(body.format(number) for number in range(20))
    write(*(f"part{n % 40}/m{n}.py" for n in range(2_000)), text=text)
    request = {"op": "catalog", "root": str(tmp_path), "seconds": 30}
    command = [sys.executable, "-P", "-m", "pytest_cideldill.sourcecode.helper"]
    reported = json.dumps(request).encode()
    reply = reply_in(
        subprocess.run(command, input=reported, capture_output=True, check=True).stdout
    )
    assert (len(reply["contents"]), reply["unread"], reply["is_complete"]) == (2_000, 0, True)
    assert sum(len(each["functions"]) for each in reply["contents"].values()) == 40_000
    known = {file: each["stamp"] for file, each in reply["contents"].items()}
    again = answer(request | {"known": known, "seconds": 1})
    assert (again["contents"], len(again["unchanged"])) == ({}, 2_000)
    one = answer(request | {"name": "part7.m7.Thing.method_1", "seconds": 1})
    assert list(one["contents"]) == ["part7/m7.py"]


# --- names and the helper -----------------------------------------------------------------------


@for_each("text", ["shop/*.py::total", "shop/**/cart.py::Cart.total", "a?.py::f"])
def test_a_path_that_is_a_glob_is_refused_with_a_way_out(text: str) -> None:
    """It would never mean a function: globs are over dotted paths."""
    with pytest.raises(ValueError, match=r"is a glob; globs are over dotted paths") as caught:
        parse_function_name(text)
    assert repr(text) in str(caught.value)


def test_an_absolute_path_inside_of_the_rootdir_becomes_relative() -> None:
    """Input paths may be either, in replies they are relative."""
    name = parse_function_name("/proj/shop/cart.py::Cart.total").within("/proj")
    assert (name.text, name.path) == ("shop/cart.py::Cart.total", "shop/cart.py")
    assert name.matches("shop.cart", "Cart.total", "shop/cart.py")
    for text in ("/project/x.py::f", "shop/cart.py::f", "shop.cart.f", "f", "shop.*"):
        assert parse_function_name(text).within("/proj") == parse_function_name(text)


KNOWN = ["shop.cart.Cart.total", "shop.cart.total", "shop.order.subtotal", "shop.tax.rate"]


@for_each(
    ("text", "close"),
    [
        ("totla", ["shop.cart.total", "shop.cart.Cart.total"]),
        ("cart.Cart.total", ["shop.cart.Cart.total", "shop.cart.total"]),
        ("shop.cart:subtotl", ["shop.order.subtotal"]),
        ("shop/cart.py::rates", ["shop.tax.rate"]),
        ("shop.*.rte", []),
        ("nothing_like_it", []),
        ("shop.cart.<lambda>", []),
    ],
)
def test_names_that_mean_nothing_have_close_ones(text: str, close: list[str]) -> None:
    """The message names known names."""
    assert close_names(parse_function_name(text), KNOWN) == close


def test_of_very_many_close_names_three_are_reported() -> None:
    known = [f"m{number}.C.__init__" for number in range(5_000)]
    assert close_names(parse_function_name("m7.D.__init__"), known)[0] == "m7.C.__init__"
    assert len(close_names(parse_function_name("nowhere.__init__"), known)) == 3


def test_the_helper_reports_the_catalog(tmp_path: Path, write: Write) -> None:
    write("shop/cart.py", text="def total(tax=0): pass\n")
    request: dict[str, Any] = {"op": "catalog", "root": str(tmp_path)}
    reply = answer(request)
    stat = (tmp_path / "shop" / "cart.py").stat()
    function = {"qualname": "total", "line": 1, "signature": "(tax=0)", "kind": "function"}
    assert json.loads(json.dumps(reply)) == {
        "files": {"shop/cart.py": ["shop.cart"]},
        "unchanged": [],
        "contents": {
            "shop/cart.py": {
                "stamp": [stat.st_mtime_ns, stat.st_size],
                "functions": [function],
                "problem": None,
            }
        },
        "unread": 0,
        "is_complete": True,
    }
    known = {"shop/cart.py": [stat.st_mtime_ns, stat.st_size]}
    assert answer(request | {"known": known})["unchanged"] == ["shop/cart.py"]
    assert answer(request | {"name": "subtotal"})["contents"] == {}


@for_each(
    "wrong",
    [{"root": 3}, {"known": [1]}, {"known": {"a.py": 3}}, {"name": "a b"}, {"seconds": "1"}],
)  # fmt: skip
def test_the_helper_refuses_what_is_no_request_for_a_catalog(
    tmp_path: Path, wrong: dict[str, Any]
) -> None:
    reply = answer({"op": "catalog", "root": str(tmp_path), **wrong})
    assert reply["error"] == "invalid_request"
