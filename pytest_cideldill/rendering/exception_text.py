"""Renders the text of an exception as `str` would, from its data: no code of the program runs.

The class that defines the `__str__` of an exception decides how. The classes of Python and of
well-known libraries are in tables here; of any other exception the fields are shown, with a hint
how to get the text. Runs on the thread that holds the exception.
"""

from __future__ import annotations

import builtins
import os
import signal
from collections.abc import Callable, Mapping
from string import Formatter
from types import MappingProxyType
from typing import Any, Final

from pytest_cideldill.rendering import layout
from pytest_cideldill.rendering.display import MESSAGE, Lens
from pytest_cideldill.rendering.types import is_genuine, own_text, value_in

ASK: Final = "its text is made by its __str__: evaluate str() of it at a pause"

_DEEPEST: Final = 3
"""Levels of exceptions inside exceptions whose texts are rendered."""

_MOST_FIELDS: Final = 10


def message_of(error: BaseException, lens: Lens) -> str:
    """The text of an exception without secrets: at most `MESSAGE` characters and a hint.

    Args:
        error: Only its real class is looked at.
    """
    exception = _ExceptionText(error, lens, _DEEPEST)
    text = exception.text()
    if text is not None:
        return lens.text(text, MESSAGE)
    fields = lens.text(exception.fields(), MESSAGE)
    return f"{fields} ({ASK})" if fields else f"({ASK})"


def without_hint(message: str) -> str:
    """A message without the hint how to get the text, where it can't be asked for."""
    return message.removesuffix(f"({ASK})").rstrip()


def headline(message: str) -> str:
    """The first line of a message that is not empty: some libraries begin with an empty one."""
    return message.lstrip().partition("\n")[0]


class _ExceptionText:
    """An exception with the ways to render its arguments and attributes.

    Args:
        depth: How many levels of exceptions inside it may still be rendered.
    """

    __slots__ = ("_attributes", "args", "depth", "error", "lens")

    def __init__(self, error: BaseException, lens: Lens, depth: int) -> None:
        self.error, self.lens, self.depth = error, lens, depth
        self.args = layout.args_of(error)
        self._attributes: dict[str, Any] | None = None

    def text(self) -> str | None:
        """The text that `str` makes; None if only code of the program makes it."""
        cls = type(self.error)
        owner, method = _owner_of(cls, "__str__")
        if method is object.__str__:
            owner, method = _owner_of(cls, "__repr__")
            if method is BaseException.__repr__:
                return f"{layout.short_name(cls)}({', '.join(map(self.quoted, self.args))})"
        elif (by_c := _OF_C.get(id(method))) is not None:
            return by_c(self)
        make = _OF_LIBRARIES.get(layout.class_name(owner))
        if make is None or not is_genuine(owner, layout.module_of(owner)):
            return None
        try:
            return make(self)
        except (LookupError, TypeError, ValueError):  # its attributes are not the usual ones
            return None

    def fields(self) -> str:
        """The arguments and attributes."""
        shown = [self.plain(arg) for arg in self.args[: self.lens.limits.max_items]]
        shown_ids = {id(arg) for arg in self.args}
        named = [
            f"{name}={self.lens.show(value, name)}"
            for name, value in list(self.attributes().items())[:_MOST_FIELDS]
            if id(value) not in shown_ids
        ]
        return ", ".join(shown + named)

    def attributes(self) -> dict[str, Any]:
        """The attributes of the exception itself."""
        if self._attributes is None:
            self._attributes = dict(layout.Layout.of(type(self.error)).attributes(self.error))
        return self._attributes

    def __getitem__(self, name: str) -> Any:
        """An attribute of the exception or of its class; None if there is none that is data."""
        attributes = self.attributes()
        if name in attributes:
            return attributes[name]
        value = layout.find_in_class(type(self.error), name)
        return None if layout.find_in_class(type(value), "__get__") is not None else value

    def plain(self, value: object) -> str:
        """A value as `str` renders it."""
        if layout.flags(type(value)) & layout.IS_EXCEPTION:
            inner = _ExceptionText(value, self.lens, self.depth - 1)  # type: ignore[arg-type]
            text = inner.text() if self.depth > 0 else None
            return self.lens.show(value) if text is None else text
        text = own_text(value)
        return self.quoted(value) if text is None else text

    def quoted(self, value: object) -> str:
        """A value as `repr` renders it."""
        return self.lens.in_message(value)

    def s(self, name: str) -> str:
        """An attribute as `str` renders it."""
        return self.plain(self[name])

    def r(self, name: str) -> str:
        """An attribute as `repr` renders it."""
        return self.quoted(self[name])

    def usual(self) -> str:
        """The text that `BaseException.__str__` makes."""
        if len(self.args) == 1:
            return self.plain(self.args[0])
        return self.quoted(self.args) if self.args else ""


