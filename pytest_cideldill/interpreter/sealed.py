"""The sealed room: runs our modules with builtins and a standard library of their own.

Tests patch `os.stat`, fake the file system, replace builtins and name their files like modules of
Python. None of that may reach our modules that run beside the tests. So each of these is executed
here, once, before the first conftest, with

* `__builtins__`, a private copy;
* an `__import__` that gives private copies of the standard library: of a C module its names as they
  were, of a Python module a new execution in this room. They are found in the interpreter's own
  folders, never in the project's, and are not in `sys.modules`, where libraries look for functions
  to fake.

Modules write ordinary imports. `SHARED` lists the modules that they share with the program.
"""

from __future__ import annotations

import builtins
import gc
import os
import sys
from collections import ChainMap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.machinery import (
    BuiltinImporter,
    ExtensionFileLoader,
    FrozenImporter,
    ModuleSpec,
    PathFinder,
    SourceFileLoader,
)
from types import FunctionType, MethodType, ModuleType
from typing import Any, Final

globals()["__builtins__"] = dict(vars(builtins))
"""The builtins of all modules in the room. Also of the functions in this module, which take the
builtins that are set when they are made."""

PACKAGE: Final = "pytest_cideldill"

SHARED: Final = frozenset(
    {
        # Values of the program are recognized by their classes.
        *("abc", "collections", "datetime", "decimal", "enum", "functools", "pathlib", "uuid"),
        *("types", "typing", "weakref"),
        # Their state is the program's, and we read or patch it on purpose.
        *("copyreg", "importlib", "inspect", "logging", "pdb", "threading", "warnings"),
        # Used before the first conftest and after the last test only.
        *("argparse", "platform", "shutil", "subprocess", "tempfile"),
    }
)
"""Modules of Python that are shared with the program. pytest needs them itself, so no project can
have files of their names; we use only their classes, and attributes that we read or replace."""

GUESTS: Final = frozenset({"dill"})
"""Libraries that are imported late, when a request needs them, and are shared with the program.

They are executed under their own names, but with an `__import__` of ours: tests may have patched
`__import__`, `os` or `tempfile` by then. Modules that the program has not imported stay so.
"""

_GUESTS_OWN: Final = frozenset({"builtins", "os", "os.path", "tempfile"})
"""Modules that guests call when they are imported; those of the program may be patched."""

_SHARED_IF_LOADED: Final = frozenset({"ctypes", f"{PACKAGE}.interpreter.patched_texts"})
"""Of ctypes a second copy resets the types that the first one made, but not the other way round.
Patched texts are there before the first import, and their module knows which of them ran."""

COPIED: Final = frozenset({"_pytest._io.terminalwriter", "_pytest.assertion.rewrite"})
"""Modules of pytest that are executed anew as well, as tests patch functions that these call."""

_FRESH: Final = frozenset({"_queue", "_socket", "_thread", "posix", "select", "time"})
"""C modules that libraries patch before us, and that the interpreter can make anew."""

_LIVE: Final = frozenset(
    {
        *("argv", "breakpointhook", "displayhook", "excepthook", "last_exc", "last_traceback"),
        *("last_type", "last_value", "meta_path", "modules", "orig_argv", "path", "path_hooks"),
        *("path_importer_cache", "ps1", "ps2", "stderr", "stdin", "stdout", "tracebacklimit"),
        *("unraisablehook", "warnoptions"),
    }
)
"""Attributes of `sys` that the program sets, and that are to have effect here too."""

_OF_MODULES: Final = frozenset({"__builtins__", "__loader__", "__name__", "__spec__"})


_open, _read, _close, _fstat = os.open, os.read, os.close, os.fstat
_FLAGS: Final = os.O_RDONLY | getattr(os, "O_BINARY", 0)


class PatchedEarlier(Exception):
    """A library has replaced a part of the interpreter that we need."""


