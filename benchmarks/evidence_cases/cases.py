"""What a case of `benchmarks.evidence` is: an intact project, one edit of one function, a test.

The projects are data: nothing of the product reads them, and no rule of it is made for one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.together.real_package import Breakage, Release, unpacked


@dataclass(frozen=True, slots=True)
class MadeUp:
    """A small program that was written for this bench.

    Attributes:
        files: Path → text.
    """

    name: str
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Case:
    """A seeded bug.

    Attributes:
        kind: What sort of mistake it is.
        truth: Its edit; `function` is the qualified name in the file, without the module.
        failing: The node id of the test that is asked about.
        tests: What pytest runs: tests that pass stand beside the failing one.
        needs_order: Whether the test fails only after others of `tests`.
        source: The folder that is imported, relative to the project.
    """

    name: str
    kind: str
    project: MadeUp | Release
    truth: Breakage
    failing: str
    tests: tuple[str, ...] = ()
    needs_order: bool = False
    source: str = "."

    @property
    def is_real(self) -> bool:
        """Whether the project is a release."""
        return isinstance(self.project, Release)

    @property
    def selected(self) -> list[str]:
        """What pytest runs: `tests`, or the file of the failing one."""
        return list(self.tests) or [self.failing.partition("::")[0]]

    def written(self, into: Path, *, broken: bool = True) -> Path:
        """The project's folder, made in an empty one; no repository, so that no diff says it."""
        if isinstance(self.project, Release):
            root = unpacked(self.project, into)
        else:
            root = into / self.project.name
            for name, text in self.project.files.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text.lstrip("\n"), encoding="utf-8")
        if broken:
            self.truth.apply(root)
        return root


INI: Final = "[pytest]\npythonpath = .\n"
