"""Experiments as clients write them, checked and made into what a process is asked for."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from cideldill_mcp.questions.asking.asker import invalid
from cideldill_mcp.questions.asking.registry import Variation
from cideldill_mcp.questions.asking.spelling import parsed
from cideldill_mcp.questions.texts.fitting import clipped
from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.protocol.trace_rows import ForcedChange, TraceRequest

MOST_EXPERIMENTS: Final = 20
MOST_TESTS: Final = 50
MOST_REPEATS: Final = 100
MOST_CHANGES: Final = 50
"""Of one experiment."""

_TYPES: Final = {"str": "text", "list": "list", "dict": "object"}

_LONGEST_NAME: Final = 40

_KINDS: Final[Mapping[str, frozenset[str]]] = {
    "return": frozenset({"function", "value"}),
    "raise": frozenset({"function", "type", "message"}),
    "set_args": frozenset({"function", "arguments"}),
    "replace": frozenset({"function", "with"}),
    "set_local": frozenset({"file", "line", "name", "value"}),
}
"""Forced changes, with what each is made of beside `call` and `when`."""

_OPTIONAL: Final = frozenset({"message", "call", "when"})
_OTHERS: Final = frozenset({"name", "patch", "diff", "env", "args", "order"})


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment.

    Attributes:
        name: In the answer.
        changes: What is changed by force.
        patches: `{file, old, new}`, in order.
        diff: A unified diff; empty: none.
        env: Variables of the environment; None: it is not set.
        args: Further arguments of pytest.
        order: The tests to run, in this order; empty: those of the question.
        is_suggested: The answer's own, not the client's.
    """

    name: str
    changes: list[ForcedChange] = field(default_factory=list)
    patches: list[dict[str, str]] = field(default_factory=list)
    diff: str = ""
    env: dict[str, str | None] = field(default_factory=dict)
    args: list[str] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    is_suggested: bool = False


@dataclass(frozen=True, slots=True)
class Prepared:
    """An experiment with its places found, and how its processes differ from others.

    Attributes:
        code: The functions that its changes are in, as `Fork.places`; None: it needs a process that
            has it from the start.
    """

    experiment: Experiment
    variation: Variation
    code: list[list[Any]] | None = None

    def request(self, base: TraceRequest) -> TraceRequest:
        """What its processes are asked for beside what those of others are."""
        experiment = self.experiment
        changes = [asdict(change) for change in experiment.changes]
        return replace(base, nodeids=experiment.order or base.nodeids, changes=changes)


def all_started_alike(prepared: Sequence[Prepared]) -> list[Prepared]:
    """Where one is patched all start as that one does, so that only the patch is different."""
    if all(each.variation.patches is None for each in prepared):
        return list(prepared)
    return [
        replace(each, variation=replace(each.variation, patches=each.variation.patches or ()))
        for each in prepared
    ]


def experiments_of(plain: Sequence[Any]) -> list[Experiment]:
    """The experiments of a client.

    Raises:
        Refusal: `invalid_parameter`, `missing_parameter`; the message names the place in them.
    """
    if len(plain) > MOST_EXPERIMENTS:
        raise invalid("experiments", len(plain), f"at most {MOST_EXPERIMENTS} of them")
    experiments: list[Experiment] = []
    for number, each in enumerate(plain):
        made = _Reading(f"experiments[{number}]").experiment(each)
        taken = {other.name for other in experiments}
        if made.name in taken:
            made = replace(made, name=f"{made.name} #{number + 1}")
        experiments.append(made)
    return experiments


def experiment_of(plain: Any, path: str) -> Experiment:
    """One experiment of a client.

    Args:
        path: Where it stands, for messages.

    Raises:
        Refusal: As `experiments_of`.
    """
    return _Reading(path).experiment(plain)


def _name(made: Experiment) -> str:
    """What an experiment does, in a few words."""
    names = [f"{patch['file'].rpartition('/')[2]}: {_news(patch)}" for patch in made.patches]
    names += ["diff"] * bool(made.diff)
    names += [_words(change) for change in made.changes]
    names += [f"env {each}" for each in made.env] + [" ".join(made.args)] * bool(made.args)
    names += ["order"] * bool(made.order)
    return clipped(", ".join(dict.fromkeys(names)), _LONGEST_NAME)


