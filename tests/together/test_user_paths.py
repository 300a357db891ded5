"""Code beside the rootdir that is the user's too: the ini option `cideldill_user_paths`.

User code counts for bare names, `isExternal` and first-chance exceptions.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.together.conftest import MakeProject
from tests.together.driver import connected, server

LIBRARY = """\
def freight(weight):
    try:
        return 5 / weight
    except ZeroDivisionError:
        return None
"""

TEST = """\
import sys
sys.path.insert(0, "../libs")
from cargo.rates import freight

def test_freight():
    assert freight(0) is None
"""


@pytest.fixture
def project(make_project: MakeProject, tmp_path: Path) -> Path:
    """A project that uses a package of its own that lies beside it."""
    package = tmp_path / "libs" / "cargo"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "rates.py").write_text(LIBRARY, encoding="utf-8")
    return make_project(test_it=TEST)


@pytest.mark.full
def test_named_paths_are_user_code(project: Path, tmp_path: Path) -> None:
    """Listed and found by name before a run; stops at first chance; not external."""
    (project / "pytest.ini").write_text("[pytest]\ncideldill_user_paths = ../libs\n")
    file = str((tmp_path / "libs/cargo/rates.py").resolve())
    with connected(server(project)) as agent:
        listed = agent.call("breakpoint_list_functions", pattern="freight")
        assert listed["functions"] == ["cargo.rates.freight", "test_it.test_freight"]
        assert listed["metadata"]["cargo.rates.freight"]["file"] == file
        assert "error" not in agent.call("breakpoint_add", function_name="freight")
        agent.call("breakpoint_set_exception", exception_type="ZeroDivisionError")
        called = agent.call("test_run")["stops"][-1]
        assert called["call_data"]["qualified_name"] == "cargo.rates.freight"
        reply = agent.call("breakpoint_continue", pause_id=called["pause_id"], wait=True)
        raised = reply["stops"][-1]
        assert raised["location"]["file"] == file
        frames = agent.call("stacktrace_get", pause_id=raised["pause_id"])["frames"]
        assert (frames[0]["function"], frames[0]["isExternal"]) == ("freight", False)
        done = agent.call("breakpoint_continue", pause_id=raised["pause_id"], wait=True)
        assert done["outcomes"]["passed"] == 1


@pytest.mark.full
def test_other_paths_are_not(project: Path) -> None:
    """The same without the option: nothing is listed, and the exception passes."""
    with connected(server(project)) as agent:
        listed = agent.call("breakpoint_list_functions", pattern="freight")
        assert listed["functions"] == ["test_it.test_freight"]
        agent.call("breakpoint_set_exception", exception_type="ZeroDivisionError")
        reply = agent.call("test_run")
        assert (reply["state"], reply["stops"]) == ("finished", [])
