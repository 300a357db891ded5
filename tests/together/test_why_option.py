"""`pytest --cideldill-why`: an ordinary run, and behind its last line why tests failed.

The command is a stand-in, but where the docstring of a test says otherwise.
"""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_cideldill.records.answers import read_answers
from tests.together.driver import DEADLINE_S
from tests.together.fakewhy import asked_in, fake_command, nodeids_in
from tests.together.frontend import clean_environment
from tests.together.real_package import MORE_ITERTOOLS, Record, environment, recording, unpacked
from tests.together.test_real_package import ONE_TOO_FEW, SLOW
from tests.together.transcript import blocks

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"

TITLE = "cideldill why"

CAUSES = """
import pytest

pytestmark = pytest.mark.long(80)

def half(x): return x // 2

@pytest.mark.parametrize("n", [4, 3, 5])
def test_half(n): assert half(n) == n / 2

def test_key(): {}["x"]
def test_other_place(): assert half(3) == 2
def test_no_fixture(nowhere): pass
def test_no_fixture_again(nowhere): pass
def read(text):
    import json
    return json.loads(text)
def test_json(): read("{")
def test_json_too(): read("[")
"""
ONE_EACH = ["test_half[3]", "test_key", "test_other_place", "test_no_fixture", "test_json"]


class Project:
    """A project whose failing tests are asked about."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "project"
        self.folder.mkdir()
        self.write("pytest.ini", "[pytest]\naddopts = -p no:randomly -p no:cacheprovider\n")
        self.scratch = folder
        self.variables = fake_command(folder)

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "pytest", *arguments]

    def environment(self, **further: str) -> dict[str, str]:
        return clean_environment(**self.variables, **further)

    def run(self, *arguments: str, **further: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments),
            cwd=self.folder,
            env=self.environment(**further),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=DEADLINE_S * 3,
            check=False,
        )

    @property
    def asked(self) -> list[str]:
        return [each.partition("::")[2] for each in nodeids_in(self.scratch)]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.write("test_it.py", CAUSES)
    return made


def timeless(text: str) -> str:
    text = re.sub(r"\d+\.\d+s( \(\d:\d\d:\d\d\))?", "TIME", text)
    text = re.sub(r"0x[0-9a-f]+|\[gw\d\]", "N", text)
    text = re.sub(r"^=+ (.* in TIME) =+$", r"\1", text, flags=re.MULTILINE)
    return re.sub(r'(time|timestamp)="[^"]*"', r"\1", text)


def before_ours(output: str) -> str:
    """What stands above our lines."""
    before, _, ours = output.partition(f" {TITLE} ")
    assert ours
    return before.rpartition("\n")[0] + "\n"


def ours(done: subprocess.CompletedProcess[str]) -> str:
    return done.stdout.partition(f" {TITLE} ")[2].partition("\n")[2]


def test_the_run_is_the_plain_one_and_the_answers_stand_behind_its_last_line(
    project: Project,
) -> None:
    """One answer for each cause, in the order of the failures; JUnit XML as without us."""
    plain = project.run("--junitxml=plain.xml", "test_it.py")
    done = project.run("--cideldill-why=9", "--junitxml=asked.xml", "test_it.py")
    assert (done.returncode, done.stderr) == (plain.returncode, plain.stderr)
    wanted = timeless(plain.stdout).replace("plain.xml", "asked.xml")
    assert timeless(before_ours(done.stdout)) == wanted
    xml = [(project.folder / f"{name}.xml").read_text("utf-8") for name in ("plain", "asked")]
    assert timeless(xml[0]) == timeless(xml[1])
    assert project.asked == ONE_EACH
    first, *_, last = ours(done).split("\n\n")
    assert first == (
        "why test_it.py::test_half[3] ✗\n  because <b>of</b> it\n"
        "also fail for this cause: 1 other test"
    )
    assert last.startswith("why test_it.py::test_json ✗")


@pytest.mark.full
def test_the_default_is_three_and_a_path_behind_the_flag_is_no_number(project: Project) -> None:
    done = project.run("--cideldill-why", "test_it.py", "-q", "--tb=short")
    assert project.asked == ONE_EACH[:3]
    assert ours(done).endswith(
        "not asked: 2 failures with other causes; the first: cideldill why "
        "'test_it.py::test_no_fixture'\n"
    )
    assert "1 passed" in before_ours(done.stdout).splitlines()[-1]


@pytest.mark.full
@pytest.mark.parametrize(
    "arguments",
    [
        ("-n2", "--dist=loadfile", "--tb=native"),
        ("--tb=line", "-v", "-rA", "-s"),
        ("-p", "pytest_cov", "--cov=.", "-p", "no:xdist", "-x", "-q"),
    ],
    ids=" ".join,
)
def test_other_options_show_what_they_show(project: Project, arguments: tuple[str, ...]) -> None:
    plain = project.run(*arguments)
    done = project.run("--cideldill-why=1", *arguments)
    assert (done.returncode, done.stderr) == (plain.returncode, plain.stderr)
    assert sorted(timeless(before_ours(done.stdout)).splitlines()) == sorted(
        timeless(plain.stdout).splitlines()
    )
    assert len(project.asked) == 1


@pytest.mark.full
def test_causes_are_distinguished_in_what_workers_send(project: Project) -> None:
    """They report in any order."""
    project.run("--cideldill-why=9", "-n2", "--tb=short")
    asked, wanted = (
        sorted(re.sub(r"\[.*|_too|_again", "", each) for each in names)
        for names in (project.asked, ONE_EACH)
    )
    assert asked == wanted


@pytest.mark.full
@pytest.mark.parametrize("arguments", [("-k", "4"), ("--collect-only",), ("--help",)], ids=" ".join)
def test_nothing_is_asked_without_a_reason(project: Project, arguments: tuple[str, ...]) -> None:
    done = project.run("--cideldill-why", *arguments)
    assert (done.returncode, project.asked) == (0, [])
    assert f" {TITLE} " not in done.stdout


@pytest.mark.full
def test_the_project_may_ask_in_every_run(project: Project) -> None:
    """An option on the command line counts more."""
    project.write("cideldill.toml", "why = 2\n")
    project.run("-x")
    assert len(project.asked) == 1
    project.write("pytest.ini", "[pytest]\ncideldill_why = 2\naddopts = -p no:cacheprovider\n")
    project.run()
    assert len(project.asked) == 3
    project.run("--cideldill-why=0")
    assert len(project.asked) == 3


@pytest.mark.full
def test_a_malformed_number_is_a_usage_error(project: Project) -> None:
    done = project.run("-o", "cideldill_why=many")
    assert done.returncode == 4
    assert "'many' is not a whole number from 0 to 50" in done.stderr


@pytest.mark.full
def test_the_command_gets_what_the_session_was_started_with(project: Project) -> None:
    """Where it was started, its variables, and all its arguments; no choice by `-k`."""
    project.write(
        "sub/conftest.py",
        "import os\n"
        "def pytest_addoption(parser): parser.addoption('--mine')\n"
        "def pytest_configure(): os.environ['CHANGED'] = '1'; os.chdir('/')\n",
    )
    project.write("sub/test_more.py", "import os\ndef test_bad(): os.chdir('/'); assert 0\n")
    given = ["sub", "--mine=tests", "-k", "bad", "-p", "no:doctest", "--cideldill-why"]
    done = project.run(*given, GIVEN="yes")
    assert done.returncode == 1, done.stdout
    (asked,) = asked_in(project.scratch)
    why, nodeid, *rest = asked["argv"]
    assert (why, nodeid) == ("why", "sub/test_more.py::test_bad")
    assert rest == ["--json", "--python", sys.executable, "--", *given, "-k", ""]
    assert (asked["cwd"], asked["stdin"]) == (str(project.folder), "")
    assert asked["environment"]["GIVEN"] == "yes"
    assert not {"CHANGED", "PYTEST_CURRENT_TEST"} & asked["environment"].keys()


@pytest.mark.full
def test_what_has_no_answer_is_one_line(project: Project) -> None:
    """The next question is asked all the same."""
    sentences = {
        "refused": "test_it.py::test_refused passes when it runs alone",
        "broken": "the command ended with 1: ImportError: no front end",
        "garbage": "the command ended with 0: it printed nothing",
    }
    names = [*sentences, "bad"]
    project.write("test_it.py", "".join(f"def test_{each}(): assert 0\n" for each in names))
    done = project.run("--cideldill-why=4")
    assert done.returncode == 1
    *refused, answer = ours(done).split("\n\n")
    assert refused == [
        f"cideldill: no answer for test_it.py::test_{name}: {sentence}"
        for name, sentence in sentences.items()
    ]
    assert answer == "why test_it.py::test_bad ✗\n  because <b>of</b> it\n"


@pytest.mark.full
def test_ctrl_c_ends_the_question_with_the_exit_code_of_the_session(project: Project) -> None:
    project.write("test_it.py", "def test_interrupts(): assert 0\ndef test_bad(): {}[1]\n")
    done = project.run("--cideldill-why")
    assert (done.returncode, done.stderr) == (1, "")
    assert ours(done) == "cideldill: interrupted; the tests' own results stand above\n"
    assert project.asked == ["test_interrupts"]
    assert Path(project.variables["ASKED"] + ".ended").exists()


@pytest.mark.full
def test_a_session_that_was_interrupted_asks_nothing(project: Project) -> None:
    project.write(
        "test_it.py", "def test_bad(): assert 0\ndef test_stop(): raise KeyboardInterrupt\n"
    )
    done = project.run("--cideldill-why")
    assert (done.returncode, project.asked) == (2, [])


@pytest.mark.full
def test_without_pytests_terminal_the_answers_are_printed(project: Project) -> None:
    done = project.run("--cideldill-why=1", "-p", "no:terminal")
    assert done.stdout == (
        "== cideldill why ==\nwhy test_it.py::test_half[3] ✗\n  because <b>of</b> it\n"
        "also fail for this cause: 1 other test\n\n"
        "not asked: 4 failures with other causes; the first: "
        "cideldill why 'test_it.py::test_key'\n"
    )


@pytest.mark.full
def test_runs_that_tests_start_ask_only_if_their_command_line_says_so(project: Project) -> None:
    project.write("inner/test_inner.py", "def test_bad(): assert 0\n")
    project.write("pytest.ini", "[pytest]\ncideldill_why = 3\naddopts = -p no:cacheprovider\n")
    project.write(
        "test_it.py",
        "import os, subprocess, sys\n"
        "def ran(*arguments):\n"
        "    return subprocess.call([sys.executable, '-m', 'pytest', 'inner', *arguments])\n"
        "def test_silent(): assert ran() == 1 and not os.path.exists(os.environ['ASKED'])\n"
        "def test_asking(): assert ran('--cideldill-why') == 1\n",
    )
    assert project.run("test_it.py").returncode == 0
    assert project.asked == ["test_bad"]


@pytest.mark.full
def test_a_terminal_shows_what_takes_long(project: Project) -> None:
    """The line goes again."""
    project.write("test_it.py", "def test_bad(): assert 0\n")
    main = project.scratch / "fakes" / "cideldill_mcp" / "commands" / "main.py"
    main.write_text("import time; time.sleep(1.5)\n" + main.read_text("utf-8"), "utf-8")
    ours_end, theirs = pty.openpty()
    process = subprocess.Popen(
        project.command("--cideldill-why"),
        cwd=project.folder,
        env=project.environment(TERM="xterm"),
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    printed = b""
    try:
        while data := os.read(ours_end, 4096):
            printed += data
    except OSError:
        pass  # the other end is closed
    finally:
        os.close(ours_end)
    assert process.wait(DEADLINE_S) == 1
    shown = printed.decode()
    waiting = "\r\x1b[Kasking why test_it.py::test_bad (1 of 1), 1 s, Ctrl-C ends it"
    assert waiting in shown
    assert "\r\x1b[K\x1b[31mwhy test_it.py::test_bad ✗" in shown
    assert shown.rindex("asking why") < shown.rindex("because")


@pytest.mark.full
def test_the_real_command_answers(project: Project) -> None:
    """No stand-in. No file of the session is written again."""
    del project.variables["PYTHONPATH"]
    project.write(
        "test_it.py",
        CAUSES.replace("n):", "n, tmp_path):").replace(
            "assert half(n)", "(tmp_path / str(n)).touch(); assert half(n)"
        )
        + "import logging, pytest\n"
        "@pytest.fixture(autouse=True)\n"
        "def logged(request): logging.error('of %s', request.node.name)\n",
    )
    given = ["--cideldill-why=1", "--junitxml=out.xml", "--basetemp=temp", "--log-file=out.log"]
    done = project.run(*given, "-k", "half")
    assert done.returncode == 1
    text = ours(done)
    assert text.startswith("test_it.py::test_half[3]  failed: ")
    assert "half(n) = 1" in text
    assert 'tests="3"' in (project.folder / "out.xml").read_text("utf-8")
    log = (project.folder / "out.log").read_text("utf-8")
    assert re.findall(r"of (\S+)", log) == ["test_half[4]", "test_half[3]", "test_half[5]"]
    temp = project.folder / "temp"
    assert {each.name for each in temp.glob("*/?")} == {"3", "4", "5"}


# --- recorded runs ------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.sample("n2")
@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "n2"])
def test_the_answers_become_a_part_of_the_record(
    project: Project, workers: tuple[str, ...]
) -> None:
    """Of its folder, the page, `cideldill show` and the summary."""
    given = ("--cideldill-record=rec", "--cideldill-summary=ci.md", *workers)
    done = project.run("--cideldill-why=9", *given, "test_it.py")
    assert (done.returncode, done.stderr) == (1, "")
    assert sorted(re.sub(r"\[.*|_too|_again", "", each) for each in project.asked) == sorted(
        re.sub(r"\[.*", "", each) for each in ONE_EACH
    )
    *_, last = ours(done).splitlines()
    assert last.startswith("cideldill: recorded in ")
    assert "not complete" not in last
    (file,) = (project.folder / "rec").glob("run-*/why.json")
    assert file.stat().st_mode & 0o777 == 0o600
    answers = json.loads(file.read_text("utf-8"))["answers"]
    assert [each["nodeid"] for each in answers] == nodeids_in(project.scratch)
    assert set(answers[0]) == {"nodeid", "outcome", "parts", "suspects", "seconds", "text"}
    page = (project.folder / "rec" / "report.html").read_text("utf-8")
    shown = show(project, "show", "rec")
    summary = (project.folder / "ci.md").read_text("utf-8")
    for answer in answers:
        nodeid = answer["nodeid"]
        assert page.count(f"why {nodeid} ✗\n  because &lt;b&gt;of&lt;/b&gt; it") == 1
        assert shown.count(answer["text"]) == 1
        assert summary.count(f"  why {nodeid} ✗\n    because <b>of</b> it\n") == 1
    one = show(project, "show", "rec", "--test", answers[0]["nodeid"])
    assert one.count(answers[0]["text"]) == 1
    made = show(project, "report", "rec", "-o", "again.html")
    assert made == "again.html\n"
    again = (project.folder / "again.html").read_text("utf-8")
    assert again.count("because &lt;b&gt;") == len(answers)


def show(project: Project, *arguments: str) -> str:
    """What `cideldill` prints."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest_cideldill", *arguments],
        cwd=project.folder,
        env=clean_environment(),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=DEADLINE_S,
        check=True,
    )
    return done.stdout


