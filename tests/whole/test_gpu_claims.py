"""`make gpu`: its runner outlives whatever a step does, its claims are those of its page, and its code runs here."""

import ast
import json
import math
import os
import re
import runpy
import subprocess
import sys
import textwrap
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from claims import CLAIMS
from findings import Findings, read_found
from places import ROOT
from runner import (
    count_failures,
    judge_claims,
    leave_out,
    python_environment,
    read_results,
    run_all,
    run_process,
    run_step,
    write_results,
)
from steps import STEPS
from table import readme_section, terminal_table
from waiting import HANG_S, has_ended, wait_until

SYSTEM = {"gpu": "Emulated <GPU> | 1", "driver": "1", "torch": "2"}
HOSTILE = "\x1b[2J\x1b]0;title\x07| pipe <script>\r\x00\u202e"


def python(code: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(code)]


def step(code: str, *, name: str = "throughput", limit_s: float = HANG_S, needs_s: float = 0.0) -> dict[str, Any]:
    """What the JSON has of a step that runs `code`, with `say` for a line of its findings."""
    prelude = "import json, os, signal, subprocess, sys, time\npath = sys.argv[1]\n"
    prelude += "def say(**line):\n    with open(path, 'a') as file: file.write(json.dumps(line) + '\\n')\n"
    prelude += "def judge(verdict): say(claim='million', verdict=verdict, figure='2 M', how='timed')\n"
    command = [sys.executable, "-c", prelude + textwrap.dedent(code)]
    return asdict(run_step(name, command, limit_s=limit_s, environ=os.environ, system=SYSTEM, needs_s=needs_s))


def test_what_a_step_found_is_kept() -> None:
    found = step("judge('proved')\nsay(figures={'ms': 1.5, 'none': None, 'name': 'H100'})\nprint('fine')")
    assert (found["ended"], found["exit_code"], found["last_words"]) == ("done", 0, "fine")
    assert found["judgements"] == {
        "million": {"claim": "million", "verdict": "proved", "figure": "2 M", "how": "timed"}
    }
    assert found["figures"] == {"ms": 1.5, "none": None, "name": "H100"}
    assert found["problems"] == ()


@pytest.mark.parametrize(
    ("code", "ended", "why"),
    [
        ("sys.exit('not today')", "failed", "exit code 1: not today"),
        ("1 / 0", "failed", "exit code 1: ZeroDivisionError: division by zero"),
        ("print('bye', flush=True)\nos.kill(os.getpid(), signal.SIGSEGV)", "failed", "ended by SIGSEGV: bye"),
        ("print(end='')\nos._exit(3)", "failed", "exit code 3: "),
    ],
)
def test_a_step_that_fails_keeps_what_it_had_found(code: str, ended: str, why: str) -> None:
    found = step("judge('proved')\n" + code)
    assert (found["ended"], found["why"]) == (ended, why)
    assert found["judgements"]["million"]["verdict"] == "proved"


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        "time.sleep(600)",
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nos.close(1); os.close(2)\ntime.sleep(600)",
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\ntime.sleep(600)",
        "while True: print('x' * 10_000)",
    ],
    ids=["sleeps", "closes its output", "has a child", "prints without end"],
)
def test_a_step_that_hangs_is_stopped_with_all_that_it_started(code: str) -> None:
    found = step("judge('disproved')\nprint('working', flush=True)\n" + code, limit_s=1.5)
    assert found["ended"] == "stopped at its limit"
    assert found["duration_s"] < HANG_S
    assert found["judgements"]["million"]["verdict"] == "disproved"


def test_a_child_that_is_left_behind_holds_up_nothing() -> None:
    end = run_process(
        python("import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])"),
        environ=os.environ,
        cwd=ROOT,
        limit_s=HANG_S,
    )
    assert end.exit_code == 0