def load(name: str) -> Any:
    """Load a module of ours and all its imports into the room; later calls return the same one.

    The garbage collector is off meanwhile, as imported modules stay.

    Raises:
        PatchedEarlier: See the class; the message names the library.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return _room().module(name)
    finally:
        if was_enabled:
            gc.enable()


class _Room:
    """The sealed room.

    Attributes:
        modules: The modules that were imported in the room, by the name of the import.
        builtins: The builtins of all modules in the room.
    """

    def __init__(self) -> None:
        self.modules: dict[str, Any] = {}
        self._copies: dict[str, ModuleType] = {}
        self._is_visible = False
        self.builtins: dict[str, Any] = globals()["__builtins__"]
        self.builtins["__import__"] = self.import_
        self._import = builtins.__import__
        library = sys.modules["posixpath" if "posix" in sys.builtin_module_names else "ntpath"]
        folder = library.dirname(sys.modules["os"].__file__)
        self._path = [folder, library.join(folder, "lib-dynload"), *_folders_of_extensions()]
        self.modules["sys"] = _view_of_sys()
        self._sys_of_copies = _view_of_sys()
        # They look for themselves there, also when classes are made later.
        vars(self._sys_of_copies)["modules"] = ChainMap(self._copies, sys.modules)

    def import_(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        _locals: Mapping[str, Any] | None = None,
        fromlist: tuple[str, ...] | None = (),
        level: int = 0,
    ) -> Any:
        """The `__import__` of the modules in the room."""
        name = _absolute(name, globals, level)
        module = self.module(name)
        if name == "sys" and (globals or {}).get("__name__") in self._copies:
            return self._sys_of_copies
        if not fromlist:
            return module if level else self.module(name.partition(".")[0])
        if hasattr(module, "__path__") and not _is_foreign(name):
            for each in fromlist:
                if each != "*" and not hasattr(module, each):
                    self.module(f"{name}.{each}")
        elif _is_foreign(name):
            self._import(name, None, None, fromlist)
        return module

    def module(self, name: str) -> Any:
        """The module of a name; it is made if necessary. Raises ImportError: there is none."""
        module = self.modules.get(name)
        if module is not None:
            return module
        if _is_foreign(name):
            if name not in GUESTS or name in sys.modules or not self._admitted(name):
                self._import(name)
            return sys.modules[name]
        parent, _, own_name = name.rpartition(".")
        above = self.module(parent) if parent else None
        if name in self.modules:  # `os.path`, or the parent has imported it
            return self.modules[name]
        if _is_shared(name):
            self._import(name)
            module = self.modules[name] = sys.modules[name]
            return module
        module = self._made(name, above)
        if name.startswith(f"{PACKAGE}.") or above is not sys.modules.get(parent):
            setattr(above, own_name, module)
        return module

    def _made(self, name: str, above: Any) -> Any:
        if name == PACKAGE:  # it has no code
            return self.modules.setdefault(name, sys.modules[name])
        spec = self._spec(name, above)
        if spec is None or isinstance(spec.loader, ExtensionFileLoader):
            return self._of_c(name, spec)
        if name == "os":
            return self._os()
        return self._executed(name, spec)

    def _spec(self, name: str, above: Any) -> ModuleSpec | None:
        """The spec of a module; None for modules that are built into the interpreter."""
        if name in sys.builtin_module_names:
            return None
        path = self._path if above is None else list(above.__path__)
        # pytest's finder, which rewrites assertions, is left out: it takes as long as all the rest.
        spec = FrozenImporter.find_spec(name) or PathFinder.find_spec(name, path)
        if spec is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return spec

    def _of_c(self, name: str, spec: ModuleSpec | None) -> ModuleType:
        """A copy of a C module, with its names as they are or as the interpreter makes them."""
        if name not in sys.modules and spec is not None:
            found = _made_of_c(spec)
            sys.modules.pop(name, None)  # the program has not imported it
        else:
            self._import(name)
            found = sys.modules[name]
        if name in _FRESH and _patcher(found) is not None:
            found = _anew(name, spec)
        module = ModuleType(_inside(name))
        vars(module).update((n, x) for n, x in vars(found).items() if n not in _OF_MODULES)
        self.modules[name] = module
        return module

    def _os(self) -> ModuleType:
        """A copy of `os` with new functions; not executed anew, as it holds the environment."""
        module = self.modules["os"] = ModuleType(_inside("os"))
        names = vars(module)
        names["__builtins__"] = self.builtins
        original = self.module("posix" if "posix" in sys.builtin_module_names else "nt")
        for name, value in vars(sys.modules["os"]).items():
            if name in _OF_MODULES:
                continue
            names[name] = getattr(original, name) if hasattr(original, name) else value
            if type(value) is FunctionType and value.__module__ == "os":
                made = FunctionType(
                    value.__code__, names, value.__name__, value.__defaults__, value.__closure__
                )
                made.__kwdefaults__ = value.__kwdefaults__
                names[name] = made
        names["environ"] = sys.modules["os"].environ  # the C module has another one
        names["sys"] = self.modules["sys"]
        names["path"] = self.modules["os.path"] = self.module(
            "posixpath" if names["name"] == "posix" else "ntpath"
        )
        return module

    def _executed(self, name: str, spec: ModuleSpec) -> Any:
        is_ours = name.partition(".")[0] == PACKAGE
        module: Any = ModuleType(name if is_ours else _inside(name))
        module.__builtins__ = self.builtins
        module.__file__ = spec.origin
        module.__package__ = spec.parent
        if spec.submodule_search_locations is not None:
            module.__path__ = list(spec.submodule_search_locations)
        if is_ours:
            module.__spec__, module.__cached__ = spec, spec.cached
        code = _code(name, spec)
        self.modules[name] = module
        if is_ours:
            sys.modules[name] = module
        else:
            self._copies[module.__name__] = module
        try:
            with self._visible():
                exec(code, vars(module))
        except BaseException:
            self.modules.pop(name, None)
            sys.modules.pop(module.__name__, None)
            raise
        return module

    def _admitted(self, name: str) -> Any:
        """A module of a guest; None if only the program's finders can find it."""
        parent, _, own_name = name.rpartition(".")
        above: Any = self._admitted(parent) if parent else None
        if name in sys.modules:
            return sys.modules[name]
        spec = PathFinder.find_spec(name, None if above is None else above.__path__)
        if spec is None or type(spec.loader) is not SourceFileLoader:
            return None
        module: Any = ModuleType(name)
        module.__spec__, module.__loader__, module.__package__ = spec, spec.loader, spec.parent
        module.__file__, module.__cached__ = spec.origin, spec.cached
        if spec.submodule_search_locations is not None:
            module.__path__ = list(spec.submodule_search_locations)
        module.__builtins__ = self.builtins | {"__import__": self._import_of_guest}
        sys.modules[name] = module
        try:
            exec(_code(name, spec), vars(module))
        except BaseException:
            sys.modules.pop(name, None)
            raise
        module.__builtins__ = vars(builtins)  # functions that it makes anew are the program's
        if above is not None:
            setattr(above, own_name, module)
        return module

    def _import_of_guest(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        _locals: Mapping[str, Any] | None = None,
        fromlist: tuple[str, ...] | None = (),
        level: int = 0,
    ) -> Any:
        """The `__import__` of guests: gives their own modules, the program's, or our copies."""
        name = _absolute(name, globals, level)
        top = name.partition(".")[0]
        if top in GUESTS:
            find: Any = self._admitted
            for each in fromlist or ():
                if not hasattr(find(name), each):
                    find(f"{name}.{each}")
        elif name in _GUESTS_OWN:
            find = self._own
        elif name in sys.modules:
            find = sys.modules.__getitem__
        elif top in sys.stdlib_module_names:
            find = self.module
        else:
            return self._import(name, None, None, fromlist)
        found = find(name)
        if found is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return found if fromlist or level else find(top)

    def _own(self, name: str) -> Any:
        """A copy of a module of Python, also of one in `SHARED`, that runs no program code."""
        if name == "builtins":
            module = ModuleType(name)
            vars(module).update((n, x) for n, x in self.builtins.items() if n != "__import__")
            return module
        if not _is_shared(name):
            return self.module(name)
        before = self.modules.get(name)
        try:
            return self._made(name, None)
        finally:
            self.modules.pop(name, None)
            if before is not None:
                self.modules[name] = before

    @contextmanager
    def _visible(self) -> Iterator[None]:
        """Put our copies into `sys.modules`, where enumerations and dataclasses look for them."""
        is_outermost = not self._is_visible
        self._is_visible = True
        sys.modules.update(self._copies)
        try:
            yield
        finally:
            if is_outermost:
                self._is_visible = False
                for name in self._copies:
                    sys.modules.pop(name, None)


class _Loader(SourceFileLoader):
    """Reads files by system calls: `io` would import a module for that, perhaps a patched one."""

    def get_data(self, path: str) -> bytes:
        """The content of a file; raises OSError."""
        number = _open(path, _FLAGS)
        try:
            size = _fstat(number).st_size + 1  # more would be asked for from the system
            return b"".join(iter(lambda: _read(number, size), b""))
        finally:
            _close(number)


def _code(name: str, spec: ModuleSpec) -> Any:
    loader: Any = spec.loader
    is_plain = type(loader) is SourceFileLoader
    return (_Loader(name, loader.path) if is_plain else loader).get_code(name)


_rooms: list[_Room] = []


def _room() -> _Room:
    """The one room of the process, in which pytest may run several times."""
    if not _rooms:
        _rooms.append(_Room())
    return _rooms[0]


def _absolute(name: str, globals: Mapping[str, Any] | None, level: int) -> str:
    """The absolute name of a module for an import, perhaps a relative one."""
    if not level:
        return name
    package = (globals or {})["__package__"].split(".")
    return ".".join([*package[: len(package) - level + 1], *filter(None, [name])])


def _is_foreign(name: str) -> bool:
    """Whether a module is neither ours, nor Python's, nor copied: pytest, pluggy, dill, xdist."""
    top = name.partition(".")[0]
    return top != PACKAGE and top not in sys.stdlib_module_names and name not in COPIED


def _is_shared(name: str) -> bool:
    top = name.partition(".")[0]
    is_listed = top in _SHARED_IF_LOADED or name in _SHARED_IF_LOADED
    return top in SHARED or (is_listed and name in sys.modules)


def _view_of_sys() -> ModuleType:
    """A copy of `sys`; attributes that the program sets are read when they are used."""
    view = ModuleType(_inside("sys"))
    original = sys
    vars(view).update((n, x) for n, x in vars(sys).items() if n not in _LIVE | _OF_MODULES)
    vars(view)["__getattr__"] = lambda name: getattr(original, name)
    return view


def _inside(name: str) -> str:
    """The name of a copy, which differs from the names that libraries look for."""
    return f"{PACKAGE}.sealed:{name}"


def _folders_of_extensions() -> list[str]:
    """The folders of C modules, where they are not beside the others (Windows, distributions)."""
    marks = ("lib-dynload", "DLLs")
    inside = [each for each in sys.path if each.startswith(sys.base_exec_prefix)]
    return [each for each in inside if each.rstrip("/\\").endswith(marks)]


def _patcher(module: ModuleType) -> str | None:
    """The library that has put its own functions or classes into a C module; None if none has."""
    for value in list(vars(module).values()):
        if isinstance(value, FunctionType | MethodType | type):
            owner = str(getattr(value, "__module__", "")).partition(".")[0]
            if isinstance(value, FunctionType) or owner not in sys.stdlib_module_names:
                return owner
    return None


def _anew(name: str, spec: ModuleSpec | None) -> ModuleType:
    """A new copy of a module of the interpreter, as if it had not been imported before.

    Raises:
        PatchedEarlier: It can be made only once.
    """
    built_in: Any = BuiltinImporter
    module = _made_of_c(spec or ModuleSpec(name, built_in))
    if (library := _patcher(module)) is not None:
        raise PatchedEarlier(
            f"{library} has replaced functions of {name} before pytest-cideldill was loaded, which "
            f"needs those of Python: have it do so in a conftest"
        )
    return module


def _made_of_c(spec: ModuleSpec) -> ModuleType:
    """Make a module by its loader; its own imports go through the program's `__import__`."""
    loader: Any = spec.loader
    module: ModuleType = loader.create_module(spec)
    loader.exec_module(module)
    return module
