"""The questions: from the rows that a question's process leaves to one text that answers."""

from __future__ import annotations
