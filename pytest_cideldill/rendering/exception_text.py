"""The text of an exception as `str` would make it, from its data: no code of the program runs.

The class that gives an exception its `__str__` decides. Those of Python and of well-known libraries
are in tables here; of any other the fields are told, and how to ask for the text. On the thread
that holds the exception.
"""

from __future__ import annotations

import builtins
import os
import signal
from collections.abc import Callable, Mapping
from string import Formatter
from types import MappingProxyType
from typing import Any, Final

from pytest_cideldill.rendering.display import MESSAGE, Lens
from pytest_cideldill.rendering.layout import (
    IS_EXCEPTION,
    Layout,
    class_dict,
    class_name,
    find,
    find_in_class,
    flags,
    is_a,
    module_of,
    mro,
    short_name,
)
from pytest_cideldill.rendering.types import is_genuine, own_text, value_in

ASK: Final = "its text is made by its __str__: evaluate str() of it at a pause"

_DEEPEST: Final = 3
"""Exceptions inside of exceptions whose texts are made."""

_MOST_FIELDS: Final = 10

_args_of = BaseException.__dict__["args"].__get__


def message_of(error: BaseException, lens: Lens) -> str:
    """The text of an exception, at most `MESSAGE` characters and a sentence, without secrets.

    Args:
        error: Only its real class is looked at.
        lens: Shows values, hides secrets.
    """
    told = _Told(error, lens, _DEEPEST)
    text = told.text()
    if text is not None:
        return lens.text(text, MESSAGE)
    fields = lens.text(told.fields(), MESSAGE)
    return f"{fields} ({ASK})" if fields else f"({ASK})"


class _Told:
    """An exception whose text is made.

    Args:
        error: The exception.
        lens: Shows values.
        depth: How many levels of exceptions inside of it are left.
    """

    __slots__ = ("_held", "args", "depth", "error", "lens")

    def __init__(self, error: BaseException, lens: Lens, depth: int) -> None:
        self.error, self.lens, self.depth = error, lens, depth
        self.args: tuple[Any, ...] = _args_of(error)
        self._held: dict[str, Any] | None = None

    def text(self) -> str | None:
        """As `str` makes it; None: code of the program would."""
        cls = type(self.error)
        owner, found = _owner_of(cls, "__str__")
        if found is object.__str__:
            owner, found = _owner_of(cls, "__repr__")
            if found is BaseException.__repr__:
                return f"{short_name(cls)}({', '.join(map(self.quoted, self.args))})"
        elif (by_c := _OF_C.get(id(found))) is not None:
            return by_c(self)
        make = _OF_LIBRARIES.get(class_name(owner))
        if make is None or not is_genuine(owner, module_of(owner)):
            return None
        try:
            return make(self)
        except (LookupError, TypeError, ValueError):  # it holds something else than usual
            return None

    def fields(self) -> str:
        """The arguments and attributes."""
        shown = [self.plain(each) for each in self.args[: self.lens.limits.max_items]]
        known = {id(each) for each in self.args}
        named = [
            f"{name}={self.lens.show(value, name)}"
            for name, value in list(self.held().items())[:_MOST_FIELDS]
            if id(value) not in known
        ]
        return ", ".join(shown + named)

    def held(self) -> dict[str, Any]:
        """The attributes of the exception itself."""
        if self._held is None:
            self._held = dict(Layout.of(type(self.error)).attributes(self.error))
        return self._held

    def __getitem__(self, name: str) -> Any:
        """An attribute, of the class too; None: there is none that is data."""
        held = self.held()
        if name in held:
            return held[name]
        found = find_in_class(type(self.error), name)
        return None if find_in_class(type(found), "__get__") is not None else found

    def plain(self, value: object) -> str:
        """A value as `str` tells it."""
        if flags(type(value)) & IS_EXCEPTION:
            inner = _Told(value, self.lens, self.depth - 1)  # type: ignore[arg-type]
            text = inner.text() if self.depth > 0 else None
            return self.lens.show(value) if text is None else text
        text = own_text(value)
        return self.quoted(value) if text is None else text

    def quoted(self, value: object) -> str:
        """A value as `repr` tells it."""
        return self.lens.in_message(value)

    def s(self, name: str) -> str:
        """An attribute as `str` tells it."""
        return self.plain(self[name])

    def r(self, name: str) -> str:
        """An attribute as `repr` tells it."""
        return self.quoted(self[name])

    def by_c(self, descriptor: Any) -> str:
        """The text that C code makes, which asks nothing of the program for what the data is."""
        text: str = descriptor(self.error)
        return text

    def usual(self) -> str:
        """As `BaseException` tells it."""
        if len(self.args) == 1:
            return self.plain(self.args[0])
        return self.quoted(self.args) if self.args else ""