def _news(patch: Mapping[str, str]) -> str:
    """The first line that is new in a patch."""
    old, new = (patch[name].splitlines() for name in ("old", "new"))
    fresh = [line.strip() for line in new if line not in old and line.strip()]
    return fresh[0] if fresh else "lines taken out"


def _words(change: ForcedChange) -> str:
    function = change.function.replace("::", ".").rpartition(".")[2]
    if change.kind == "raise":
        return f"{function} ✗ {change.type}"
    if change.kind in ("return", "set_local"):
        value = change.value
        shown = value["$eval"] if isinstance(value, dict) and "$eval" in value else repr(value)
        return f"{function} → {shown}" if function else f"{change.name} = {shown}"
    return f"{change.kind.removeprefix('set_')} {function}"


class _Reading:
    """Reads one experiment. `path`: where it stands, for messages."""

    def __init__(self, path: str) -> None:
        self._path = path

    def experiment(self, plain: Any) -> Experiment:
        keys = self._keys(plain, self._path, {*_KINDS, *_OTHERS})
        if not keys - {"name"}:
            known = ", ".join(["patch", "diff", *_KINDS, "env", "args", "order"])
            raise invalid(self._path, plain, f"at least one of {known}")
        changes: list[ForcedChange] = []
        for kind in _KINDS:
            for at, part in self._several(plain, kind):
                changes.append(self._change(kind, part, at))
        if len(changes) > MOST_CHANGES:
            raise invalid(self._path, len(changes), f"at most {MOST_CHANGES} changes")
        patches, diff = self._patches(plain)
        name = self._typed(plain.get("name") or "", str, f"{self._path}.name")
        made = Experiment(
            " ".join(name.split())[:_LONGEST_NAME],
            changes,
            patches,
            diff,
            self._env(plain.get("env", {})),
            self._texts(plain, "args"),
            self._texts(plain, "order"),
        )
        return made if made.name else replace(made, name=_name(made))

    def _several(self, plain: Mapping[str, Any], kind: str) -> list[tuple[str, Any]]:
        """One object, or a list of them, with where each stands."""
        given = plain.get(kind)
        if given is None:
            return []
        path = f"{self._path}.{kind}"
        if isinstance(given, list):
            return [(f"{path}[{at}]", part) for at, part in enumerate(given)]
        return [(path, given)]

    def _change(self, kind: str, plain: Any, path: str) -> ForcedChange:
        wanted = _KINDS[kind]
        keys = self._keys(plain, path, {*wanted, "call", "when"})
        for name in sorted(wanted - _OPTIONAL - keys):
            raise _missing(f"{path}.{name}", f"{kind} needs {name}")
        call, when = plain.get("call"), plain.get("when")
        if call is not None and (type(call) is not int or call < 1):
            raise invalid(f"{path}.call", call, "integer of at least 1")
        if when is not None:
            if call is not None:
                raise invalid(f"{path}.when", when, "nothing beside call: one of both chooses")
            _check(when, f"{path}.when", _expression)
        change = ForcedChange(kind, call=call or 0, when=when)
        if kind == "set_local":
            line = plain["line"]
            if type(line) is not int or line < 1:
                raise invalid(f"{path}.line", line, "integer of at least 1")
            file = self._typed(plain["file"], str, f"{path}.file")
            _check(plain["name"], f"{path}.name", _target)
            change = replace(change, file=file, line=line, name=plain["name"].strip())
        else:
            function = self._typed(plain["function"], str, f"{path}.function")
            parsed(function)
            change = replace(change, function=function.strip())
        return self._with_value(change, plain, path)

    def _with_value(
        self, change: ForcedChange, plain: Mapping[str, Any], path: str
    ) -> ForcedChange:
        """With the part that only its kind has."""
        if change.kind in ("return", "set_local"):
            _check_values(plain["value"], f"{path}.value")
            return replace(change, value=plain["value"])
        if change.kind == "raise":
            name = self._typed(plain["type"], str, f"{path}.type")
            message = self._typed(plain.get("message", ""), str, f"{path}.message")
            return replace(change, type=name, message=message)
        if change.kind == "replace":
            _check(plain["with"], f"{path}.with", _function)
            return replace(change, source=plain["with"])
        arguments = plain["arguments"]
        if not isinstance(arguments, list | dict):
            raise invalid(f"{path}.arguments", arguments, "list, or object by name")
        _check_values(arguments, f"{path}.arguments")
        return replace(change, arguments=arguments)

    def _patches(self, plain: Mapping[str, Any]) -> tuple[list[dict[str, str]], str]:
        given, diff = plain.get("patch", []), plain.get("diff", "")
        if isinstance(given, str):
            given, diff = [], given
        elif isinstance(given, dict):
            given = [given]
        patches = []
        for number, each in enumerate(self._typed(given, list, f"{self._path}.patch")):
            path = f"{self._path}.patch[{number}]"
            keys = self._keys(each, path, {"file", "old", "new", "diff"})
            if keys == {"diff"}:
                diff = self._typed(each["diff"], str, f"{path}.diff")
                continue
            for name in ("file", "old", "new"):
                if name not in keys:
                    raise _missing(f"{path}.{name}", f"a patch needs {name}")
                self._typed(each[name], str, f"{path}.{name}")
            patches.append({name: each[name] for name in ("file", "old", "new")})
        return patches, self._typed(diff, str, f"{self._path}.diff")

    def _env(self, plain: Any) -> dict[str, str | None]:
        path = f"{self._path}.env"
        for name, value in self._typed(plain, dict, path).items():
            if not name or "=" in name or "\0" in name:
                raise invalid(path, name, "name of a variable")
            if value is not None and not isinstance(value, str):
                raise invalid(f"{path}.{name}", value, "text, or null to unset it")
        return dict(plain)

    def _texts(self, plain: Mapping[str, Any], name: str) -> list[str]:
        given = self._typed(plain.get(name, []), list, f"{self._path}.{name}")
        if not all(isinstance(each, str) for each in given):
            raise invalid(f"{self._path}.{name}", given, "list of texts")
        return list(given)

    def _keys(self, plain: Any, path: str, known: set[str]) -> set[str]:
        self._typed(plain, dict, path)
        for name in plain:
            if name not in known:
                raise invalid(f"{path}.{name}", name, f"one of {', '.join(sorted(known))}")
        return set(plain)

    def _typed(self, value: Any, kind: type, path: str) -> Any:
        if not isinstance(value, kind):
            raise invalid(path, value, _TYPES[kind.__name__])
        return value