def _owner_of(cls: type, name: str) -> tuple[type, Any]:
    """The class in the MRO of `cls` that defines a method, and the method."""
    for base in layout.mro(cls):
        if (method := layout.find(layout.class_dict(base), name)) is not None:
            return base, method
    return object, None


_Make = Callable[[_ExceptionText], str]


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


def _os_error(exception: _ExceptionText) -> str:
    error = exception.error
    number, text, winerror = _errno(error), _strerror(error), _winerror(error)
    if number is None and text is None:  # of a class that does not pass them to its base
        return exception.usual()
    names = [each for each in (_filename(error), _filename2(error)) if each is not None]
    code = f"Errno {exception.plain(number)}" if winerror is None else f"WinError {winerror}"
    where = f": {' -> '.join(map(exception.quoted, names))}" if names else ""
    return f"[{code}] {exception.plain(text)}{where}"


def _key_error(exception: _ExceptionText) -> str:
    return exception.quoted(exception.args[0]) if len(exception.args) == 1 else exception.usual()


def _syntax_error(exception: _ExceptionText) -> str:
    text, name, line = (get(exception.error) for get in _of_syntax)
    places = [str.__str__(name).rpartition(os.sep)[2]] if layout.is_a(type(name), str) else []
    places += [f"line {line}"] if type(line) is int else []
    return f"{exception.plain(text)} ({', '.join(places)})" if places else exception.plain(text)


def _import_error(exception: _ExceptionText) -> str:
    text = _import_message(exception.error)
    return text if type(text) is str else exception.usual()


def _group(exception: _ExceptionText) -> str:
    count = len(_group_members(exception.error))
    message = exception.plain(_group_message(exception.error))
    return f"{message} ({count} sub-exception{'s' * (count > 1)})"


def _unicode_error(cls: Any) -> _Make:
    members = [_member(cls, name) for name in ("encoding", "reason")]
    # Of plain data; with others it may call code of the program.
    by_c: Callable[[BaseException], str] = cls.__str__

    def text(exception: _ExceptionText) -> str:
        # The translating kind has no encoding.
        is_plain = all(type(get(exception.error)) in (str, type(None)) for get in members)
        return by_c(exception.error) if is_plain else exception.usual()

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
        id(cls.__dict__["__str__"]): _SPECIAL.get(cls, _ExceptionText.usual)
        for cls in vars(builtins).values()
        if isinstance(cls, type) and issubclass(cls, BaseException) and "__str__" in cls.__dict__
    }
)
"""By the id of the `__str__`: some classes of Python have one of their own that does the usual."""


# --- classes whose text is made in Python -------------------------------------------------------


def _process_error(exception: _ExceptionText) -> str:
    code = exception["returncode"]
    command = f"Command '{exception.s('cmd')}'"
    if type(code) is not int or code >= 0:
        return f"{command} returned non-zero exit status {exception.s('returncode')}."
    try:
        return f"{command} died with {signal.Signals(-code)!r}."
    except ValueError:
        return f"{command} died with unknown signal {-code}."


def _incomplete_read(exception: _ExceptionText) -> str:
    part = exception["partial"]
    if type(part) not in (bytes, str):
        return exception.usual()
    more = "" if exception["expected"] is None else f", {exception.s('expected')} more expected"
    return f"IncompleteRead({len(part)} bytes read{more})"


def _sql(exception: _ExceptionText) -> str:
    """An error of SQLAlchemy: the message, the statement, where to read about it."""
    is_of_statement = "statement" in exception.attributes()
    lines = [f"({exception.plain(each)})" for each in exception["detail"] or ()]
    lines.append(exception.usual())
    if is_of_statement and exception["statement"]:
        lines.append(f"[SQL: {exception.s('statement')}]")
        if exception["hide_parameters"] and exception["params"]:
            lines.append("[SQL parameters hidden due to hide_parameters=True]")
        elif exception["params"]:
            lines.append(f"[parameters: {exception.r('params')}]")
    if exception["code"]:
        token = exception.plain(value_in("sqlalchemy.exc", "_version_token"))
        url = f"https://sqlalche.me/e/{token}/{exception.s('code')}"
        lines.append(f"(Background on this error at: {url})")
    return ("\n" if is_of_statement else " ").join(lines)


def _django(exception: _ExceptionText) -> str:
    """A validation error of Django: its messages, by field where there are several fields."""
    fields = exception["error_dict"]
    if type(fields) is dict:
        return exception.quoted(
            {name: _django_messages(exception, field) for name, field in fields.items()}
        )
    return exception.quoted(_django_messages(exception, exception["error_list"]))


