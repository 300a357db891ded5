"""The redactor finds variables of the environment that a program sets, as bytes and as text.

Expectations: `-b -b` makes an exception of each comparison of bytes with text; the program must not
see one, and variables that it sets later are found there as well.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

SCRIPT = """
    import os, warnings
    from pytest_cideldill.redaction.environment import Environment

    real = os.environ
    environment = Environment()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert set(environment.changed()) == set(real) - {"PYTEST_CURRENT_TEST"}
        os.environ["LATER"] = "set"
        os.environ["PYTEST_CURRENT_TEST"] = "test_it (call)"
        assert environment.changed() == {"LATER": "set"}
        os.environ = {"PLAIN": "text", "PYTEST_CURRENT_TEST": "test_it (call)"}
        assert environment.changed() == {"PLAIN": "text"}
        os.environ["PLAIN"] = "another"
        assert environment.changed() == {"PLAIN": "another"}
        os.environ = real
        os.environ["LATER"] = "changed"
        assert environment.changed() == {"LATER": "changed"}
        assert environment.changed() == {}
    assert caught == []
"""


@pytest.mark.parametrize("options", [(), ("-b",), ("-b", "-b")], ids=["plain", "b", "bb"])
def test_changes_are_found_and_the_program_sees_no_warning(options: tuple[str, ...]) -> None:
    command = [sys.executable, *options, "-c", textwrap.dedent(SCRIPT)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")
