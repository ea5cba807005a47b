"""What must hold of any input: a verdict within a second of work, no exception, safe to print, true to the schema."""

import contextlib
import json
import resource
import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
from log_builder import parse_lines
from msgspec import to_builtins

from reports.parts.score import score_sets
from reports.render.markdown import render_markdown
from reports.render.terminal import render_terminal
from reports.views.verdict import MAX_PLACES, verdict_blocks, verdicts_csv
from rules.benchmarks.loader import load_benchmark
from rules.checks.rule import judge
from rules.checks.subject import make_log_subject
from rules.checks.verdict import Verdict
from rules.errors import DefinitionError, InputError
from rules.judge.checker import check_paths
from rules.judge.document import VerdictDocument, verdicts_to_json
from rules.judge.families import RULES
from rules.judge.sets import check_log, judge_set
from rules.records.codec import json_schema
from rules.scoring.results import read_run_result
from rules.tree.inventory import find_result_sets
from rules.tree.system_desc import read_system_desc

MAX_CPU_S = 1.0
MAX_GROWTH_BYTES = 256 << 20
JUDGED_BY = (
    ("dlrm_tiny", None),
    ("dlrm_dcnv2", "6.0"),
    ("dlrm", "0.7"),
    ("dlrm", "2.1"),
    ("dlrmv4", "6.1"),
    (None, None),
)


class TooSlowError(AssertionError):
    """One input took more than MAX_CPU_S of processor time."""


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """End what works for more than MAX_CPU_S of this process's own time; waiting for the machine does not count."""

    def too_slow(signum: int, frame: object) -> None:
        raise TooSlowError(f"more than {MAX_CPU_S} s of processor time")

    before = signal.signal(signal.SIGVTALRM, too_slow)
    signal.setitimer(signal.ITIMER_VIRTUAL, MAX_CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@contextlib.contextmanager
def bounded_memory() -> Iterator[None]:
    """The peak of resident memory grows by no more than MAX_GROWTH_BYTES over all inputs inside."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown <= MAX_GROWTH_BYTES, f"{grown} bytes more"


def judge_log_bytes(data: bytes, by: int) -> None:
    """Parse and judge one log in memory by one of JUDGED_BY."""
    log = parse_lines(data, "result_0.txt")
    name, round_name = JUDGED_BY[by % len(JUDGED_BY)]
    benchmark = load_cached(name) if name is not None else None
    for outcome in judge(RULES["log"], make_log_subject(log, benchmark, round_name), log.path):
        for finding in outcome.findings:
            for shown in (finding.path, finding.message, finding.found, finding.expected):
                assert shown is None or shown.isprintable(), finding
    read_run_result(log, benchmark)


@cache
def load_cached(name: str) -> Any:
    return load_benchmark(name)


def judge_log_file(data: bytes, folder: Path) -> None:
    """As `check` does it, through a file, to every form of its output."""
    path = folder / "result_0.txt"
    path.write_bytes(data)
    assert_can_be_shown((check_log(path),))


def judge_system_bytes(data: bytes, folder: Path) -> None:
    path = folder / "system.json"
    path.write_bytes(data)
    desc = read_system_desc(path)
    assert (desc.fields is None) == (desc.error is not None)
    assert desc.error is None or desc.error.isprintable()
    assert all(one.isprintable() for one in desc.oddities)


def judge_tree(root: Path) -> None:
    """Judge and score whatever a tree is; a tree that holds nothing to judge is an InputError that says so."""
    try:
        assert_can_be_shown(check_paths([root], second_opinion=False))
        scores = score_sets([judge_set(one) for one in find_result_sets(root)])
        json.dumps(to_builtins(scores))
    except (InputError, DefinitionError) as error:
        assert len(str(error)) > 10


def assert_can_be_shown(verdicts: tuple[Verdict, ...]) -> None:
    document = json.loads(json.dumps(verdicts_to_json(verdicts)))
    _validator().validate(document)
    few, every = verdict_blocks(verdicts, max_places=MAX_PLACES), verdict_blocks(verdicts)
    for text in (render_terminal(few), render_terminal(every), render_markdown(every), verdicts_csv(verdicts)):
        lines = text.replace("\r\n", "\n").split("\n")
        assert all(line.isprintable() for line in lines), [line for line in lines if not line.isprintable()][:3]


@cache
def _validator() -> Any:
    schema = json_schema(VerdictDocument)
    return jsonschema.Draft202012Validator(schema)