def _owner_of(cls: type, name: str) -> tuple[type, Any]:
    """The class that gives `cls` a method, and what that is."""
    for base in mro(cls):
        if (found := find(class_dict(base), name)) is not None:
            return base, found
    return object, None


_Make = Callable[[_Told], str]


# --- classes whose text C code makes ------------------------------------------------------------


def _member(cls: type, name: str) -> Callable[[BaseException], Any]:
    descriptor = cls.__dict__.get(name)
    return (lambda _error: None) if descriptor is None else descriptor.__get__


_errno, _strerror, _filename, _filename2, _winerror = (
    _member(OSError, name) for name in ("errno", "strerror", "filename", "filename2", "winerror")
)
_group_message, _group_members = (
    _member(BaseExceptionGroup, name) for name in ("message", "exceptions")
)
_of_syntax = [_member(SyntaxError, name) for name in ("msg", "filename", "lineno")]
_import_message = _member(ImportError, "msg")


def _os_error(told: _Told) -> str:
    error = told.error
    number, text, winerror = _errno(error), _strerror(error), _winerror(error)
    if number is None and text is None:  # of a class that does not tell them to its base
        return told.usual()
    names = [each for each in (_filename(error), _filename2(error)) if each is not None]
    code = f"Errno {told.plain(number)}" if winerror is None else f"WinError {winerror}"
    where = f": {' -> '.join(map(told.quoted, names))}" if names else ""
    return f"[{code}] {told.plain(text)}{where}"


def _key_error(told: _Told) -> str:
    return told.quoted(told.args[0]) if len(told.args) == 1 else told.usual()


def _syntax_error(told: _Told) -> str:
    text, name, line = (get(told.error) for get in _of_syntax)
    places = [str.__str__(name).rpartition(os.sep)[2]] if is_a(type(name), str) else []
    places += [f"line {line}"] if type(line) is int else []
    return f"{told.plain(text)} ({', '.join(places)})" if places else told.plain(text)


def _import_error(told: _Told) -> str:
    text = _import_message(told.error)
    return text if type(text) is str else told.usual()


def _group(told: _Told) -> str:
    count = len(_group_members(told.error))
    return f"{told.plain(_group_message(told.error))} ({count} sub-exception{'s' * (count > 1)})"


def _unicode_error(cls: type) -> _Make:
    members = [_member(cls, name) for name in ("encoding", "reason")]

    def text(told: _Told) -> str:
        # The translating kind has no encoding.
        is_plain = all(type(get(told.error)) in (str, type(None)) for get in members)
        return told.by_c(cls.__str__) if is_plain else told.usual()

    return text


_SPECIAL: Final[Mapping[type[BaseException], _Make]] = MappingProxyType(
    {
        OSError: _os_error,
        KeyError: _key_error,
        SyntaxError: _syntax_error,
        ImportError: _import_error,
        BaseExceptionGroup: _group,
        **{
            cls: _unicode_error(cls)
            for cls in (UnicodeDecodeError, UnicodeEncodeError, UnicodeTranslateError)
        },
    }
)
_OF_C: Final[Mapping[int, _Make]] = MappingProxyType(
    {
        id(cls.__dict__["__str__"]): _SPECIAL.get(cls, _Told.usual)
        for cls in vars(builtins).values()
        if isinstance(cls, type) and issubclass(cls, BaseException) and "__str__" in cls.__dict__
    }
)
"""By the id of the `__str__`, as Python gives some classes one of their own that is the usual."""