@pytest.mark.full
def test_a_record_says_what_it_says_without_the_option(project: Project) -> None:
    """The same lines of events, and no file more."""
    project.run("--cideldill-record=rec", "test_it.py")
    project.run("--cideldill-record=rec2", "--cideldill-why=1", "test_it.py")
    ((plain,), (asked,)) = ((project.folder / name).glob("run-*") for name in ("rec", "rec2"))
    names = {each.name for each in plain.iterdir()}
    assert {each.name for each in asked.iterdir()} == names | {"why.json"}
    types = [
        [json.loads(line)["type"] for line in (folder / "events.jsonl").read_text().splitlines()]
        for folder in (plain, asked)
    ]
    assert types[0] == types[1]
    assert "Why" not in (project.folder / "rec" / "report.html").read_text("utf-8")


@pytest.mark.full
def test_a_file_of_answers_that_makes_no_sense_is_passed_over(project: Project) -> None:
    project.run("--cideldill-record=rec", "test_it.py")
    (run,) = (project.folder / "rec").glob("run-*")
    for text in ("", "[]", '{"answers": 1}', '{"answers": [1, {"nodeid": 2}, {}]}', "{" * 9):
        (run / "why.json").write_text(text, "utf-8")
        assert read_answers(run) == {}, text
    (run / "why.json").unlink()
    os.mkfifo(run / "why.json")
    assert read_answers(run) == {}
    assert "FAILED test_it.py::test_key" in show(project, "show", "rec")


