"""The quick look that tells most texts from those that may hold a secret: it misses no shape."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_cideldill.redaction.by_shape import SHAPES
from pytest_cideldill.redaction.redactor import Redactor
from tests.each_case import for_each
from tests.process.test_redactor import PLANTED

_BEHIND = re.compile(r"\(\?<=[^)]*\)")
"""What stands before a shape."""

_OFTEN_FILTERED: Any = {"suppress_health_check": [HealthCheck.filter_too_much]}

ALL = {f"{label}: {pattern}": pattern for label in SHAPES for pattern in SHAPES[label]}

EXAMPLES = {
    "pem": "pem",
    "jwt": "jwt",
    "aws": "aws id",
    "token": "github",
    "auth": "bearer",
    "basic": "basic",
    "url": "url",
}
"""By the label of a shape the name of a secret that has it."""


@for_each("label", SHAPES)
def test_a_text_with_the_example_of_a_shape_is_never_plain(label: str) -> None:
    context, secret = PLANTED[EXAMPLES[label]]
    text = context.format(secret)
    assert any(re.search(pattern, text, re.ASCII) for pattern in SHAPES[label])
    for each in (text, f"({text})"):
        assert not Redactor(environ={}).is_plain(each)


@pytest.mark.full  # Hypothesis takes seconds to begin with texts where much is imported
@pytest.mark.parametrize("pattern", ALL.values(), ids=ALL)
def test_a_text_with_a_secret_is_never_plain(pattern: str) -> None:
    redactor = Redactor(environ={})
    found = 0

    @settings(max_examples=10, deadline=None, database=None, derandomize=True, **_OFTEN_FILTERED)
    @given(st.from_regex(re.compile(_BEHIND.sub("", pattern), re.ASCII), fullmatch=True))
    def check(secret: str) -> None:
        nonlocal found
        for each in (secret, secret.lower()):
            for text in (f"(a={each})", f"(a=123456{each})"):
                if re.search(pattern, text, re.ASCII):
                    found += 1
                    assert not redactor.is_plain(text)

    check()
    assert found


@pytest.mark.parametrize("text", ["it said p4ssword;1!", "it said P4SSWORD;1!"])
def test_nor_is_one_with_a_value_of_the_environment(text: str) -> None:
    assert not Redactor(environ={"DEPLOY_TOKEN": text[8:-1]}).is_plain(text)
