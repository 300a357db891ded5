"""Forced changes: what calls of a function give, or what a line finds, is decided in advance.

Places are found and intercepted by breakpoints; where one stops a thread, it goes on at once as the
change says. On the threads of the program.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from types import CodeType, FrameType, FunctionType
from typing import Any, Final

from pytest_cideldill.calltraces.row_file import RowFile
from pytest_cideldill.context import Context
from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.evaluation.repl_eval import evaluate
from pytest_cideldill.interpreter.borders import contained
from pytest_cideldill.interpreter.patched_texts import lines_of
from pytest_cideldill.pauses.parking import Pause, Resolution, Stop
from pytest_cideldill.pauses.resume import decode
from pytest_cideldill.probes.conditions import ConditionFailure, Judge, judging
from pytest_cideldill.probes.replacing import Replacement
from pytest_cideldill.protocol import AddBreakpoint, AddLine, Resume
from pytest_cideldill.protocol.trace_rows import ForcedChange
from pytest_cideldill.sourcecode.helper import source_map
from pytest_cideldill.sourcecode.locations import SourceMap, SourcePlace
from pytest_cideldill.sourcecode.quiet import compiled, parse

_RESULT: Final = "__return__"
"""The name of the result in the value of a change; it then needs the call to have been made."""

_VALUE: Final = "__value__"

_WIDER: Final = "fn-wider-"
"""Ids of breakpoints for names that leave out the first modules, as questions take them."""

_MOST_LINES: Final = 30
"""Lines of a patch that are looked at, whether they are reached."""

_MOST_FAILURES: Final = 3
"""Texts that are left of one change that can't be made."""


class _Change:
    """A change, and how often it was made."""

    def __init__(self, number: int, spec: ForcedChange) -> None:
        self.number = number
        self.spec = spec
        self.phase = "line" if spec.kind == "set_local" else "before"
        if spec.kind == "return" and _names_result(spec.value):
            self.phase = "after"
        self.failures = 0
        self.begin()
        self.judges: dict[int, tuple[CodeType, Judge]] = {}
        # Of a replacement that is written out: id of the globals → those, and the function.
        self._functions: dict[int, tuple[dict[str, Any], Callable[..., Any]]] = {}

    def begin(self) -> None:
        """A test is over: the next one counts anew."""
        self.calls = count(1)
        self.seen = self.made = 0

    def number_anew(self) -> None:
        """A test begins: what was called before, at imports, has no number in it."""
        self.calls = count(1)

    def replacement(self, names: dict[str, Any]) -> Callable[..., Any]:
        """The function that is called instead of one with these globals; the same each time.

        Raises:
            Refusal: The source makes none.
        """
        known = self._functions.get(id(names))
        if known is None:
            known = self._functions[id(names)] = names, made_of(self.spec.source, names)
        return known[1]