@pytest.mark.full
def test_an_answer_finds_its_test_whatever_the_tags_of_secrets_are(project: Project) -> None:
    """They differ from process to process."""
    project.write(
        "test_it.py",
        "import pytest\n@pytest.mark.parametrize('password', ['hunter2hunter2'])\n"
        "def test_bad(password): assert 0\n",
    )
    main = project.scratch / "fakes" / "cideldill_mcp" / "commands" / "main.py"
    main.write_text(
        main.read_text("utf-8").replace(
            "nodeid = sys.argv[2]",
            "nodeid = sys.argv[2].replace('hunter2hunter2', '<redacted:password#abcdef>')",
        ),
        "utf-8",
    )
    done = project.run("--cideldill-why", "--cideldill-record=rec")
    assert done.returncode == 1
    assert "because <b>of</b> it" in show(project, "show", "rec")
    for file in (each for each in (project.folder / "rec").rglob("*") if each.is_file()):
        assert b"hunter2hunter2" not in file.read_bytes(), file


@pytest.mark.full
def test_a_record_of_a_run_that_passes_asks_nothing(project: Project) -> None:
    done = project.run("--cideldill-why", "--cideldill-record=rec", "-k", "4")
    assert (done.returncode, project.asked) == (0, [])
    assert TITLE not in done.stdout
    assert not list((project.folder / "rec").rglob("why.json"))