# --- source in experiments ----------------------------------------------------------------------


def _expression(text: str) -> None:
    compile(text.strip(), "<when>", "eval")


def _target(text: str) -> None:
    tree = ast.parse(f"{text.strip()} = 0", "<name>")
    assignment = tree.body[0]
    if len(tree.body) != 1 or not isinstance(assignment, ast.Assign) or len(assignment.targets) > 1:
        raise ValueError("not one name, attribute or item")


def _function(text: str) -> None:
    if all(part.isidentifier() for part in text.strip().replace(":", ".").split(".")):
        return
    tree = ast.parse(text.strip(), "<with>")
    known = ast.Expr | ast.FunctionDef | ast.AsyncFunctionDef
    if len(tree.body) != 1 or not isinstance(tree.body[0], known):
        raise ValueError("not a dotted path, a lambda or one def")


def _check(text: Any, path: str, check: Callable[[str], None]) -> None:
    if not isinstance(text, str):
        raise invalid(path, text, "text")
    try:
        check(text)
    except (SyntaxError, ValueError) as error:
        place = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise invalid(path, text, f"Python that compiles ({error}{place})") from error


def _check_values(value: Any, path: str) -> None:
    """Compile the `$eval`s of a value."""
    if isinstance(value, list):
        for number, each in enumerate(value):
            _check_values(each, f"{path}[{number}]")
    elif isinstance(value, dict) and set(value) == {"$eval"}:
        _check(value["$eval"], f"{path}.$eval", _expression)
    elif isinstance(value, dict) and set(value) != {"$literal"}:
        for name, each in value.items():
            _check_values(each, f"{path}.{name}")


def _missing(parameter: str, message: str) -> Refusal:
    return Refusal(ErrorCode.MISSING_PARAMETER, message, parameter=parameter)
