"""The live cases that must exist for the resources of the debugger's state.

`US1.2` is the second acceptance scenario of the first user story, `EC3` the third edge case.
`tests/test_required_cases.py` checks this table.
"""

from __future__ import annotations

from tests.required_cases import Row, named

SCENARIOS = (4, 3, 3, 4)
"""Of each user story."""

PARTS = (
    *(f"US{story}.{n + 1}" for story, count in enumerate(SCENARIOS, 1) for n in range(count)),
    *(f"EC{n}" for n in range(1, 7)),
    *(f"FR-{n:03}" for n in range(1, 12)),
    *(f"SC-{n:03}" for n in range(1, 7)),
)
WITHOUT = frozenset({"SC-004", "SC-005"})
"""Those that need no live case; the note says why."""


def _spec(*names: str) -> tuple[str, ...]:
    return named("test_debugger_state", *names)


_SESSION = _spec("the_session_shows_process_state_and_place")
_NO_SESSION = _spec("without_a_run_the_session_is_not_listed")
_PAUSE = _spec("a_pause_is_heard_of_the_session")
_END = _spec("the_end_takes_them_off_the_list_and_is_heard")
_BREAKPOINTS = _spec("breakpoints_of_all_kinds_are_reported")
_ADDED = _spec("a_breakpoint_that_is_added_or_removed_is_heard_of")
_NO_BREAKPOINTS = _spec("without_a_run_the_breakpoints_are_not_listed")
_THREADS = _spec("threads_are_reported_with_their_states_and_places")
_RESUME = _spec("a_resume_is_heard_of_the_threads")
_RUNNING = _spec("threads_are_reported_while_the_tests_run")
_SOURCE = _spec("a_source_file_is_read_as_text")
_TEMPLATE = _spec("sources_are_listed_as_a_template")
_START = _spec("the_start_is_heard")
_ANSWERED = _spec("before_a_run_and_after_it_reads_are_answered")
_FILES = named("test_debug_resources", "sources_are_those_of_the_project_and_of_loaded_code")
_QUICK = named(
    "test_debug_resources",
    "reads_are_quick_however_much_there_is_and_whatever_the_tests_do",
)

_OTHERS = "All the other tests, which know nothing of these resources, pass as they did."

TABLE = (
    Row("US1.1", _SESSION),
    Row("US1.2", _NO_SESSION),
    Row("US1.3", _PAUSE),
    Row("US1.4", _END, "they are read all the same, as stale"),
    Row("US2.1", _BREAKPOINTS, "the types are those of breakpoint_list"),
    Row("US2.2", _ADDED),
    Row("US2.3", _NO_BREAKPOINTS),
    Row("US3.1", _THREADS),
    Row("US3.2", (*_RESUME, *_PAUSE)),
    Row("US3.3", (*_RUNNING, *_QUICK), "live; the last snapshot only if the process can't answer"),
    Row("US4.1", _SOURCE),
    Row("US4.2", (*_spec("a_source_file_that_is_not_there_is_refused"), *_FILES)),
    Row("US4.3", _spec("without_a_run_no_source_is_reported")),
    Row("US4.4", _TEMPLATE),
    Row("EC1", _spec("a_run_that_starts_is_shown_as_such")),
    Row(
        "EC2",
        _spec(
            "quick_changes_are_heard_of_together",
            "constant_changes_are_heard_of_now_and_then",
        ),
    ),
    Row("EC3", _QUICK),
    Row("EC4", _FILES),
    Row("EC5", _spec("hit_counts_are_reported_while_the_tests_run")),
    Row("EC6", _spec("a_run_that_ends_while_it_is_read_is_no_error")),
    Row("FR-001", _SESSION),
    Row("FR-002", _BREAKPOINTS),
    Row("FR-003", _THREADS),
    Row("FR-004", (*_SOURCE, *_FILES), "of the project, and of loaded code"),
    Row("FR-005", (*_NO_SESSION, *_NO_BREAKPOINTS, *_TEMPLATE)),
    Row("FR-006", (*_START, *_END)),
    Row("FR-007", (*_PAUSE, *_RESUME, *_ADDED)),
    Row("FR-008", _spec("the_capabilities_say_so")),
    Row("FR-009", (*_SESSION, *_BREAKPOINTS, *_THREADS, *_SOURCE)),
    Row("FR-010", _END, "the five that are always there stay"),
    Row("FR-011", _ANSWERED, "before a run an error, after it the last state"),
    Row("SC-001", _TEMPLATE),
    Row("SC-002", _END),
    Row("SC-003", _PAUSE),
    Row("SC-004", (), _OTHERS),
    Row("SC-005", (), _OTHERS),
    Row("SC-006", _QUICK),
)