@pytest.mark.full
def test_the_lines_of_the_page_print_what_is_shown(project: Project) -> None:
    """`docs/questions.md`, in the example shop."""
    shop = shutil.copytree(EXAMPLES / "shop", project.scratch / "shop")
    project.folder = shop
    page = (ROOT / "docs" / "questions.md").read_text("utf-8")
    (line,) = (each.strip() for each in blocks(page, "sh") if "--cideldill-why" in each)
    program, *arguments = shlex.split(line)
    assert program == "pytest"
    done = project.run(*arguments, CLAUDECODE="1")
    assert project.asked == ["test_total[bulk]"]
    assert "why?" not in done.stdout
    (hint,) = (each for each in blocks(page, "text") if each.startswith("cideldill: why?"))
    assert project.run(CLAUDECODE="1").stdout.count(hint) == 1


# --- a released package -------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize(
    ("files", "fewest"),
    [("tests/test_recipes.py", 3), pytest.param("tests", 10, marks=pytest.mark.soak)],
)
def test_a_real_suite_runs_as_without_the_option(tmp_path: Path, files: str, fewest: int) -> None:
    """Every line above ours, every report, JUnit XML and the exit code; the plugin switched off in
    the one run, and asking in the other.
    """
    root = unpacked(MORE_ITERTOOLS, tmp_path)
    ONE_TOO_FEW.apply(root)
    runs = {
        "plain": ("-p", "no:cideldill"),
        "asked": ("--cideldill-why=2",),
    }
    fakes, outputs = fake_command(tmp_path), dict[str, str]()
    for name, given in runs.items():
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--no-header"),
                *recording(tmp_path / f"{name}.json"),
                *(f"--junitxml={tmp_path / 'out.xml'}", SLOW, files, *given),
            ],
            cwd=root,
            env=environment(tmp_path / "fakes") | {"ASKED": fakes["ASKED"]},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (1, "")
        outputs[name] = done.stdout
        (tmp_path / "out.xml").rename(tmp_path / f"{name}.xml")
    assert timeless(before_ours(outputs["asked"])) == timeless(outputs["plain"])
    xml, wanted = ((tmp_path / f"{name}.xml").read_text("utf-8") for name in ("asked", "plain"))
    assert timeless(xml) == timeless(wanted)
    seen, plain = (Record.read(tmp_path / f"{name}.json") for name in ("asked", "plain"))
    assert seen == plain
    assert len(plain.failed()) >= fewest
    assert len(nodeids_in(tmp_path)) == 2