# --- classes whose text is made in Python -------------------------------------------------------


def _process_error(told: _Told) -> str:
    code = told["returncode"]
    command = f"Command '{told.s('cmd')}'"
    if type(code) is not int or code >= 0:
        return f"{command} returned non-zero exit status {told.s('returncode')}."
    try:
        return f"{command} died with {signal.Signals(-code)!r}."
    except ValueError:
        return f"{command} died with unknown signal {-code}."


def _incomplete_read(told: _Told) -> str:
    expected, part = told["expected"], told["partial"]
    more = "" if expected is None else f", {told.s('expected')} more expected"
    return (
        f"IncompleteRead({len(part)} bytes read{more})"
        if type(part) in (bytes, str)
        else told.usual()
    )


def _sql(told: _Told) -> str:
    """Of SQLAlchemy: the message, the statement, where to read about it."""
    is_of_statement = "statement" in told.held()
    lines = [f"({told.plain(each)})" for each in told["detail"] or ()]
    lines.append(told.usual())
    if is_of_statement and told["statement"]:
        lines.append(f"[SQL: {told.s('statement')}]")
        if told["hide_parameters"] and told["params"]:
            lines.append("[SQL parameters hidden due to hide_parameters=True]")
        elif told["params"]:
            lines.append(f"[parameters: {told.r('params')}]")
    if told["code"]:
        token = told.plain(value_in("sqlalchemy.exc", "_version_token"))
        url = f"https://sqlalche.me/e/{token}/{told.s('code')}"
        lines.append(f"(Background on this error at: {url})")
    return ("\n" if is_of_statement else " ").join(lines)


def _django(told: _Told) -> str:
    """Of Django: the messages, of each field where there are several."""
    fields = told["error_dict"]
    if type(fields) is dict:
        return told.quoted({name: _django_messages(told, each) for name, each in fields.items()})
    return told.quoted(_django_messages(told, told["error_list"]))


def _django_messages(told: _Told, errors: list[BaseException]) -> list[str]:
    texts = []
    for each in errors:
        inner = _Told(each, told.lens, told.depth)
        message, params = inner["message"], inner["params"]
        if type(message) is not str:
            raise TypeError("translated when it is asked")
        texts.append(_formatted(told, message, params) if params else message)
    return texts


def _formatted(told: _Told, template: str, params: Any) -> str:
    """`template % params`, without the code of what they are.

    Raises:
        TypeError: They are no dictionary.
    """
    return template % {name: told.plain(params[name]) for name in dict.keys(params)}


def _axis_error(told: _Told) -> str:
    axis, size = told["axis"], told["ndim"]
    if axis is None and size is None:
        return told.s("_msg")
    where = f"axis {told.plain(axis)} is out of bounds for array of dimension {told.plain(size)}"
    return where if told["_msg"] is None else f"{told.s('_msg')}: {where}"


def _jinja_syntax(told: _Told) -> str:
    text = told.usual()
    if told["translated"]:
        return text
    name, line, source = told["filename"] or told["name"], told["lineno"], told["source"]
    place = f'File "{told.plain(name)}", line {told.plain(line)}' if name else f"line {line}"
    lines = source.splitlines() if type(source) is str else []
    shown = [f"    {each.strip()}" for each in lines[line - 1 : line]]
    return "\n".join([text, f"  {place}", *shown])


def _pydantic(told: _Told) -> str:
    """Its first line; the others hold the `repr` of what was validated."""
    get_title, count = (find_in_class(type(told.error), each) for each in ("title", "error_count"))
    number = count.__get__(told.error)()
    title = told.plain(get_title.__get__(told.error))
    return f"{number} validation error{'s' * (number != 1)} for {title} (details: {ASK})"


def _formatting(template: str) -> _Make:
    """By a template: `{name}` is an attribute as `str` tells it, `{name!r}` as `repr` does."""
    parts = [
        (text, name or "", conversion) for text, name, _, conversion in Formatter().parse(template)
    ]

    def make(told: _Told) -> str:
        shown = []
        for text, name, conversion in parts:
            shown.append(text)
            if name:
                shown.append(told.r(name) if conversion == "r" else told.s(name))
        return "".join(shown)

    return make


