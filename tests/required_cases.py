"""The live cases that must exist: one row for each required behaviour, by its number.

`tests/test_required_cases.py` checks this table. The numbers are only the keys of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass

NUMBERS = frozenset(range(1, 136))
WITHOUT = frozenset({50})
"""Those that need no live case; the note says why."""


@dataclass(frozen=True, slots=True)
class Row:
    """One required behaviour.

    Attributes:
        number: Its key.
        cases: Node ids below `tests/together/`.
        note: Details of the behaviour.
    """

    number: int | str
    cases: tuple[str, ...]
    note: str = ""


def named(file: str, *names: str) -> tuple[str, ...]:
    """Node ids of tests in a file below `tests/together/`."""
    return tuple(f"{file}.py::test_{name}" for name in names)


_TOOLS = named("test_tool_surface", "each_tool_is_listed_once_and_does_its_part")
_ERRORS = named("test_tool_surface", "malformed_requests_change_nothing_and_extra_words_do_no_harm")
_SESSION = named("test_tool_surface", "a_session_from_the_handshake_to_the_verdict")
_FRESH = named("test_breakpoint_tools", "a_fresh_server_lists_nothing_and_leaves_the_test_alone")
_LISTED = named("test_breakpoint_tools", "what_is_listed_is_what_the_test_meets")
_ADDED = named("test_breakpoint_tools", "breakpoints_are_added_once_or_not_at_all")
_REMOVED = named("test_breakpoint_tools", "what_is_removed_leaves_nothing_behind")
_BEFORE = named("test_breakpoint_tools", "behaviors_before_calls")
_AFTER = named("test_breakpoint_tools", "behaviors_after_calls")
_REPLACED = named("test_breakpoint_tools", "replacements")
_DEFAULTS = named("test_breakpoint_tools", "defaults")
_PAUSED = named("test_pause_tools", "paused_calls_are_listed_with_what_the_test_passed")
_CHOSEN = named("test_function_breakpoints", "a_call_goes_on_as_the_client_chose")
_RAISED = named("test_function_breakpoints", "a_call_can_be_made_to_raise_what_the_project_knows")
_REPLACING = named("test_pause_tools", "a_replacement_wins_over_the_action")
_ONCE = named("test_pause_tools", "only_what_is_paused_goes_on_and_only_once")
_FUNCTIONS = named("test_object_tools", "every_listed_function_can_be_stopped_by_its_name")
_REPL = named("test_pause_tools", "sessions_change_the_call_and_end_with_its_pause")
_REFUSED_REPL = named("test_pause_tools", "what_cannot_be_evaluated_leaves_the_call_alone")
_PRINTED = named(
    "test_pause_tools", "what_an_evaluation_prints_is_reported_and_not_seen_by_the_test"
)
_OBJECT = named("test_object_tools", "an_object_is_shown_as_the_test_passed_it")
_UNPICKLED = named("test_object_tools", "what_no_pickle_holds_is_reported_and_left_untouched")
_DAMAGED = named("test_object_tools", "a_damaged_object_is_shown_as_such")
_RESOURCES = named("test_resources_and_prompts", "resources_follow_the_test")
_PROMPTS = named("test_resources_and_prompts", "prompts_follow_the_test")
_PUSHED = named("test_notifications", "a_pause_and_its_end_are_pushed_before_the_reply")
_CALLS = named("test_notifications", "recorded_calls_are_pushed_when_they_ended")
_REASON = named("test_notifications", "a_pause_after_a_raise_is_pushed_with_its_reason")
_NOBODY = named("test_observers", "nobody_needs_to_observe")
_OBSERVED = named("test_observers", "observers_are_notified_and_nothing_they_do_harms_the_test")
_OVER_HTTP = named(
    "test_http_life", "over_http_only_one_line_is_reported_and_nothing_is_ever_printed"
)
_BESIDE = named(
    "test_http_life", "stdio_and_http_are_served_side_by_side_and_stdout_has_messages_only"
)
_SHARED = named("test_transports", "every_client_sees_what_any_other_one_changed")
_OFFERED = named("test_transports", "every_way_in_offers_the_same")
_BROADCAST = named("test_transports", "a_pause_is_pushed_to_every_connected_client")


def _records(name: str) -> tuple[str, ...]:
    return named("test_records", f"get_call_records_{name}")


_FROM_SOURCES = "the project's functions, read from its sources: nothing is registered by hand"
_IN_PROCESS = "inside the process under test; what clients are pushed is in tests 133 and 135"
_HTTP = "the HTTP of that system's clients is here Streamable HTTP"

TABLE = (
    Row(1, _TOOLS, "among the tools of further groups"),
    Row(2, _TOOLS, "the prefix holds for these 14"),
    Row(3, _TOOLS),
    Row(4, _TOOLS),
    Row(5, _FRESH),
    Row(6, _LISTED),
    Row(7, _LISTED),
    Row(8, _ADDED, "the reply also has the id and the functions that the name means"),
    Row(9, _ADDED),
    Row(10, _ADDED, "missing_parameter"),
    Row(11, _ADDED, "invalid_behavior"),
    Row(12, _ADDED, "the same id; what is given again is changed"),
    Row(13, _REMOVED),
    Row(14, _REMOVED, "by name; an unknown id is breakpoint_not_found"),
    Row(15, _REMOVED, "and the replacement"),
    Row(16, _BEFORE),
    Row(17, _BEFORE),
    Row(18, _BEFORE),
    Row(19, _BEFORE, "invalid_behavior, checked first; a blank one is missing_parameter"),
    Row(20, _BEFORE),
    Row(21, _AFTER, "after a return only"),
    Row(22, _AFTER),
    Row(23, _AFTER, "after a raise only"),
    Row(24, _AFTER),
    Row(25, _AFTER, "to the default's part about raises"),
    Row(26, _AFTER),
    Row(27, _AFTER),
    Row(28, _REPLACED, "needs a test process that has loaded it"),
    Row(29, _REPLACED),
    Row(30, _REPLACED, "the error has both signatures"),
    Row(31, _REPLACED, 'signature_mismatch with reason "no_signature", as of a function of C'),
    Row(32, _REPLACED),
    Row(33, _FRESH),
    Row(34, _DEFAULTS),
    Row(35, _DEFAULTS),
    Row(36, _DEFAULTS, "one pause before the call and one after a raise, none after a return"),
    Row(37, _DEFAULTS),
    Row(38, _FRESH),
    Row(39, _PAUSED),
    Row(40, _PAUSED),
    Row(41, _CHOSEN),
    Row(42, _CHOSEN),
    Row(43, _RAISED),
    Row(44, _CHOSEN),
    Row(45, _CHOSEN),
    Row(46, _REPLACING),
    Row(47, _REPLACING),
    Row(48, _ONCE, 'pause_not_found with reason "unknown"'),
    Row(49, _ONCE, 'pause_not_found with reason "already_resumed"'),
    Row(
        50,
        (),
        "JSON is the only format in which values reach a test process, so no run could tell it "
        "from another one.",
    ),
    Row(51, _FRESH, _FROM_SOURCES),
    Row(52, _FUNCTIONS, _FROM_SOURCES),
    Row(53, (*_records("empty"), *_FRESH)),
    Row(54, _records("all"), "all of those that are recorded: chosen by name"),
    Row(55, _records("filtered"), "in every form of a function's name"),
    Row(56, _records("with_limit")),
    Row(57, _records("with_exception")),
    Row(58, _records("default_limit_100")),
    Row(59, _records("total_count")),
    Row(60, _records("truncated_flag"), "also true when the size of the reply cut some"),
    Row(61, _records("limit_zero_is_error"), "invalid_limit"),
    Row(62, _REPL, "in the frame of the real call, no mock"),
    Row(63, _REPL),
    Row(64, _REPL),
    Row(65, _REFUSED_REPL, "a normal reply, isError stays false"),
    Row(66, _REFUSED_REPL, "missing_expression"),
    Row(67, _REFUSED_REPL),
    Row(68, _PRINTED),
    Row(69, _REFUSED_REPL, "the evaluation is interrupted, the pause lives on"),
    Row(70, _REPL, "sessions end with their pause"),
    Row(71, _OBJECT),
    Row(72, _OBJECT),
    Row(73, _UNPICKLED, "described from a snapshot; only a copy of it can't be made"),
    Row(74, _DAMAGED, "a normal reply with the placeholder"),
    Row(75, _TOOLS),
    Row(76, _TOOLS),
    Row(77, _RESOURCES),
    Row(78, _RESOURCES),
    Row(79, _RESOURCES),
    Row(80, _RESOURCES),
    Row(81, _RESOURCES, _FROM_SOURCES),
    Row(82, _RESOURCES),
    Row(83, _PROMPTS),
    Row(84, _PROMPTS),
    Row(85, _PROMPTS, "JSON-RPC error -32602"),
    Row(86, _ERRORS, "JSON-RPC error -32602"),
    Row(87, _ERRORS),
    Row(88, _ERRORS),
    Row(89, _ERRORS),
    Row(
        90,
        named("test_transports", "clients_that_add_and_remove_at_once_lose_nothing"),
        _HTTP,
    ),
    Row(91, _SHARED, _HTTP),
    Row(92, _SHARED, _HTTP),
    Row(93, _PUSHED),
    Row(94, _PUSHED),
    Row(95, _CALLS),
    Row(96, _PUSHED),
    Row(97, (*_PUSHED, *_CALLS)),
    Row(98, (*_PUSHED, *_REASON, *_CALLS), "there are further reasons, as test_failure"),
    Row(99, _PUSHED, "and who did it"),
    Row(100, _CALLS, "success or exception: the word of the records"),
    Row(101, _NOBODY),
    Row(102, _OBSERVED, _IN_PROCESS),
    Row(103, _OBSERVED, "and the failure is told as a warning"),
    Row(104, _OBSERVED, _IN_PROCESS),
    Row(105, _OBSERVED, _IN_PROCESS),
    Row(106, _OBSERVED, _IN_PROCESS),
    Row(107, _OBSERVED, _IN_PROCESS),
    Row(108, _OBSERVED, "the event Stopped"),
    Row(109, _OBSERVED, "the event Resumed"),
    Row(110, _OBSERVED, "the event Recorded: calls in batches"),
    Row(111, _OBSERVED, _IN_PROCESS),
    Row(112, (*_SESSION, *_BESIDE), "--cideldill-mcp"),
    Row(
        113,
        named("test_http_life", "every_client_is_answered_while_a_test_is_busy"),
        "one event loop serves all; the tests run in processes of their own",
    ),
    Row(114, named("test_http_life", "without_an_option_nothing_is_served")),
    Row(
        115,
        named("test_http_life", "a_port_can_be_chosen_and_taken_again_at_once"),
        "--cideldill-http-address=HOST:PORT, on loopback",
    ),
    Row(116, _OVER_HTTP, "--cideldill-http"),
    Row(117, (*_OFFERED, *_OVER_HTTP), "Streamable HTTP is at /mcp beside it"),
    Row(118, _BESIDE),
    Row(
        119,
        named("test_http_life", "with_http_server_and_run_outlive_the_client_over_stdio"),
        "and the run; without HTTP the end of stdin ends both",
    ),
    Row(
        120,
        (*_OVER_HTTP, *named("test_http_life", "stdin_and_stdout_are_let_go_over_http_only")),
    ),
    Row(121, (*_BESIDE, *_OVER_HTTP), "stderr has one line, with address and token"),
    Row(122, _SESSION),
    Row(123, _SESSION),
    Row(124, _SESSION),
    Row(125, _SESSION),
    Row(126, _SESSION),
    Row(127, _SESSION),
    Row(128, _SHARED, _HTTP),
    Row(129, _OFFERED),
    Row(130, _SHARED),
    Row(
        131,
        (
            *_SHARED,
            *named("test_transports", "two_clients_of_one_kind_see_the_same_and_one_of_them_wins"),
        ),
    ),
    Row(
        132,
        named("test_transports", "a_client_that_vanishes_in_the_middle_disturbs_nobody"),
        "also one that hung up on a call, or never reads",
    ),
    Row(133, _BROADCAST),
    Row(134, _SHARED),
    Row(135, _BROADCAST, "those of 2026-07-28 excepted, whose protocol forbids it"),
)
