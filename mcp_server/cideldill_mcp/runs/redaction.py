"""The secrets in texts of a run that the front end itself reads: sources, its last output."""

from __future__ import annotations

from pytest_cideldill.config.settings import Settings
from pytest_cideldill.protocol import RedactionChosen
from pytest_cideldill.redaction.redactor import Redactor


def redactor_of(settings: Settings, key: bytes) -> Redactor:
    """As the processes of a run have it at their start; `key` is the run's, for tags."""
    return Redactor(
        settings.redact_names,
        settings.redact_patterns,
        shown_names=settings.show_names,
        key=key,
        enabled=not settings.no_redact,
    )


def learn(redactor: Redactor, chosen: RedactionChosen) -> list[str]:
    """Hide what a process of the run hides as well; what to warn of."""
    if chosen.off:
        redactor.enabled = False
    redactor.extend(chosen.names, shown=chosen.shown)
    warnings = []
    for number, pattern in enumerate(chosen.patterns, 1):
        try:
            redactor.extend(patterns=[pattern])
        except ValueError:  # another Python may know other patterns; it may hold a secret
            warnings.append(
                f"the server's Python can't use pattern {number} of {len(chosen.patterns)}: "
                "what it means is not hidden in the last words of a process that crashed"
            )
    return warnings