def _unless(name: str, template: str, otherwise: str) -> _Make:
    """By the first template, unless that attribute is missing or empty."""
    usual, other = _formatting(template), _formatting(otherwise)
    return lambda told: usual(told) if told[name] else other(told)


_OF_LIBRARIES: Final[Mapping[str, _Make]] = MappingProxyType(
    {
        "argparse.ArgumentError": _unless(
            "argument_name", "argument {argument_name}: {message}", "{message}"
        ),
        "calendar.IllegalMonthError": _formatting("bad month number {month!r}; must be 1-12"),
        "calendar.IllegalWeekdayError": _formatting(
            "bad weekday number {weekday!r}; must be 0 (Monday) to 6 (Sunday)"
        ),
        "concurrent.futures.process._RemoteTraceback": _formatting("{tb}"),
        "configparser.Error": _formatting("{message}"),
        "email.errors.NonPrintableDefect": _formatting(
            "the following ASCII non-printables found in header: {non_printables}"
        ),
        "getopt.GetoptError": _formatting("{msg}"),
        "http.client.IncompleteRead": _incomplete_read,
        "importlib.metadata.PackageNotFoundError": lambda told: (
            f"No package metadata was found for {told.plain(told.args[0])}"
        ),
        "multiprocessing.managers.RemoteError": lambda told: (
            f"\n{'-' * 75}\n{told.plain(told.args[0])}{'-' * 75}"
        ),
        "multiprocessing.pool.MaybeEncodingError": _formatting(
            "Error sending result: '{value}'. Reason: '{exc}'"
        ),
        "multiprocessing.pool.RemoteTraceback": _formatting("{tb}"),
        "netrc.NetrcParseError": _formatting("{msg} ({filename}, line {lineno})"),
        "optparse.AmbiguousOptionError": lambda told: (
            f"ambiguous option: {told.s('opt_str')} "
            f"({', '.join(map(told.plain, told['possibilities']))}?)"
        ),
        "optparse.BadOptionError": _formatting("no such option: {opt_str}"),
        "optparse.OptParseError": _formatting("{msg}"),
        "optparse.OptionError": _unless("option_id", "option {option_id}: {msg}", "{msg}"),
        "py_compile.PyCompileError": _formatting("{msg}"),
        "ssl.SSLError": lambda told: (
            text if type(text := _strerror(told.error)) is str else told.quoted(told.args)
        ),
        "subprocess.CalledProcessError": _process_error,
        "subprocess.TimeoutExpired": _formatting(
            "Command '{cmd}' timed out after {timeout} seconds"
        ),
        "urllib.error.HTTPError": _formatting("HTTP Error {code}: {msg}"),
        "urllib.error.URLError": _formatting("<urlopen error {reason}>"),
        "xdrlib.Error": _formatting("{msg}"),
        "xmlrpc.client.Fault": _formatting("<Fault {faultCode}: {faultString!r}>"),
        "xmlrpc.client.ProtocolError": _formatting("<ProtocolError for {url}: {errcode} {errmsg}>"),
        # of other distributions
        "attr.exceptions.NotCallableError": _formatting("{msg}"),
        "click.exceptions.ClickException": _formatting("{message}"),
        "django.core.exceptions.ValidationError": _django,
        "django.template.base.VariableDoesNotExist": lambda told: (
            told["msg"] % tuple(map(told.plain, told["params"]))
        ),
        "jinja2.exceptions.TemplateNotFound": _formatting("{message}"),
        "jinja2.exceptions.TemplateSyntaxError": _jinja_syntax,
        "numpy.exceptions.AxisError": _axis_error,
        "pydantic.errors.PydanticErrorMixin": _formatting("{message}"),
        "pydantic_core._pydantic_core.ValidationError": _pydantic,
        "sqlalchemy.exc.SQLAlchemyError": _sql,
        "starlette.exceptions.HTTPException": _formatting("{status_code}: {detail}"),
        "starlette.exceptions.WebSocketException": _formatting("{code}: {reason}"),
    }
)
"""By the class that has the `__str__`, or the `__repr__` where that stands for it."""