class Changes:
    """The changes of one process.

    Args:
        context: Of the process.
        specs: What is to be changed, in order: the first that is made at a place decides.
        rows: Take how often each was made.

    Raises:
        ValueError: A line has no code.
        OSError: A file can't be read.
    """

    def __init__(self, context: Context, specs: Sequence[ForcedChange], rows: RowFile) -> None:
        self._lens, self._guard, self._overtime = context.lens, context.guard, context.overtime
        self._warn = context.warn
        self._rows = rows
        self._all = [_Change(number, spec) for number, spec in enumerate(specs)]
        self._is_in_test = False
        self._at: dict[str, list[_Change]] = {}  # id of a breakpoint → its changes
        # Trampoline's frame that runs → the changes that are to be made when its call is done.
        self._later: dict[int, list[_Change]] = {}
        self.commands: list[AddBreakpoint | AddLine] = [*self._functions(), *self._lines()]

    def _functions(self) -> list[AddBreakpoint]:
        names: dict[str, list[_Change]] = {}
        for change in self._all:
            if change.spec.function:
                names.setdefault(change.spec.function, []).append(change)
        commands = []
        for number, (name, changes) in enumerate(names.items(), 1):
            ends = any(change.phase == "after" for change in changes)
            after = "stop_exception" if ends else "go"
            for id, pattern in ((f"fn-{number}", name), (f"{_WIDER}{number}", _wider(name))):
                if pattern:
                    self._at[id] = changes
                    commands.append(AddBreakpoint(0, id, pattern, "stop", None, after))
        return commands

    def _lines(self) -> list[AddLine]:
        commands = []
        for each in self._all:
            spec = each.spec
            if spec.kind == "set_local":
                place = _map_of(spec.file).code_for_line(spec.line)
                commands.append(self._line(f"bp-{each.number}", each, place))
            elif spec.kind == "patch":
                for place in _places(spec):
                    commands.append(self._line(f"tp-{each.number}-{place.line}", each, place, "x"))
        return commands

    def _line(
        self, id: str, change: _Change, place: SourcePlace, message: str | None = None
    ) -> AddLine:
        """A breakpoint; with a message a tracepoint that is done when it was passed once."""
        self._at[id] = [change]
        file, key, most = change.spec.file, place.key.to_plain(), int(message is not None)
        return AddLine(0, id, file, place.line, key, message=message, max_notifications=most)

    def by_number(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Facts about breakpoints, as facts about the changes at them."""
        known: dict[str, Any] = {}
        for id, fact in sorted(facts.items()):  # `fn-` before the wider ones
            for change in self._at.get(id, ()):
                if fact.get("why") is None or str(change.number) not in known:
                    known[str(change.number)] = fact
        return known

    def begin_test(self) -> None:
        """From here on calls have numbers."""
        self._is_in_test = True
        for change in self._all:
            change.number_anew()

    def end_test(self) -> None:
        """Leave how often each was made in it."""
        for change in self._all:
            self._rows.add(["applied", change.number, change.made, change.seen])
            change.begin()
        self._is_in_test = False

    # --- where a thread stops ---------------------------------------------------------------

    def decide(self, stop: Stop) -> Resolution:
        """How it goes on; whatever fails here, it goes on as without us."""
        return contained("a change", lambda: self._decide(stop), self._warn, Resolution())

    def _decide(self, stop: Stop) -> Resolution:
        changes = self._at.get(str(stop.details.get("breakpoint_id")), [])
        frame = stop.frames[0]
        if stop.phase in ("after", "exception"):
            wanted = self._later.pop(id(frame), [])
            return self._first(wanted if stop.phase == "after" else [], stop)
        now = [change for change in changes if self._is_meant(change, frame)]
        later = [change for change in now if change.phase == "after"]
        resolution = self._first([change for change in now if change not in later], stop)
        if later and resolution.action not in ("skip", "raise"):
            self._later[id(frame)] = later
        return resolution

    def _is_meant(self, change: _Change, frame: FrameType) -> bool:
        spec = change.spec
        change.seen = number = next(change.calls)
        if spec.call and not (self._is_in_test and number == spec.call):
            return False
        return spec.when is None or self._holds(change, spec.when, frame)

    def _holds(self, change: _Change, condition: str, frame: FrameType) -> bool:
        code = frame.f_code
        known = change.judges.get(id(code))
        if known is None:
            known = change.judges[id(code)] = code, judging(condition, code, self._overtime)
        verdict = known[1](frame)
        if isinstance(verdict, ConditionFailure):
            self._report(change, f"when raised {verdict.text}")
            return False
        return verdict

    def _first(self, changes: Sequence[_Change], stop: Stop) -> Resolution:
        """What the first that replaces the call says, else all new arguments together."""
        chosen = Resolution()
        for change in changes:
            try:
                made = self._resolution(change, stop)
            except Refusal as refusal:
                self._report(change, refusal.message)
                continue
            change.made += 1
            if made.action != "continue":
                return made
            chosen = made if made.value is not None else chosen
        return chosen

    def _report(self, change: _Change, text: str) -> None:
        change.failures += 1
        if change.failures <= _MOST_FAILURES:
            self._rows.add(["unapplied", change.number, self._lens.text(text, 300)])

    def _resolution(self, change: _Change, stop: Stop) -> Resolution:
        """What a change does to one call.

        Raises:
            Refusal: It can't be made there.
        """
        spec = change.spec
        if spec.kind == "set_local":
            self._assign(spec, stop.frames[0])
            return Resolution()
        if spec.kind == "replace" and not is_path(spec.source):
            function = change.replacement(stop.frames[0].f_globals)
            return Resolution("replace", value=(Replacement("the replacement", function), None))
        assert stop.resolve is not None
        pause = Pause("", stop.phase, list(stop.frames), {}, stop.resolve, dict(stop.names or {}))
        with self._guard.evaluating():
            return stop.resolve(_command(spec), pause)

    def _assign(self, spec: ForcedChange, frame: FrameType) -> None:
        with self._guard.evaluating():
            value = decode(spec.value, frame, _no_object)
        done = evaluate(f"{spec.name} = {_VALUE}", frame, {_VALUE: value}, guard=self._guard)
        if done.is_error:
            raise _refused(f"{spec.name} can't be assigned: {done.output}")


def _map_of(file: str) -> SourceMap:
    """The code of a file, as it is in this process.

    Raises:
        OSError, ValueError: It can't be had.
    """
    lines = lines_of(file)
    return source_map(file, file) if lines is None else SourceMap.from_source("".join(lines), file)


def _places(spec: ForcedChange) -> list[SourcePlace]:
    """Where the code of a patch is, as far as its lines have code."""
    code = _map_of(spec.file)
    lines = [line for line in code.lines if line in set(spec.value)]
    return [code.code_for_line(line) for line in lines[:_MOST_LINES]]


def _command(spec: ForcedChange) -> Resume:
    """What a client would have sent."""
    if spec.kind == "return":
        return Resume(0, "", "skip", fake_result=spec.value)
    if spec.kind == "raise":
        return Resume(0, "", "raise", exception_type=spec.type, exception_message=spec.message)
    if spec.kind == "replace":
        return Resume(0, "", "replace", replacement_function=spec.source)
    if isinstance(spec.arguments, dict):
        return Resume(0, "", "continue", modified_kwargs=spec.arguments)
    return Resume(0, "", "continue", modified_args=spec.arguments)


def _wider(name: str) -> str:
    """A glob for the functions whose dotted path ends with a name; empty: the name is no path."""
    is_dotted = "." in name and all(part.isidentifier() for part in name.split("."))
    return f"*.{name}" if is_dotted else ""


def _names_result(value: Any) -> bool:
    """Whether a value is made of the result of the call."""
    if isinstance(value, dict):
        source = value.get("$eval") if len(value) == 1 else None
        if isinstance(source, str):
            return _RESULT in source
        return "$literal" not in value and any(map(_names_result, value.values()))
    return isinstance(value, list) and any(map(_names_result, value))


def is_path(source: str) -> bool:
    """Whether a replacement is named, not written out."""
    return all(part.isidentifier() for part in source.strip().replace(":", ".").split("."))


def made_of(source: str, names: dict[str, Any]) -> Callable[..., Any]:
    """The function that a source makes, which sees the globals of the replaced one.

    Raises:
        Refusal: It makes none.
    """
    tree = parse(source.strip(), "<replacement>")
    scope: dict[str, Any] = {}
    try:
        if len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr):
            body = ast.Expression(tree.body[0].value)
            found = eval(compiled(body, "<replacement>", "eval"), names, scope)
        else:
            exec(compiled(tree, "<replacement>", "exec"), names, scope)
            found = next(reversed(scope.values()), None)
    except Exception as error:  # the client's code; its failure is the answer
        raise _refused(f"the replacement raised {type(error).__name__}: {error}") from error
    if type(found) is not FunctionType and not callable(found):
        raise _refused("the replacement is no function: give a lambda, or one def")
    return found  # type: ignore[no-any-return]


def _no_object(cid: str) -> Any:
    raise _refused(f"$cid {cid!r} names an object of another process")


def _refused(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_ARGUMENTS, message)
