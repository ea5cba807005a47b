"""Judge the files in a set's directory: names and numbers of logs, files that belong to no log, and this harness's
files."""

import re
from collections import Counter
from collections.abc import Iterator

from rules.benchmarks.loader import load_benchmark, shipped_names
from rules.checks.result_set.records import damage_problem
from rules.checks.rule import Problem, rule
from rules.checks.subject import SetSubject
from rules.errors import DefinitionError
from rules.logs.text import show
from rules.records.codec import Damage
from rules.tree.result_set import PARAMETERS

_LAYOUT = 'submission_rules.adoc, "Directory structure, Training": result_<i>.txt'
_BELONGING = ("scaling.json", PARAMETERS)
_LOG_LIKE = (".txt", ".log", ".out")
_LAST_NUMBER = re.compile(r"(\d{1,18})(?!.*\d)")
_MAX_COUNT = 1000
"""Largest number in a log's name that counts as a run's index; larger ones are job numbers, whose gaps mean
nothing."""


@rule(
    "RS108",
    "every log must be a file of the tree that can be read",
    source=_LAYOUT,
    remedy="Replace the link or directory by the log itself.",
)
def logs_can_be_read(subject: SetSubject) -> Iterator[Problem]:
    """Everything named result_*.txt is a file in the tree: no broken link, no link that leads out, no directory.
    Links of these kinds are not followed, so the set is judged without their logs."""
    for path, reason in subject.result_set.unread:
        yield Problem(reason, path, expected="a file")


@rule(
    "RS109",
    "a result directory must hold only files that belong there",
    source=f"{_LAYOUT}; mlperf_logging package_checker: unknown files in result directory",
    remedy="Rename logs to result_<i>.txt; move everything else elsewhere.",
    severity="warning",
)
def only_logs(subject: SetSubject) -> Iterator[Problem]:
    """A result directory holds only result_<i>.txt, power/, scaling.json and package_checker_params. If the set is
    not in a tree with directories for system and benchmark, other files are allowed; other text files are reported
    (info), since they may be logs with a wrong name."""
    in_tree = subject.result_set.system is not None
    names = [
        name for name in subject.result_set.strays if name not in _BELONGING and (in_tree or name.endswith(_LOG_LIKE))
    ]
    if names:
        more = ", …" if len(names) > 3 else ""
        yield Problem(
            "names that belong to no log",
            found=", ".join(show(name) for name in names[:3]) + more,
            expected="result_<i>.txt",
            severity=None if in_tree else "info",
        )


@rule(
    "RS110",
    "the logs' numbers must have no gap and occur once each",
    source=_LAYOUT,
    remedy="Number the logs 0 to N - 1. If runs were left out, say which and why: choosing runs by their results is"
    " forbidden. If more than N runs were made, the N consecutive runs with the median score count.",
    severity="warning",
)
def numbers_have_no_gap(subject: SetSubject) -> Iterator[Problem]:
    """Numbers of runs, the last number in each log's name, go from 0 or 1 without a gap, and none occurs twice. A run
    may have been left out at a gap, or below numbers that begin above 1. Job numbers mean nothing and are ignored."""
    found = [match for path in subject.result_set.logs if (match := _LAST_NUMBER.search(path.stem))]
    numbers = [int(match[1]) for match in found]
    if len(numbers) < 2 or max(numbers) > _MAX_COUNT:
        return
    twice = sorted(number for number, count in Counter(numbers).items() if count > 1)
    if twice:
        yield Problem("numbers occur more than once", found=_some(twice), expected="a number of its own for each log")
    first, last = min(numbers), max(numbers)
    if missing := sorted(set(range(first, last)) - set(numbers)):
        yield Problem(
            "numbers are missing", found=f"no {_some(missing)}", expected=f"every one from {first} to {last}"
        )
    if first > 1:
        expected = f"0 to {len(found) - 1}"
        yield Problem("the numbers do not begin at 0 or 1", found=f"{first} to {last}", expected=expected)


def _some(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:10])) + (", …" if len(numbers) > 10 else "")


def _is_run_set(subject: SetSubject) -> str | None:
    return None if subject.result_set.root is not None else "the set is no run set of this harness"


@rule(
    "RS111",
    "extra/definition.toml must be the definition that the runs used",
    source="a rule of dlrmbench, not of MLPerf, based on the definition's copy beside every set",
    remedy="Restore extra/definition.toml, or run again.",
    applies=_is_run_set,
)
def definition_is_unchanged(subject: SetSubject) -> Iterator[Problem]:
    """extra/definition.toml can be loaded. For a shipped benchmark it equals the shipped definition of the version
    that the logs state. The set is judged by the shipped definition in any case, so a copy that is missing or cannot
    be loaded is only a warning."""
    path = subject.result_set.definition_file
    if path is None:
        yield Problem("extra/definition.toml is missing", severity="warning")
        return
    try:
        copy = load_benchmark(path)
    except DefinitionError as error:
        yield Problem("cannot be loaded", path, found=str(error)[:200], severity="warning")
        return
    shipped = subject.benchmark
    if shipped is None or copy.name != shipped.name or copy.name not in shipped_names():
        return
    if copy.definition_sha256 != shipped.definition_sha256:
        yield Problem(
            f"not the shipped definition of {copy.name}",
            path,
            found=f"version {copy.version}, digest {copy.definition_sha256[:12]}…",
            expected=f"version {shipped.version}, digest {shipped.definition_sha256[:12]}…",
        )


@rule(
    "RS112",
    "the set's extra/run_set.json must be complete and readable",
    source="a rule of dlrmbench, not of MLPerf, based on extra/run_set.json of every set",
    remedy="Restore extra/run_set.json; without it nobody knows how the runs were configured.",
    severity="warning",
    applies=_is_run_set,
)
def record_is_readable(subject: SetSubject) -> Iterator[Problem]:
    """extra/run_set.json, where it exists, is a JSON object of at most 16 MiB. It has every member that this harness
    writes; 'dlrmbench schema run_set' prints the members' types and bounds."""
    record = subject.files.run_set
    if isinstance(record, Damage):
        yield damage_problem(record)
