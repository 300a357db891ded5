"""Small programs and changes of them, and what `test_diff` has to say of before and after."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from difflib import unified_diff
from typing import Any

PARCELS = """\
import math

LIMIT = 31


class Rates:
    heavy = 9


def postage(kilograms, step=1):
    price = 0
    if kilograms <= 2:
        price = 4
    elif kilograms <= LIMIT:
        price = Rates.heavy
    else:
        price = 15
    return price


def rounded(kilograms):
    return math.floor(kilograms)


def fee(kilograms):
    whole = rounded(kilograms)
    return postage(whole)
"""

TEST = """\
from NAME import fee


def test_fee():
    assert fee(25.5) == 15
"""


@dataclass(frozen=True)
class ChangedCase:
    """A change, and the answer.

    Attributes:
        name: Its program is `p_NAME.py`, its test `test_NAME.py::test_fee`.
        edits: `(old, new)` in the program.
        has: What stands in the text.
        divergence: Keys of the divergence; None: there is none.
        lacks: What stands neither in the text nor in the rest of the reply.
        more: Further keys of the experiment.
        outcome: Of the test with the change.
        source: Of the program.
        test: Of the test file.
        as_diff: Whether the edits are sent as one unified diff.
        equal: Of the reply.
        tier: `full` or `soak`.
    """

    name: str
    edits: tuple[tuple[str, str], ...] = ()
    has: tuple[str, ...] = ()
    divergence: dict[str, Any] | None = field(default_factory=dict)
    lacks: tuple[str, ...] = ()
    more: dict[str, Any] = field(default_factory=dict)
    outcome: str = "passed"
    source: str = PARCELS
    test: str = TEST
    as_diff: bool = False
    equal: bool = False
    tier: str = "soak"

    @property
    def module(self) -> str:
        return f"p_{self.name}"

    @property
    def nodeid(self) -> str:
        return f"test_{self.name}.py::test_fee"

    @property
    def files(self) -> dict[str, str]:
        texts = {f"{self.module}.py": self.source, f"test_{self.name}.py": self.test}
        return {
            file: textwrap.dedent(text).replace("NAME", self.module) for file, text in texts.items()
        }

    @property
    def experiment(self) -> dict[str, Any]:
        file = f"{self.module}.py"
        patch = [{"file": file, "old": old, "new": new} for old, new in self.edits]
        if not patch:
            return self.more
        if not self.as_diff:
            return {"patch": patch, **self.more}
        before = after = self.files[file]
        for old, new in self.edits:
            after = after.replace(old, new)
        lines = before.splitlines(True), after.splitlines(True)
        return {"diff": "".join(unified_diff(*lines, f"a/{file}", f"b/{file}")), **self.more}


CHANGED: tuple[ChangedCase, ...] = (
    ChangedCase(
        "condition",
        (("    elif kilograms <= LIMIT:", "    elif kilograms <= 20:"),),
        (
            "left:  test_condition.py::test_fee  failed: assert 9 == 15",
            "right: test_condition.py::test_fee  passed  (with p_condition.py: elif",
            "first difference: in postage, which got the same arguments",
            "return: 9 | 15",
            "branch, p_condition.py:14  elif kilograms <= LIMIT: | 14  elif kilograms <= 20:",
            "  left → 15  price = Rates.heavy",
            "  right → 17  price = 15",
        ),
        {"function": "p_condition.postage", "line": 14, "path": "return"},
        tier="full",
    ),
    ChangedCase(
        "lines_before",
        (("LIMIT = 31", "# Kilograms.\n\nLIMIT = 20"),),
        (
            "first difference: in postage, which got the same arguments",
            "first differing branch, p_lines_before.py:14 | 16  elif kilograms <= LIMIT:",
            "  left → 15  price = Rates.heavy",
            "  right → 19  price = 15",
            "lines of right are those of the patched text",
        ),
        {"function": "p_lines_before.postage", "line": 14},
    ),
    ChangedCase(
        "lines_inside",
        (("    price = 0\n", "    price = 0\n    kilograms = kilograms * 2\n"),),
        (
            "only right ran, p_lines_inside.py:12  kilograms = kilograms * 2  → kilograms: 50",
            "first differing branch, p_lines_inside.py:14 | 15  elif kilograms <= LIMIT:",
            "  right → 18  price = 15",
        ),
        {"function": "p_lines_inside.postage", "line": 11},
        tier="soak",
    ),
    ChangedCase(
        "guard",
        (("    price = 0\n", "    if kilograms > 20:\n        return 15\n    price = 0\n"),),
        (
            "  left → 11  price = 0",
            "  right → 11  if kilograms > 20:",
        ),
        {"function": "p_guard.postage"},
    ),
    ChangedCase(
        "lines_deleted",
        (("    elif kilograms <= LIMIT:\n        price = Rates.heavy\n", ""),),
        ("return: 9 | 15", "only left ran, p_lines_deleted.py:14  elif kilograms <= LIMIT:"),
        {"function": "p_lines_deleted.postage", "line": 14},
    ),
    ChangedCase(
        "default",
        (("def postage(kilograms, step=1)", "def postage(kilograms, step=2)"),),
        ("it calls postage with other arguments, line 27:", "step: 1 | 2"),
        {"function": "p_default.fee", "path": "step", "line": 27},
        outcome="failed",
    ),
    ChangedCase(
        "class_attribute",
        (("    heavy = 9", "    heavy = 15"),),
        ("in postage, which got the same", "value, p_class_attribute.py:15  price = Rates.heavy"),
        {"function": "p_class_attribute.postage", "line": 15},
    ),
    ChangedCase(
        "constant",
        (("LIMIT = 31", "LIMIT = 20"),),
        ("branch, p_constant.py:14  elif kilograms <= LIMIT:", "  right → 17  price = 15"),
        {"function": "p_constant.postage", "line": 14},
    ),
    ChangedCase(
        "imported",
        (("import math\n", "import types\n\nmath = types.SimpleNamespace(floor=lambda n: 40)\n"),),
        ("only right: <lambda>(n=25.5) → 40  p_imported.py:3", "in rounded, which got the same"),
        {"function": "p_imported.rounded", "line": 22},
    ),
    ChangedCase(
        "helper_added",
        (
            (
                "def fee(kilograms):\n",
                "def doubled(n):\n    return n * 2\n\n\ndef fee(kilograms):\n",
            ),
            ("    return postage(whole)", "    return postage(doubled(whole))"),
        ),
        (
            "only right: doubled(n=25) → 50",
            "first changed line, p_helper_added.py:27  return postage(whole) | 31  return",
        ),
        {"function": "p_helper_added.fee", "line": 27},
    ),
    ChangedCase(
        "by_diff",
        (("import math\n", "import math\nimport os\n"), ("<= LIMIT", "<= LIMIT - 20")),
        (
            "(with diff)",
            "p_by_diff.py:14  elif kilograms <= LIMIT: | 15  elif kilograms <= LIMIT -",
        ),
        {"function": "p_by_diff.postage", "line": 14},
        as_diff=True,
    ),
    ChangedCase(
        "fails_too",
        (("        price = Rates.heavy", "        price = 10"),),
        (
            "failed: assert 9 == 15",
            "failed: assert 10 == 15",
            "the test fails with it, too",
            "value, p_fails_too.py:15  price = Rates.heavy | 15  price = 10  → price: 9 | 10",
        ),
        {"function": "p_fails_too.postage", "line": 15, "left": "9", "right": "10"},
        outcome="failed",
    ),
    ChangedCase(
        "not_reached",
        (("        price = 4", "        price = 5"),),
        ("equal: the same calls", "not applied: patch of p_not_reached.py: the changed lines were"),
        None,
        outcome="failed",
        equal=True,
        tier="full",
    ),
    ChangedCase(
        "no_effect",
        (("    whole = rounded(kilograms)", "    whole = rounded(kilograms) + 0"),),
        ("equal: the same calls", "the test fails with it, too"),
        None,
        outcome="failed",
        equal=True,
    ),
    ChangedCase(
        "raises",
        (("    price = 0\n", "    raise LookupError('no rate')\n"),),
        ("raises: returns 9 | LookupError: no rate", "failed: LookupError: no rate"),
        {"function": "p_raises.postage", "path": "raises"},
        outcome="failed",
    ),
    ChangedCase(
        "wrapped",
        (
            (
                "    whole = rounded(kilograms)\n    return",
                "    for whole in [rounded(kilograms + 10)]:\n        return",
            ),
        ),
        ("it calls rounded with other arguments", "kilograms: 25.5 | 35.5"),
        {"function": "p_wrapped.fee", "path": "kilograms"},
    ),
    ChangedCase(
        "secret_patched",
        (("    price = 0\n", "    price, password = 15, 'zq81-patched-7751'\n    return price\n"),),
        ("return: 9 | 15",),
        {"function": "p_secret_patched.postage"},
        lacks=("zq81",),
        tier="full",
    ),
    ChangedCase(
        "forced",
        has=("(with postage → 15)", "return: 9 | 15", "  right → leaves"),
        more={"return": {"function": "p_forced.postage", "value": 15}},
    ),
    ChangedCase(
        "variable",
        (),
        ("(with env STEP)", "in postage, which got the same arguments", "return: 1 | 15"),
        {"function": "p_variable.postage"},
        more={"env": {"STEP": "15"}},
        source="""
            import os

            def postage(kilograms):
                return int(os.environ.get("STEP", "1"))

            def fee(kilograms):
                return postage(kilograms)
            """,
    ),
    ChangedCase(
        "getters",
        (("        return self._n\n", "        n = self._n\n        return n * 3\n"),),
        ("in Box.n, which got the same arguments", "return: 5 | 15"),
        {"function": "p_getters.Box.n"},
        source="""
            class Box:
                @property
                def n(self):
                    return self._n

                @n.setter
                def n(self, n):
                    self._n = n

            def fee(kilograms):
                box = Box()
                box.n = 5
                return box.n
            """,
    ),
    ChangedCase(
        "test_itself",
        test="""
            from NAME import fee

            def test_fee():
                assert fee(25.5) == 15
            """,
        has=("test_test_itself.py:5  assert fee(25.5) == 15 | 5  assert fee(25.5) == 9",),
        more={
            "patch": [{"file": "test_test_itself.py", "old": "5) == 15", "new": "5) == 9"}],
        },
    ),
)
