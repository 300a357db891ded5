"""Released packages, each with an edit of one function; fetched when they are needed."""

from __future__ import annotations

from typing import Final

from benchmarks.evidence_cases.cases import Case
from tests.together.real_package import CLICK, MORE_ITERTOOLS, Breakage, Release

TOOLZ: Final = Release(
    "toolz",
    "1.2.0",
    "9667a038e9d6ecba37995e26cb2f59ec6420b6ad8dd9677de59db9b956b08490",
    "toolz-1.2.0",
    "toolz",
)
TABULATE: Final = Release(
    "tabulate",
    "0.10.0",
    "e2cfde8f79420f6deeffdeda9aaec3b6bc5abce947655d17ac662b126e48a60d",
    "tabulate-0.10.0",
    "tabulate",
)
INICONFIG: Final = Release(
    "iniconfig",
    "2.3.1",
    "67f4b9c50da0dedf52af349e7749a80a9057a5031199791b906c3bb3ae878960",
    "iniconfig-2.3.1",
    "src/iniconfig",
)
PLUGGY: Final = Release(
    "pluggy",
    "1.7.0",
    "d1eaa46ebb595891b860ab086b4d09c8588af65ebd4361b8e8f4bb8920b90ba8",
    "pluggy-1.7.0",
    "src/pluggy",
)
JINJA: Final = Release(
    "jinja2",
    "3.1.6",
    "0137fb05990d35f1275a587e9aee6d56da821fc83491a0fb838183be43f66d6d",
    "jinja2-3.1.6",
    "src/jinja2",
)
MARKDOWN: Final = Release(
    "markdown",
    "3.11.3",
    "81eb91631dc97ad1efbc76019ef0f80fe90ca49ddf81546752d79989c3bfff3e",
    "markdown-3.11.3",
    "markdown",
)

CASES: Final = (
    Case(
        "click-unpack",
        "inverted condition",
        CLICK,
        Breakage(
            "_unpack_args",
            "src/click/parser.py",
            """            if spos is not None:
                x.reverse()
""",
            """            if spos is None:
                x.reverse()
""",
        ),
        "tests/test_arguments.py::test_nargs_specified_plus_star_ordering",
        source="src",
    ),
    Case(
        "click-columns",
        "boundary of a comparison",
        CLICK,
        Breakage(
            "HelpFormatter.write_dl",
            "src/click/formatting.py",
            "if term_len(first) <= first_col - col_spacing:",
            "if term_len(first) < first_col - col_spacing:",
        ),
        "tests/test_formatting.py::test_global_show_default",
        source="src",
    ),
    Case(
        "jinja-symbols",
        "aliasing in a copy",
        JINJA,
        Breakage(
            "Symbols.copy",
            "src/jinja2/idtracking.py",
            "rv.stores = self.stores.copy()",
            "rv.stores = self.stores",
        ),
        "tests/test_regression.py::TestBug::test_partial_conditional_assignments",
        source="src",
    ),
    Case(
        "jinja-loop",
        "off by one",
        JINJA,
        Breakage(
            "LoopContext.revindex0",
            "src/jinja2/runtime.py",
            "return self.length - self.index\n",
            "return self.length - self.index - 1\n",
        ),
        "tests/test_core_tags.py::TestForLoop::test_context_vars",
        source="src",
    ),
    Case(
        "jinja-cache",
        "the wrong end of a queue",
        JINJA,
        Breakage(
            "LRUCache.__setitem__",
            "src/jinja2/utils.py",
            "del self._mapping[self._popleft()]",
            "del self._mapping[self._pop()]",
        ),
        "tests/test_loader.py::TestLoaders::test_limited_size_cache",
        source="src",
    ),
    Case(
        "markdown-level",
        "a missing condition in a loop",
        MARKDOWN,
        Breakage(
            "ListIndentProcessor.get_level",
            "markdown/blockprocessors.py",
            """                if child.tag in self.LIST_TYPES:
                    level += 1
""",
            """                level += 1
""",
        ),
        "tests/test_legacy.py::TestMisc::test_nested_lists",
    ),
    Case(
        "markdown-stash",
        "state that a reset forgets",
        MARKDOWN,
        Breakage(
            "HtmlStash.reset",
            "markdown/util.py",
            """        self.html_counter = 0
        self.rawHtmlBlocks = []
""",
            """        self.rawHtmlBlocks = []
""",
        ),
        "tests/test_apis.py::TestHtmlStash::testReset",
    ),
    Case(
        "more-itertools-range",
        "wrong operand",
        MORE_ITERTOOLS,
        Breakage(
            "numeric_range._len",
            "more_itertools/more.py",
            "return int(q) + int(r != self._zero)",
            "return int(q) + int(r == self._zero)",
        ),
        "tests/test_more.py::NumericRangeTests::test_get_item_by_slice",
        ("tests/test_more.py::NumericRangeTests",),
    ),
    Case(
        "more-itertools-peek",
        "off by one in what is fetched",
        MORE_ITERTOOLS,
        Breakage(
            "peekable._get_slice",
            "more_itertools/more.py",
            "n = min(max(start, stop) + 1, maxsize)",
            "n = min(max(start, stop) - 1, maxsize)",
        ),
        "tests/test_more.py::PeekableTests::test_slicing_reset",
        ("tests/test_more.py::PeekableTests",),
    ),
    Case(
        "toolz-merge",
        "stale value in a loop",
        TOOLZ,
        Breakage(
            "_merge_sorted_binary_key",
            "toolz/itertoolz.py",
            """            for val2 in seq2:
                key2 = key(val2)
                if key2 < key1:
""",
            """            for val2 in seq2:
                if key2 < key1:
""",
        ),
        "toolz/tests/test_itertoolz.py::test_merge_sorted",
    ),
    Case(
        "tabulate-point",
        "off by one in a position",
        TABULATE,
        Breakage(
            "_afterpoint",
            "tabulate/__init__.py",
            "return len(string) - pos - 1",
            "return len(string) - pos - 2",
        ),
        "test/test_output.py::test_simple",
    ),
    Case(
        "pluggy-token",
        "wrong operator in a condition",
        PLUGGY,
        Breakage(
            "_is_plain_token",
            "src/pluggy/_tracing.py",
            'return bool(text) and text.isprintable() and " " not in text',
            'return bool(text) and text.isprintable() or " " not in text',
        ),
        "testing/test_pluginmanager.py::test_hook_tracing_escapes_surrogate_values",
        source="src",
    ),
    Case(
        "iniconfig-lines",
        "a special case that is lost",
        INICONFIG,
        Breakage(
            "parse_lines",
            "src/iniconfig/_parse.py",
            "result.append(ParsedLine(lineno, section, name, [data] if data else []))",
            "result.append(ParsedLine(lineno, section, name, [data]))",
        ),
        "testing/test_iniconfig.py::test_example_pypirc",
        source="src",
    ),
)