def test_a_step_ends_with_the_runner_that_was_killed(tmp_path: Path) -> None:
    gpu, pid = str(ROOT / "tests" / "gpu"), tmp_path / "pid"
    child = f"""
        import os, pathlib, sys, time
        sys.path.insert(0, {gpu!r})
        from runner import end_with_parent
        end_with_parent(0.05)
        pathlib.Path({str(pid)!r} + "~").write_text(str(os.getpid()))
        os.rename({str(pid)!r} + "~", {str(pid)!r})
        time.sleep(600)
    """
    parent = f"import subprocess\nsubprocess.run({python(child)!r}, start_new_session=True)"
    process = subprocess.Popen(python(parent))
    try:
        wait_until(pid.exists, "the step began")
    finally:
        process.kill()
        process.wait()
    wait_until(lambda: has_ended(int(pid.read_text())), "the step ended with the runner")


def test_hostile_words_are_one_plain_line_each() -> None:
    found = step(f"print({HOSTILE!r} * 3, flush=True)\nos.write(1, b'\\xff\\xfe' * 50_000 + b'\\nlast')\nsys.exit(7)")
    assert found["why"] == "exit code 7: last"
    assert len(found["last_words"]) < 4000
    assert all(line.isprintable() for line in found["last_words"].splitlines())


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        "null",
        "[" * 5000,
        '{"claim": "million", "verdict": "certain", "figure": "", "how": ""}',
        '{"claim": "fits", "verdict": "proved", "figure": "", "how": ""}',
        '{"claim": "../million", "verdict": "proved", "figure": "", "how": ""}',
        '{"claim": "million", "verdict": "proved", "figure": 3, "how": ""}',
        '{"figures": [1]}',
        '{"figures": {"list": [1]}}',
    ],
)
def test_a_line_of_another_form_is_a_problem_and_counts_for_nothing(tmp_path: Path, line: str) -> None:
    path = tmp_path / "findings"
    path.write_text(line + '\n{"figures": {"ms": 2}}\n')
    found = read_found(path, "throughput")
    assert found.judgements == {} and found.figures == {"ms": 2}
    assert len(found.problems) == 1 and found.problems[0].startswith("line 1 of the findings: ")


def test_findings_are_bounded_and_hold_no_number_that_json_lacks(tmp_path: Path) -> None:
    path = tmp_path / "findings"
    path.write_text(json.dumps({"figures": {"nan": math.nan, "inf": math.inf, "text": HOSTILE * 500}}) + "\n")
    found = read_found(path, "throughput")
    assert found.figures["nan"] is None and found.figures["inf"] is None
    text = found.figures["text"]
    assert isinstance(text, str) and len(text) <= 300 and text.isprintable()
    path.write_text('{"figures": {"ms": 2}}\n' * 60_000)
    assert "were not read" in read_found(path, "throughput").problems[0]
    assert read_found(tmp_path / "absent", "throughput").problems == []


def test_the_file_is_whole_after_every_step_and_a_later_call_adds_to_it(tmp_path: Path) -> None:
    path, seen = tmp_path / "out" / "gpu.json", []
    codes = {
        "throughput": "import sys; sys.exit(1)",
        "facts": "pass",
        "profile": "pass",
        "nccl": "import time; time.sleep(600)",
    }
    results = run_all(
        [("throughput", HANG_S), ("facts", HANG_S), ("profile", HANG_S)],
        lambda name: python(codes[name]),
        path=path,
        environ=os.environ,
        system=SYSTEM,
        within_s=HANG_S,
        before={},
        why_left_out={"profile": "needs a GPU of 999 GiB"},
        on_result=lambda result: seen.append(list(read_results(path))),
    )
    assert seen == [["throughput"], ["throughput", "facts"], ["throughput", "facts", "profile"]]
    assert [step["ended"] for step in results.values()] == ["failed", "done", "left out"]
    again = run_all(
        [("throughput", HANG_S), ("nccl", HANG_S)],
        lambda name: python("pass" if name == "throughput" else codes[name]),
        path=path,
        environ=os.environ,
        system=SYSTEM,
        within_s=0.0,
        before=read_results(path),
        why_left_out={},
        on_result=lambda result: None,
    )
    assert [again[name]["why"] for name in ("throughput", "nccl")] == ["no time was left"] * 2
    assert list(read_results(path)) == ["throughput", "facts", "profile", "nccl"]
    assert [item.name for item in path.parent.iterdir()] == ["gpu.json"]


