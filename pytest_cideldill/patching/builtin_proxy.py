"""The `Disguise`: replaces a callable without Python code, and looks like it.

It knows nothing of breakpoints and calls a given function. Runs on the threads of the program.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from types import FrameType, FunctionType, MethodType
from typing import Any, Final

from pytest_cideldill.interpreter.borders import is_ours
from pytest_cideldill.interpreter.loaded_names import is_kind

_getframe: Final = sys._getframe

_ABSENT: Final = object()
_DESCRIBED: Final = ("__name__", "__qualname__", "__module__", "__doc__", "__text_signature__")


class Disguise:
    """Looks like a callable, and calls a function.

    Args:
        original: The callable that it looks like.
        function: The function that it calls, which in the end calls the original.
        fits: Whether arguments can be passed to the function.
    """

    __slots__ = ("__dict__", "__weakref__", "_fits", "_function", "_original")

    # The name of the class, where the program can see it.
    __module__ = "builtins"
    __qualname__ = "builtin_function_or_method"

    def __init__(
        self,
        original: Any,
        function: FunctionType,
        fits: Callable[[tuple[Any, ...], dict[str, Any]], bool],
    ) -> None:
        self._original: Any = original
        self._function = function
        self._fits = fits
        for name in _DESCRIBED:
            described = getattr(original, name, _ABSENT)
            if described is not _ABSENT:
                self.__dict__[name] = described
        self.__dict__["__wrapped__"] = original

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        # First find out whether the call is ours: the next check may call the replaced callable
        # itself. Wrong arguments go to the original, which raises its own error.
        if _is_for_us(_getframe(1)) or not self._fits(args, kwargs):
            return self._original(*args, **kwargs)
        return self._function(*args, **kwargs)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self._original)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def __dir__(self) -> Any:
        return dir(self._original)

    def __repr__(self) -> str:
        return repr(self._original)

    def __eq__(self, other: object) -> Any:
        if is_kind(other, Disguise):
            other = other._original  # type: ignore[attr-defined]
        return self._original == other

    def __hash__(self) -> int:
        return hash(self._original)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, _memo: object) -> Any:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle by name if the name leads here, else as the original, which `copy` returns."""
        original = self._original
        is_class = isinstance(original, type)
        named = original.__qualname__ if is_class else original.__reduce_ex__(protocol)
        if type(named) is str:
            module = sys.modules.get(getattr(self._original, "__module__", None) or "")
            if getattr(module, named, None) is self:
                return named
        return copy.copy, (self._original,)

    # If the original is a class of C, instance and subclass checks go to it.

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, self._original)

    def __subclasscheck__(self, subclass: type) -> bool:
        return issubclass(subclass, self._original)

    def __mro_entries__(self, _bases: object) -> tuple[Any, ...]:
        return (self._original,)


class BindableDisguise(Disguise):
    """The disguise of a callable that, as an attribute of a class, is bound to instances."""

    __slots__ = ()
    __module__ = "builtins"
    __qualname__ = "builtin_function_or_method"

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)


def _is_for_us(frame: FrameType | None) -> bool:
    """Whether the debugger itself makes a call: its code comes before code of the program.

    Frames of ours that call the program's code are those that hide themselves from its tracebacks.
    """
    while frame is not None:
        code = frame.f_code
        if is_ours(code.co_filename):
            return "__tracebackhide__" not in code.co_varnames
        frame = frame.f_back
    return False