def _django_messages(exception: _ExceptionText, errors: list[BaseException]) -> list[str]:
    texts = []
    for error in errors:
        inner = _ExceptionText(error, exception.lens, exception.depth)
        message, params = inner["message"], inner["params"]
        if type(message) is not str:
            raise TypeError("translated when it is asked")
        if params:  # as texts: `%` would run code of their classes
            message %= {name: exception.plain(params[name]) for name in dict.keys(params)}
        texts.append(message)
    return texts


def _axis_error(exception: _ExceptionText) -> str:
    axis, size = exception["axis"], exception["ndim"]
    if axis is None and size is None:
        return exception.s("_msg")
    dimension = f"array of dimension {exception.plain(size)}"
    where = f"axis {exception.plain(axis)} is out of bounds for {dimension}"
    return where if exception["_msg"] is None else f"{exception.s('_msg')}: {where}"


def _jinja_syntax(exception: _ExceptionText) -> str:
    text = exception.usual()
    if exception["translated"]:
        return text
    name = exception["filename"] or exception["name"]
    line, source = exception["lineno"], exception["source"]
    file = f'File "{exception.plain(name)}", ' if name else ""
    lines = source.splitlines() if type(source) is str else []
    shown = [f"    {each.strip()}" for each in lines[line - 1 : line]]
    return "\n".join([text, f"  {file}line {exception.plain(line)}", *shown])


def _outcome(exception: _ExceptionText) -> str:
    name = layout.short_name(type(exception.error))
    return f"<{name} instance>" if exception["msg"] is None else exception.s("msg")


def _pydantic(exception: _ExceptionText) -> str:
    """The first line of an error of pydantic; the others hold the `repr` of validated values."""
    get_title, count = (
        layout.find_in_class(type(exception.error), each) for each in ("title", "error_count")
    )
    number = count.__get__(exception.error)()
    title = exception.plain(get_title.__get__(exception.error))
    return f"{number} validation error{'s' * (number != 1)} for {title} (details: {ASK})"


def _formatting(template: str) -> _Make:
    """Renders by a template: `{name}` is an attribute as `str`, `{name!r}` as `repr` renders it."""
    parts = [
        (text, name or "", conversion) for text, name, _, conversion in Formatter().parse(template)
    ]

    def make(exception: _ExceptionText) -> str:
        shown = []
        for text, name, conversion in parts:
            shown.append(text)
            if name:
                shown.append(exception.r(name) if conversion == "r" else exception.s(name))
        return "".join(shown)

    return make


def _unless(name: str, template: str, otherwise: str) -> _Make:
    """Renders by the first template, or by the second if the attribute is missing or empty."""
    usual, other = _formatting(template), _formatting(otherwise)
    return lambda exception: usual(exception) if exception[name] else other(exception)


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
        "importlib.metadata.PackageNotFoundError": lambda exception: (
            f"No package metadata was found for {exception.plain(exception.args[0])}"
        ),
        "multiprocessing.managers.RemoteError": lambda exception: (
            f"\n{'-' * 75}\n{exception.plain(exception.args[0])}{'-' * 75}"
        ),
        "multiprocessing.pool.MaybeEncodingError": _formatting(
            "Error sending result: '{value}'. Reason: '{exc}'"
        ),
        "multiprocessing.pool.RemoteTraceback": _formatting("{tb}"),
        "netrc.NetrcParseError": _formatting("{msg} ({filename}, line {lineno})"),
        "optparse.AmbiguousOptionError": lambda exception: (
            f"ambiguous option: {exception.s('opt_str')} "
            f"({', '.join(map(exception.plain, exception['possibilities']))}?)"
        ),
        "optparse.BadOptionError": _formatting("no such option: {opt_str}"),
        "optparse.OptParseError": _formatting("{msg}"),
        "optparse.OptionError": _unless("option_id", "option {option_id}: {msg}", "{msg}"),
        "py_compile.PyCompileError": _formatting("{msg}"),
        "ssl.SSLError": lambda exception: (
            text
            if type(text := _strerror(exception.error)) is str
            else exception.quoted(exception.args)
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
        "_pytest.outcomes.OutcomeException": _outcome,
        "attr.exceptions.NotCallableError": _formatting("{msg}"),
        "click.exceptions.ClickException": _formatting("{message}"),
        "django.core.exceptions.ValidationError": _django,
        "django.template.base.VariableDoesNotExist": lambda exception: (
            exception["msg"] % tuple(map(exception.plain, exception["params"]))
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
"""By the class that defines the `__str__`, or the `__repr__` where that is used instead."""