@pytest.mark.parametrize("content", ["", "[]", '{"schema_version": 1}', '{"schema_version": 2, "steps": {}}',
                                     '{"schema_version": 1, "steps": {"facts": 3}}'])  # fmt: skip
def test_a_file_of_another_form_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "gpu.json"
    path.write_text(content)
    with pytest.raises(ValueError):
        read_results(path)


def test_verdicts_come_from_their_steps_alone_and_failures_are_counted() -> None:
    disproved = step("judge('disproved')\nsys.exit(1)")
    broken = step("sys.exit('gone')", name="profile")
    results = {
        "throughput": disproved,
        "profile": broken,
        "run": asdict(leave_out("run", "no time was left", SYSTEM)),
    }
    verdicts = judge_claims(results)
    assert list(verdicts) == [claim.name for claim in CLAIMS]
    assert verdicts["million"]["verdict"] == "disproved"
    assert verdicts["faster"]["how"] == "step throughput failed: exit code 1:"
    assert verdicts["phases"]["how"] == "step profile failed: exit code 1: gone"
    assert verdicts["target"]["how"] == "step run left out: no time was left"
    assert verdicts["fits"]["how"] == "step full_size was not run"
    assert count_failures(results, list(results)) == 2
    assert count_failures({}, []) == 0


def test_a_rehearsal_proves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "findings"
    Findings(path, is_rehearsal=True).judge("million", True, "9 M", "timed")
    assert read_found(path, "throughput").judgements["million"].verdict == "not run"
    Findings(path, is_rehearsal=False).judge("million", True, "9 M", "timed")
    assert read_found(path, "throughput").judgements["million"].verdict == "proved"


def test_tables_name_the_system_and_escape_what_steps_say(tmp_path: Path) -> None:
    found = step(f"say(claim='million', verdict='proved', figure={HOSTILE!r}, how='')\nsay(x={HOSTILE!r})")
    path = tmp_path / "gpu.json"
    write_results(path, {"throughput": found})
    results = read_results(path)
    section, printed = readme_section(results), terminal_table(results)
    assert all(line.isprintable() for line in [*section.splitlines(), *printed.splitlines()])
    assert section.startswith(r"Run on Emulated &lt;GPU> \| 1, driver 1, torch 2, 20")
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {4} and len(rows) == 1 + len(CLAIMS)
    assert "1 proved, 0 disproved, 14 not run of 15 claims" in printed


def test_the_claims_are_those_of_the_page() -> None:
    """Whatever the page says comes from the claims, and from a JSON that is kept where there is one."""
    kept = ROOT / "tests" / "gpu" / "measured.json"
    section = (ROOT / "tests" / "gpu" / "README.md").read_text(encoding="utf-8")
    expected = readme_section(read_results(kept) if kept.exists() else {})
    assert section.endswith(expected + "\n"), "python tests/gpu --table tests/gpu/measured.json --readme"
    if not kept.exists():
        assert "No GPU has run any of this yet" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert section.count("\n| ") == 1 + len(CLAIMS), "the page claims nothing else of GPUs in its table"


def test_every_claim_is_judged_by_its_step_and_every_step_is_there() -> None:
    for each in STEPS:
        source = (ROOT / "tests" / "gpu" / "steps" / f"{each.name}.py").read_text(encoding="utf-8")
        tree = ast.parse(source)
        judged = {
            str(call.args[0].value)
            for call in ast.walk(tree)
            if isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr in ("judge", "leave_out")
            and isinstance(call.args[0], ast.Constant)
        }
        if each.name == "tests":
            judged = set(re.findall(r'^    "(\w+)": r"', source, flags=re.MULTILINE))
        assert judged == {claim.name for claim in CLAIMS if claim.step == each.name}
    assert len({claim.name for claim in CLAIMS}) == len({claim.sentence for claim in CLAIMS}) == len(CLAIMS)


