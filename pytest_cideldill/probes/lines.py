"""Line breakpoints and tracepoints of this process, and the code in which they are armed.

`want`, `arm`, `remove` and `disarm` run on the I/O thread; `seen` and `passed` on the threads of
the program, which take no lock: one that arms lines does it again if the probes changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from types import CodeType, FrameType
from typing import Final

from pytest_cideldill.interpreter import clock
from pytest_cideldill.interpreter.code_files import frame_file
from pytest_cideldill.interpreter.running import running_frames
from pytest_cideldill.patching.code_swap import original_code
from pytest_cideldill.probes.counting import Counter
from pytest_cideldill.probes.linehits import LineProbe, LineStretch, Surroundings, Watcher, taking
from pytest_cideldill.probes.unhit import Fact, is_imported, of_line
from pytest_cideldill.project import Project
from pytest_cideldill.protocol import AddLine, Bound, Event, LinesPassed
from pytest_cideldill.sourcecode.codes import key_of, walk
from pytest_cideldill.tracing.interface import Source, SourceUnavailable, Takes, existing_code
from pytest_cideldill.tracing.passes import repeats

REPORT_S = 0.3
"""How old the counts of passes that clients see may be, in seconds."""


class LineProbes:
    """Holds the line breakpoints and tracepoints of this process, and arms them in code.

    Args:
        project: Resolves file names.
        surroundings: What hits work with.
        source: Gives the event source, once it is open.
        on_bound: Called with the id of a probe that was bound somewhere new; on any thread.

    Attributes:
        takes: What is called when a line is passed, for `Handlers.takes`; values replaced whole.
    """

    def __init__(
        self,
        project: Project,
        surroundings: Surroundings,
        source: Callable[[], Source | None],
        on_bound: Callable[[str], None],
    ) -> None:
        self._project = project
        self._surroundings = surroundings
        self._source = source
        self._on_bound = on_bound
        # All replaced whole, and read without a lock.
        self._probes: dict[str, LineProbe] = {}
        self._by_file: dict[str, tuple[LineProbe, ...]] = {}
        self._version = 0
        # Code → line → its watchers. Values are replaced whole; `_kept` keeps the ids valid.
        self._watchers: dict[int, dict[int, tuple[Watcher, ...]]] = {}
        self.takes: Takes = {}
        self._kept: dict[int, tuple[CodeType, str]] = {}
        # Code → the lines that the source watches.
        self._armed: dict[int, frozenset[int]] = {}
        # Code → the lines that ran in it since they were armed.
        self._stretches: dict[int, LineStretch] = {}
        # Files of which some code was seen.
        self._loaded: set[str] = set()
        # Probe → the functions that it is bound in.
        self._functions: dict[str, set[str]] = {}
        self._refusals: dict[str, str] = {}
        self._reported: dict[str, dict[str, object]] = {}
        self._report_at = 0.0

    @property
    def are_any(self) -> bool:
        """Whether there are any, so that code must be looked at when it starts."""
        return bool(self._by_file)

    @property
    def probes(self) -> list[LineProbe]:
        """All of them."""
        return list(self._probes.values())

    def bound(self, id: str) -> Bound:
        """Where a probe is bound now."""
        functions = sorted(self._functions.get(id, ()))
        return Bound(id, functions, bool(functions), self._refusals.get(id))

    def want(self, spec: AddLine, *, from_start: bool = True) -> LineProbe:
        """Add a breakpoint, or change whether the one with this id is enabled; then `arm`.

        `from_start`: no code of the tests has run yet.

        Raises:
            ValueError: Its condition or its template is malformed.
        """
        probe = self._probes.get(spec.id)
        if probe is None:
            spec = replace(spec, file=self._project.here(spec.file))
            probe = LineProbe(spec, from_start=from_start)
            try:
                Watcher(probe, _TRIAL, self._surroundings)
            except RecursionError as error:
                raise ValueError("the expressions are nested too deeply") from error
        elif probe.is_watching != spec.enabled:
            probe.enable(spec.enabled)
        self._replace({**self._probes, spec.id: probe})
        return probe

    def arm(self, file: str | None = None) -> None:
        """Arm what is wanted in code of a file, or of all, that exists already.

        That is functions, suspended generators and running frames; what comes later is `seen`. It
        is looked for among all objects of the process: not to be done file by file.
        """
        files = set(self._by_file) if file is None else {file}
        if self._source() is None or not files:
            return
        for frame in running_frames():
            path = self._project.real(frame_file(frame))
            if path in files:
                self._found(frame.f_code, path)
        for code, its_file in existing_code():
            if (path := self._project.real(its_file)) in files:
                self._found(code, path)
        for path in files:
            self._arm_kept(path)

    def remove(self, id: str) -> None:
        """Forget a breakpoint; unknown ids are no error."""
        known = self._probes.get(id)
        if known is None:
            return
        self._replace({key: probe for key, probe in self._probes.items() if key != id})
        self._functions.pop(id, None)
        self._arm_kept(known.spec.file)

    def disarm(self) -> None:
        """Forget all of them."""
        files = list(self._by_file)
        self._replace({})
        self._functions.clear()
        for file in files:
            self._arm_kept(file)

    def retire(self) -> None:
        """Disarm the tracepoints that reached their limit; now and then, on the I/O thread."""
        for probe in self._probes.values():
            if probe.spec.enabled and not probe.is_watching:
                probe.enable(False)
                self._replace(self._probes)
                self._arm_kept(probe.spec.file)

    def passes(self, *, at_once: bool = False) -> list[Event]:
        """How often lines were passed, if that changed; at most every `REPORT_S` or `at_once`."""
        now = clock.monotonic()
        if now < self._report_at and not at_once:
            return []
        lens = self._surroundings.lens
        probes = [probe for probe in self._probes.values() if probe.passes.value]
        counts = {probe.spec.id: probe.counts(lens) for probe in probes}
        news = {id: count for id, count in counts.items() if self._reported.get(id) != count}
        self._reported = counts
        if not news:
            return []
        self._report_at = now + REPORT_S
        return [LinesPassed(news)]

    def unhit(self) -> dict[str, Fact]:
        """Why each was not hit, as far as that is known."""
        return {
            id: of_line(probe, self._is_loaded)
            for id, probe in self._probes.items()
            if id not in self._refusals
        }

    def report_passes_now(self) -> None:
        """Let `passes` report with the next event: a stop is to show counts of this moment."""
        self._report_at = 0.0

    def renew(self) -> None:
        """Compile all expressions anew: other names are secrets now."""
        for key, (code, file) in list(self._kept.items()):
            self._watchers[key] = {}
            self._arm(code, file)

    # --- on the threads of the program ------------------------------------------------------

    def seen(self, code: CodeType, frame: FrameType) -> None:
        """Code starts for the first time; arm what is wanted in it before its first line runs."""
        if self._by_file:
            file = self._project.real(frame_file(frame))
            if file in self._by_file:
                self._found(code, file)

    def passed(self, frame: FrameType, line: int) -> None:
        """A watched line is about to run, and the source does not look at `takes`."""
        __tracebackhide__ = True
        try:
            _repeated, take = self.takes[id(frame.f_code)][line]
        except KeyError:  # disarmed meanwhile
            return
        take(frame)

    # --- arming -----------------------------------------------------------------------------

    def _replace(self, probes: dict[str, LineProbe]) -> None:
        by_file: dict[str, tuple[LineProbe, ...]] = {}
        for probe in probes.values():
            file = probe.spec.file
            by_file[file] = (*by_file.get(file, ()), probe)
        self._probes = probes
        self._by_file = by_file
        self._version += 1

    def _arm_kept(self, file: str) -> None:
        for code, its_file in list(self._kept.values()):
            if its_file == file:
                self._arm(code, file)

    def _found(self, root: CodeType, file: str) -> None:
        """Arm what is wanted in code of a file, and in what is nested in it."""
        self._loaded.add(file)
        probes = self._by_file.get(file, ())
        wanted = {probe.key for probe in probes}
        names = {key.qualname for key in wanted}
        met = set()
        for code, _parent, _depth in walk(original_code(root), original=original_code):
            if code.co_qualname in names and (key := key_of(code)) in wanted:
                met.add(key)
                self._arm(code, file)
        if root.co_name == "<module>":  # all that the file has: it may be another text by now
            for probe in probes:
                probe.is_absent |= probe.key not in met

    def _is_loaded(self, file: str) -> bool:
        return file in self._loaded or is_imported(self._project, file)

    def _arm(self, code: CodeType, file: str) -> None:
        """Arm what is wanted in one code object, and look again if that changed meanwhile."""
        source, key = self._source(), id(code)
        while source is not None:
            version = self._version
            watchers = self._made(code, file)
            lines = frozenset(watchers)
            self._kept[key] = (code, file)
            takes = {
                line: (repeats(code, line, file), taking(here)) for line, here in watchers.items()
            }
            # One step: the interpreter changes threads at calls and jumps back only.
            if version == self._version:
                self._watchers[key] = watchers
                self.takes[key] = takes
            # Not in vain: for a moment nothing is armed, and another thread's hit would be lost.
            if lines != self._armed.get(key, frozenset()) or self._has_new(key, watchers):
                try:
                    self._begin(source, code, watchers, source.watch_lines(code, lines, file))
                    self._armed[key] = lines
                except SourceUnavailable as reason:
                    self._refuse(watchers, str(reason))
            if version == self._version:
                self._note(watchers, code)
                if not watchers:
                    self._drop(key)
                return

    def _has_new(self, key: int, watchers: dict[int, tuple[Watcher, ...]]) -> bool:
        """Whether any of them is new here, so that a new stretch is to begin.

        Lines that ran before a watcher was there do not count as near to its line.
        """
        stretch = self._stretches.get(key)
        return stretch is not None and not stretch.covers(_counted(watchers))

    def _begin(
        self,
        source: Source,
        code: CodeType,
        watchers: dict[int, tuple[Watcher, ...]],
        held: frozenset[int],
    ) -> None:
        """These lines of a code object are watched from now on."""
        before = self._stretches.get(id(code))
        if before is not None:
            before.end()
        stretch = self._stretches[id(code)] = LineStretch(source.ran(code), _counted(watchers))
        for watcher in _each(watchers):
            if watcher.probe.spec.line in held:
                watcher.probe.stretches.append(stretch)
            else:
                watcher.probe.is_absent = True

    def _drop(self, key: int) -> None:
        """Forget code in which nothing is watched."""
        if not self._watchers.get(key):
            for table in (self._watchers, self.takes, self._armed, self._kept, self._stretches):
                table.pop(key, None)

    def _made(self, code: CodeType, file: str) -> dict[int, tuple[Watcher, ...]]:
        present = self._watchers.get(id(code), {})
        key = key_of(code)
        watchers: dict[int, tuple[Watcher, ...]] = {}
        for probe in self._by_file.get(file, ()):
            if probe.key == key and probe.is_watching:
                line = probe.spec.line
                here = watchers.get(line, ())
                known = (each for each in present.get(line, ()) if each.probe is probe)
                watcher = next(known, None) or Watcher(probe, code, self._surroundings)
                watchers[line] = (*here, watcher)
        # Messages come before a stop at the same line.
        return {line: tuple(sorted(here, key=_stops)) for line, here in watchers.items()}

    def _note(self, watchers: dict[int, tuple[Watcher, ...]], code: CodeType) -> None:
        for watcher in _each(watchers):
            id = watcher.probe.spec.id
            if id in self._probes and code.co_qualname not in self._functions.setdefault(id, set()):
                self._functions[id].add(code.co_qualname)
                self._on_bound(id)

    def _refuse(self, watchers: dict[int, tuple[Watcher, ...]], reason: str) -> None:
        for watcher in _each(watchers):
            self._refusals[watcher.probe.spec.id] = reason
            self._on_bound(watcher.probe.spec.id)


_TRIAL: Final = compile("", "<trial>", "exec")


def _stops(watcher: Watcher) -> bool:
    return watcher.probe.template is None


def _counted(watchers: dict[int, tuple[Watcher, ...]]) -> list[tuple[int, Counter]]:
    return [(watcher.probe.spec.line, watcher.probe.passes) for watcher in _each(watchers)]


def _each(watchers: dict[int, tuple[Watcher, ...]]) -> Iterable[Watcher]:
    return [watcher for here in watchers.values() for watcher in here]
