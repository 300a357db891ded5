"""A small project in which each file says which text it was compiled from, and its runs.

`test_patched_sources.py` patches all of its files: `"disk"` becomes `"patched"`, one line further
down. Its tests pass with the patched texts only.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.together.frontend import clean_environment

PLAIN = """
    WORD = "disk"

    def word():
        '''
        >>> word()
        'patched'
        '''
        return WORD  # "disk"

    def fail():
        raise ValueError(WORD)  # "disk"
"""

FILES = {
    "pytest.ini": "[pytest]\n",
    "plain.py": PLAIN,
    "importer.py": "from plain import WORD\nFURTHER = 'disk'\n",
    "package/__init__.py": 'WORD = "disk"\n',
    "package/module.py": 'from . import WORD as ABOVE\nWORD = "disk"\n',
    "package/__main__.py": 'WORD = "disk"\n',
    "space/inner.py": 'WORD = "disk"\n',
    "lazy.py": 'WORD = "disk"\n',
    "hooked.py": 'WORD = "disk"\n',
    "file.py": 'WORD = "disk"\n',
    "script.py": 'WORD = "disk"\n',
    "latin.py": '# -*- coding: latin-1 -*-\nWORD = "disk"\nUMLAUT = "\xe4"\n',
    "dos.py": 'WORD = "disk"\r\nLINES = """a\r\nb"""\r\n',
    "marked.py": '\ufeffWORD = "disk"\n',
    "future.py": "from __future__ import annotations\n\ndef f(x: unknown): pass\n\nWORD = 'disk'\n",
    "own/__init__.py": 'WORD = "disk"\n',
    "own/conftest.py": """
        import pytest

        @pytest.fixture
        def below():
            return "disk"
    """,
    "own/test_own.py": 'def test_conftest_below(below): assert below == "patched"\n',
    "conftest.py": """
        import json
        import pathlib
        import pytest
        from pytest_cideldill.interpreter import patched_texts

        @pytest.fixture
        def word():
            return "disk"

        def pytest_assertrepr_compare(left, right):
            return ["shown by disk"] if left == "shown" else None

        def pytest_sessionfinish(session):
            root = session.config.rootpath
            seen = {"loaded": patched_texts.loaded(), "missing": patched_texts.missing()}
            if not (root / "seen").exists():
                return
            (root / "seen").write_text(json.dumps(seen))
    """,
    "test_kinds.py": """
        import importlib
        import importlib.util
        import inspect
        import linecache
        import pathlib
        import pkgutil
        import runpy
        import sys
        import traceback
        from importlib.machinery import SourceFileLoader

        import dos
        import future
        import importer
        import latin
        import marked
        import package
        import package.module
        import plain
        import space.inner

        HERE = pathlib.Path(__file__).parent
        WORD = "disk"

        def test_test_file():
            assert WORD == "patched"

        def test_conftest(word):
            assert word == "patched"

        def test_plain_module():
            assert plain.word() == "patched"

        def test_module_that_another_imports():
            assert (importer.WORD, importer.FURTHER) == ("patched", "patched")

        def test_package():
            assert package.WORD == "patched"

        def test_module_of_a_package():
            assert (package.module.ABOVE, package.module.WORD) == ("patched", "patched")

        def test_namespace_package():
            assert space.inner.WORD == "patched"

        def test_reload():
            assert importlib.reload(importer).FURTHER == "patched"

        def test_import_after_it_was_forgotten():
            del sys.modules["plain"]
            try:
                assert importlib.import_module("plain").WORD == "patched"
            finally:
                sys.modules["plain"] = plain

        def test_spec_from_a_file():
            spec = importlib.util.spec_from_file_location("other_name", HERE / "file.py")
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            assert module.WORD == "patched"

        def test_lazy_loader():
            spec = importlib.util.find_spec("lazy")
            spec.loader = importlib.util.LazyLoader(spec.loader)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            assert module.WORD == "patched"

        def test_loader_of_an_import_hook():
            class Loader(SourceFileLoader):
                def source_to_code(self, data, path, *, _optimize=-1):
                    data = data.replace(b"WORD", b"HOOKED")
                    return super().source_to_code(data, path, _optimize=_optimize)

            loader = Loader("hooked", str(HERE / "hooked.py"))
            spec = importlib.util.spec_from_loader("hooked", loader)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            assert module.HOOKED == "patched"

        def test_run_path():
            assert runpy.run_path(str(HERE / "script.py"))["WORD"] == "patched"

        def test_run_module():
            assert runpy.run_module("package")["WORD"] == "patched"

        def test_declared_encoding():
            assert (latin.WORD, latin.UMLAUT) == ("patched", chr(0xe4))

        def test_line_ends_of_another_system():
            assert (dos.WORD, dos.LINES) == ("patched", "a" + chr(10) + "b")
            assert linecache.getline(dos.__file__, 2).strip() == 'WORD = "patched"'

        def test_byte_order_mark():
            assert marked.WORD == "patched"
            assert linecache.getline(marked.__file__, 1) == "# patched" + chr(10)

        def test_future_imports():
            assert (future.WORD, future.f.__annotations__) == ("patched", {"x": "unknown"})

        def test_source_by_inspect():
            assert '"patched"' in inspect.getsource(plain.word)
            assert inspect.getsourcelines(plain.word)[1] == 4
            linecache.clearcache()
            assert '"patched"' in inspect.getsource(plain.word)
            linecache.checkcache()
            assert '"patched"' in inspect.getsource(plain)

        def test_source_by_the_loader():
            assert '"patched"' in latin.__loader__.get_source("latin")
            assert b'"patched"' in __loader__.get_data(__file__)
            assert b'"patched"' in pkgutil.get_data("package", "module.py")

        def test_traceback():
            try:
                plain.fail()
            except ValueError:
                text = traceback.format_exc()
            assert 'raise ValueError(WORD)  # "patched"' in text
            assert 'plain.py", line 12, in fail' in text

        def test_loaders_and_specs_are_those_of_python():
            assert type(latin.__loader__) is SourceFileLoader
            assert latin.__cached__ == importlib.util.cache_from_source(latin.__file__)
            assert WORD == "patched"
    """,
    "test_failing.py": """
        import plain

        WORD = "disk"

        def test_values():
            assert plain.word() == WORD.upper()  # "disk"

        def test_shown():
            assert "shown" == WORD

        def test_raised():
            plain.fail()
    """,
}


@dataclass(frozen=True, slots=True)
class Ran:
    """A run that is over.

    Attributes:
        outcomes: Node id → outcome, as in pytest's short summary.
    """

    status: int
    out: str
    err: str
    outcomes: dict[str, str] = field(default_factory=dict)


def write(root: Path, files: Mapping[str, str] = FILES) -> None:
    """Write a project; files have the encodings that they declare."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        encoding = "latin-1" if "latin-1" in text else "utf-8"
        path.write_bytes(textwrap.dedent(text).lstrip("\n").encode(encoding))