def test_a_step_that_the_end_of_the_time_cut_is_not_finished_and_has_not_failed() -> None:
    found = step("judge('proved')\ntime.sleep(600)", limit_s=1.5, needs_s=100.0)
    assert (found["ended"], found["why"]) == ("not finished", "the time for all ended after 2 s of it: run it alone")
    assert count_failures({"throughput": found}, ["throughput"]) == 0
    verdicts = judge_claims({"throughput": found})
    assert verdicts["million"]["verdict"] == "proved", "what it had found stays"
    assert verdicts["faster"]["how"].startswith("step throughput not finished: the time for all ended")
    assert "  throughput not finished, " in terminal_table({"throughput": found})


def the_command() -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(ROOT / "tests" / "gpu" / "__main__.py"), run_name="command"))


def test_constants_that_tune_found_are_lines_to_paste_and_a_file(tmp_path: Path) -> None:
    figures = {"constant LEAST_BLOCK": 32, "constant TILE": 8, "constant x\ny": 1, "constant TEXT": "4", "ms": 1.0}
    found, path = asdict(replace(leave_out("tune", "", SYSTEM), figures=figures)), tmp_path / "gpu.sizes.json"
    said = the_command().constants_found(found, path)
    assert said.splitlines()[-2:] == ["LEAST_BLOCK = 32", "TILE = 8"] and "found by tune" in said
    kept = json.loads(path.read_text())
    assert kept == {"constants": {"LEAST_BLOCK": 32, "TILE": 8}, "system": SYSTEM, "is_rehearsal": False}
    said = the_command().constants_found({**found, "system": {"problem": "none"}}, path)
    assert all(line.startswith("#") for line in said.strip().splitlines()), "a rehearsal's times mean nothing"
    assert json.loads(path.read_text())["is_rehearsal"]


def test_the_figures_of_a_step_asked_for_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    found = replace(leave_out("facts", "", SYSTEM), ended="done", figures={"peak_gb": 1 / 3, "cuda": "13", "j": None})
    command = the_command()
    command.report(found)
    assert capsys.readouterr().err == "facts: done, 0 s\n"
    command.report(found, has_figures=True)
    assert capsys.readouterr().err == "facts: done, 0 s\n  peak_gb: 0.333333\n  cuda: 13\n  j: not known\n"


def test_children_share_compiled_kernels_below_the_build_folder(tmp_path: Path) -> None:
    assert python_environment(ROOT, tmp_path / "site", {})["TRITON_CACHE_DIR"] == str(tmp_path / "kernels")
    chosen = python_environment(ROOT, tmp_path / "site", {"TRITON_CACHE_DIR": "/mine"})
    assert chosen["TRITON_CACHE_DIR"] == "/mine"


def test_children_import_the_checkout_before_all_else(tmp_path: Path) -> None:
    environ = python_environment(ROOT, tmp_path / "site", {"PYTHONPATH": "/elsewhere"})
    assert environ["PYTHONPATH"].split(os.pathsep) == [
        str(ROOT),
        str(tmp_path / "site"),
        str(ROOT / "tests" / "builders"),
        "/elsewhere",
    ]


@pytest.mark.slow
def test_the_command_names_an_unknown_step_and_joins_files(tmp_path: Path) -> None:
    """By a Python that needs no package for it."""

    def command(*arguments: object) -> "subprocess.CompletedProcess[str]":
        words = [sys.executable, "-S", str(ROOT / "tests" / "gpu"), *map(str, arguments)]
        return subprocess.run(words, capture_output=True, text=True, timeout=HANG_S, check=False)

    done = command("thruput")
    assert done.returncode == 2 and "no step 'thruput': choose from facts, tests" in done.stderr
    first, second, joined = (tmp_path / name for name in ("a.json", "b.json", "c.json"))
    write_results(first, {"throughput": step("judge('proved')"), "run": asdict(leave_out("run", "later", SYSTEM))})
    write_results(second, {"throughput": step("judge('disproved')")})
    done = command("--table", first, second, "--out", joined)
    assert done.returncode == 0 and "0 proved, 1 disproved, 14 not run of 15 claims" in done.stdout
    assert list(read_results(joined)) == ["throughput", "run"]
    assert command("--table", joined, "--readme").stdout.startswith("Run on Emulated")
    first.write_text("{")
    done = command("--table", first)
    assert (done.returncode, done.stdout) == (2, "") and done.stderr.startswith("Error: ")
