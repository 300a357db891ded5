"""The environment variables by which a program learns that an agent runs it.

This module is imported while the plugin is not switched on, so it imports next to nothing.
"""

from __future__ import annotations

import os

VARIABLES = (
    # Of no product: proposals for all of them.
    "AI_AGENT",
    "AGENT",
    # Set by products in the shells of their agents.
    "AMP_CURRENT_THREAD_ID",
    "ANTIGRAVITY_AGENT",
    "AUGMENT_AGENT",
    "CLAUDECODE",
    "CLAUDE_CODE",
    "CLINE_ACTIVE",
    "CODEX_CI",
    "CODEX_SANDBOX",
    "CODEX_THREAD_ID",
    "COPILOT_CLI",
    "CURSOR_AGENT",
    "GEMINI_CLI",
    "GOOSE_TERMINAL",
    "OPENCODE",
    "OPENCODE_CLIENT",
    "QWEN_CODE",
    "TRAE_AI_SHELL_ID",
)
"""One that is set, and not empty, is enough; values differ by product and version."""


def is_here() -> bool:
    """Whether an agent has started this process."""
    return any(map(os.environ.get, VARIABLES))