def patched(root: Path, *names: str) -> dict[Path, str]:
    """The patched texts of files, of all sources if none is named."""
    texts = {}
    for path in [root / name for name in names] or sorted(root.rglob("*.py")):
        data = path.read_bytes()
        text = data.decode("latin-1" if b"latin-1" in data else "utf-8")
        text = text.replace('"disk"', '"patched"').replace("'disk'", "'patched'")
        text = text.replace("shown by disk", "shown by patched")
        mark, cookie, end = "", "", "\r\n" if "\r\n" in text else "\n"
        if text.startswith("\ufeff"):
            mark, text = "\ufeff", text[1:]
        if text.startswith("# -*-"):
            cookie, _, text = text.partition("\n")
            cookie += "\n"
        texts[path] = f"{mark}{cookie}# patched{end}{text}"
    return texts


def run(
    root: Path,
    patches: Mapping[Path, str] | None,
    *arguments: str,
    start: Sequence[str] = ("-m", "pytest_cideldill.experiments"),
    **environment: str,
) -> Ran:
    """Run pytest in a project, with patches if there are any."""
    further = dict(environment)
    if patches is not None:
        file = root.parent / f"{root.name}.patches.json"
        listed = [{"file": str(path), "text": text} for path, text in patches.items()]
        file.write_text(json.dumps(listed), encoding="utf-8")
        further["CIDELDILL_PATCHES"] = str(file)
    done = subprocess.run(
        [sys.executable, "-W", "error", *start, "-W", "error", "-rA", "-q", *arguments],
        cwd=root,
        env=clean_environment(**further),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
    )
    summary = done.stdout.rpartition("short test summary info")[2]
    lines = [line.split(" - ")[0].split(maxsplit=1) for line in summary.splitlines()]
    outcomes = {line[1]: line[0].lower() for line in lines if len(line) == 2 and line[0].isupper()}
    return Ran(done.returncode, done.stdout, done.stderr, outcomes)


def digest(root: Path) -> dict[str, str]:
    """The digests of all files of a project, bytecode included, by name."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }
