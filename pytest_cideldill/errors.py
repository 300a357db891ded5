"""The closed set of error codes that a client can get, and the exception that carries one.

Both processes share this table. Clients rely on the codes (docs/tools.md): they are never renamed.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pytest_cideldill.interpreter.borders import text_of


class ErrorCode(StrEnum):
    """The kind of an error: the value of the `error` key in a reply."""

    MISSING_PARAMETER = "missing_parameter"
    INVALID_PARAMETER = "invalid_parameter"
    NO_RUN = "no_run"
    NOT_LIVE = "not_live"
    RUN_ACTIVE = "run_active"
    RUN_NOT_FOUND = "run_not_found"
    TEST_NOT_FOUND = "test_not_found"
    NOT_REPRODUCED = "not_reproduced"
    NONDETERMINISTIC = "nondeterministic"
    NO_CONTRAST = "no_contrast"
    XDIST_MISSING = "xdist_missing"
    BREAKPOINT_NOT_FOUND = "breakpoint_not_found"
    INVALID_BEHAVIOR = "invalid_behavior"
    INVALID_LIMIT = "invalid_limit"
    INVALID_CONDITION = "invalid_condition"
    INVALID_TEMPLATE = "invalid_template"
    INVALID_LINE = "invalid_line"
    INVALID_COLUMN = "invalid_column"
    INVALID_SOURCE = "invalid_source"
    FILE_NOT_FOUND = "file_not_found"
    CANNOT_INTERCEPT = "cannot_intercept"
    FUNCTION_NOT_FOUND = "function_not_found"
    SIGNATURE_MISMATCH = "signature_mismatch"
    PAUSE_NOT_FOUND = "pause_not_found"
    INVALID_ACTION = "invalid_action"
    INVALID_ARGUMENTS = "invalid_arguments"
    INVALID_EXCEPTION_TYPE = "invalid_exception_type"
    INVALID_PATH = "invalid_path"
    CID_NOT_FOUND = "cid_not_found"
    MISSING_EXPRESSION = "missing_expression"
    SESSION_NOT_FOUND = "session_not_found"
    SESSION_CLOSED = "session_closed"
    EVAL_TIMEOUT = "eval_timeout"
    INVALID_FRAME = "invalid_frame"
    NO_EXCEPTION = "no_exception"
    THREAD_NOT_FOUND = "thread_not_found"
    WORKER_NOT_FOUND = "worker_not_found"
    PROCESS_BUSY = "process_busy"
    INTERNAL_ERROR = "internal_error"


MAX_MESSAGE = 2_000
MAX_EXTRA = 500
"""Characters of a text in an error object, which may hold a long text of the client's."""


def _cut(value: Any, most: int) -> Any:
    """A long text without its middle: after a long name comes what is wrong with it."""
    half = most // 2
    is_long = isinstance(value, str) and len(value) > most
    return f"{value[:half]}…{value[-half:]}" if is_long else value


class Refusal(Exception):
    """A request that is answered with an error object instead of a result.

    Attributes:
        code: One of `ErrorCode`.
        message: One sentence that names the offending thing and the way out.
        extra: Further keys of the error object (ids, allowed values); plain data.
    """

    def __init__(self, code: ErrorCode, message: str, **extra: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = _cut(message, MAX_MESSAGE)
        self.extra = {name: _cut(value, MAX_EXTRA) for name, value in extra.items()}

    def to_plain(self) -> dict[str, Any]:
        """The error object of a reply: `{"error": CODE, "message": SENTENCE, ...}`."""
        return {"error": str(self.code), "message": self.message, **self.extra}

    @classmethod
    def from_plain(cls, data: dict[str, Any]) -> Refusal:
        """The inverse of `to_plain`, for a refusal that came over the wire."""
        extra = {key: value for key, value in data.items() if key not in ("error", "message")}
        return cls(ErrorCode(data["error"]), data["message"], **extra)


def internal_error(error: Exception) -> Refusal:
    """The refusal for a failure of our own inside the process under test."""
    return Refusal(
        ErrorCode.INTERNAL_ERROR, f"the debugger failed inside the test process: {text_of(error)}"
    )


def missing(parameter: str, message: str) -> Refusal:
    """The refusal of a request without a parameter that it needs."""
    return Refusal(ErrorCode.MISSING_PARAMETER, message, parameter=parameter)


def invalid(parameter: str, message: str, expected: str) -> Refusal:
    """The refusal of a request with a value of a parameter that can't be used."""
    return Refusal(ErrorCode.INVALID_PARAMETER, message, parameter=parameter, expected=expected)
