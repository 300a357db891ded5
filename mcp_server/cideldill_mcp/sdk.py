"""The library `mcp`, without the parts of it that a server on stdio never uses.

`import mcp.server.runner` executes `mcp/__init__.py` and `mcp/server/__init__.py` first. These two
import every client with its HTTP library, and a framework for servers: more than half of what the
library takes to import, between the start of the front end and its answer to `initialize`.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec
from threading import RLock
from types import ModuleType
from typing import Any

_PACKAGES = ("mcp", "mcp.server")

_executing = RLock()
_under_way: set[str] = set()


def prepare_import() -> None:
    """Have everything that follows import no more of `mcp` than it names.

    Raises:
        ModuleNotFoundError: The extra `mcp` is not installed.
    """
    _defer_packages()
    _defer_models()


def _defer_models() -> None:
    """Import the models of messages that go over the wire, each of which is built at its first use.

    There are 150 for each of two eras of the protocol; a client uses a dozen.
    """
    import mcp_types
    from pydantic import BaseModel

    assert mcp_types is not None  # its own models are built as always
    before = BaseModel.model_config.get("defer_build", False)
    BaseModel.model_config["defer_build"] = True
    try:
        import mcp_types.methods
    finally:
        BaseModel.model_config["defer_build"] = before


def _defer_packages() -> None:
    """Make modules of `mcp` importable without the names that its packages collect.

    `import mcp.server.runner` then executes this module and what it imports. The first use of a
    name of a package, as by `from mcp import Client`, executes the package as always. Packages
    that are imported already stay as they are.

    Raises:
        ModuleNotFoundError: `mcp` is not installed.
    """
    for name in _PACKAGES:
        if name in sys.modules:
            continue
        spec = find_spec(name)
        if spec is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        package = module_from_spec(spec)
        package.__class__ = _Deferred
        sys.modules[name] = package
        owner, _, last = name.rpartition(".")
        if owner:  # as the import system does after it has executed a module
            setattr(sys.modules[owner], last, package)


class _Deferred(ModuleType):
    """A package that was found and not executed; the first name that it lacks executes it."""

    def __getattr__(self, name: str) -> Any:
        # The interpreter looks for names such as `__wrapped__`, which no package of `mcp` defines.
        if not name.startswith("__") or name == "__all__":
            with _executing:  # other threads wait
                if type(self) is _Deferred and self.__name__ not in _under_way:
                    _execute(self)
        # What the package imports gets here too, and may look for names that are not there yet.
        return ModuleType.__getattribute__(self, name)


def _execute(package: ModuleType) -> None:
    assert package.__spec__ is not None
    assert package.__spec__.loader is not None
    _under_way.add(package.__name__)
    try:
        package.__spec__.loader.exec_module(package)
        package.__class__ = ModuleType
    finally:
        _under_way.remove(package.__name__)
