"""Choose the benchmark definition and the MLPerf round by which a log is judged."""

from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path

from rules.benchmarks.loader import (
    Benchmark,
    list_versions,
    load_benchmark,
    shipped_names,
    shipped_twin,
    shipped_versions,
)
from rules.errors import DefinitionError
from rules.logs import keys
from rules.logs.log import RunLog, as_whole

OFFICIAL_ROUNDS = ("0.6", "0.7", "1.0", "1.1", "2.0", "2.1", "3.0", "3.1", "4.0", "4.1", "5.0", "5.1", "6.0", "6.1")

_PUBLISHED = {
    "0.6": date(2019, 7, 10),  # mlperf.org/training-results-0-6
    "0.7": date(2020, 7, 29),  # mlperf.org/training-results-0-7
    "1.0": date(2021, 6, 30),  # in June (a copy of the press release), reported on 1 July
    "1.1": date(2021, 12, 1),  # reported that day (EE Times)
    "2.0": date(2022, 6, 29),  # 22 June was planned (mlcommons/policies, submission_rules.adoc); reported by 30 June
    "2.1": date(2022, 11, 9),  # mlcommons/policies, submission_rules.adoc; reported that day (Forbes)
    "3.0": date(2023, 6, 27),  # reported on 26 June, Pacific time (EE Times)
    "3.1": date(2023, 11, 8),  # reported that day
    "4.0": date(2024, 6, 12),  # reported that day (Forbes)
    "4.1": date(2024, 11, 13),  # mlcommons.org/2024/11; reported by 15 November
    "5.0": date(2025, 6, 4),  # MLCommons' press release
    "5.1": date(2025, 11, 12),  # mlcommons/policies, submission_rules.adoc; MLCommons' press release
    "6.0": date(2026, 6, 16),  # mlcommons/policies, submission_rules.adoc; mlcommons.org/2026/06
}
"""Publication date of each MLPerf round's results, with sources. A run made after this date does not belong to the
round.

For 1.0, 2.0, 3.0 and 4.1 no source was found that names the day; the comment on the round's line states what is known
instead. The exact day does not matter, since no round takes logs in the month before publication (round 2.1: none
after 14 October; round 6.0: none after 15 May).
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedBenchmark:
    """Benchmark and version that a log names. The name is the value in the log, of whatever type; the version is None
    if the log states none."""

    name: object
    version: int | None = None


def named_in(log: RunLog) -> NamedBenchmark:
    """Return the benchmark and the version that a log names. Logs state the version as a number, or by the digest of
    a shipped definition."""
    name = log.value(keys.SUBMISSION_BENCHMARK)
    version = as_whole(log.value(keys.BENCHMARK_VERSION))
    if version is None and isinstance(name, str):
        digest = log.value(keys.DEFINITION_SHA256)
        version = next((v.version for v in shipped_versions(name) if v.definition_sha256 == digest), None)
    return NamedBenchmark(name=name, version=version)


def find_definition(
    named: NamedBenchmark, benchmark_file: str | Path | None, beside: Path | None
) -> Benchmark | None:
    """Return the definition of the benchmark that a log names; None if the benchmark has no definition.

    - For the name of a shipped benchmark, a shipped definition: of the version that the log states, else of the
      version in `benchmark_file`, else of the version in the file `beside` the log, else the current one. None if the
      stated version is not shipped.
    - For any other name, the definition in `benchmark_file`, else the definition in the file `beside` the log if that
      has the log's name.

    A file `beside` the log that cannot be loaded is ignored. Raises DefinitionError if `benchmark_file` cannot be
    loaded, or if it has the name of a shipped benchmark but other content.
    """
    given = load_benchmark(benchmark_file) if benchmark_file is not None else None
    if given is not None and given.name in shipped_names() and shipped_twin(given) is None:
        raise DefinitionError(
            f"{benchmark_file}: takes the name of the shipped benchmark {given.name!r} with other content (version "
            f"{given.version}; here: {list_versions(given.name)}). Give it another name (benchmark.name)."
        )
    if isinstance(named.name, str) and (versions := shipped_versions(named.name)):
        if named.version is not None:
            return next((known for known in versions if known.version == named.version), None)
        copy = given if given is not None and given.name == named.name else _load_copy(beside, named.name)
        return (shipped_twin(copy) if copy is not None else None) or versions[-1]
    return given if given is not None else _load_copy(beside, named.name)


def _load_copy(path: Path | None, name: object) -> Benchmark | None:
    """Return the benchmark definition stored beside the results, where it can be loaded and has the benchmark's name;
    else None."""
    if path is None:
        return None
    try:
        copy = load_benchmark(path)
    except DefinitionError:
        return None
    return copy if copy.name == name else None


def named_round(asked: str) -> str:
    """Return the official MLPerf round that a user names. Raises DefinitionError where there is none."""
    wanted = asked.removeprefix("v").removesuffix(".0") if asked.count(".") == 2 else asked.removeprefix("v")
    if wanted not in OFFICIAL_ROUNDS:
        raise DefinitionError(f"unknown ruleset {asked!r}. Known: {', '.join(OFFICIAL_ROUNDS)}.")
    return wanted


def open_round(benchmark: Benchmark, day: date) -> str | None:
    """Return the first of a benchmark's MLPerf rounds whose results were not yet published on a day; None where the
    results of all its rounds were published."""
    return next((name for name in benchmark.rounds if day <= _PUBLISHED.get(name, date.max)), None)


def infer_round(
    benchmark: Benchmark | None, tree_round: str | None, asked: str | None = None, day: date | None = None
) -> str | None:
    """Return the MLPerf round whose rules apply to runs. It is the round that the user asked for; else the round that
    directories name; else the round that was open on the day of the runs; else the benchmark's last round.

    If the user asked for no round, return None for a benchmark that is not MLPerf's, which has versions instead of
    rounds, and for an undefined benchmark if no directory names a round. Raises DefinitionError if the round that
    the user asked for does not exist, or did not have the benchmark.
    """
    if asked is not None:
        wanted = named_round(asked)
        if benchmark is not None and not benchmark.rounds:
            raise DefinitionError(
                f"{benchmark.name} is judged by its own definition; --ruleset is for official names."
            )
        if benchmark is not None and wanted not in benchmark.rounds:
            raise DefinitionError(
                f"ruleset {wanted} has no benchmark {benchmark.name!r}; it was in {', '.join(benchmark.rounds)}."
            )
        return wanted
    if benchmark is None or not benchmark.rounds:
        return tree_round if benchmark is None else None
    if tree_round in benchmark.rounds:
        return tree_round
    return (open_round(benchmark, day) if day is not None else None) or benchmark.rounds[-1]


def may_log_trained_samples(benchmark: Benchmark) -> bool:
    """Return whether train_samples in an official log of a round may state the number of samples trained, and not the
    dataset's size. This is so before round 3.0, where the rules demand nothing of the value (compliance_checker
    training_2.1.0/common.yaml)."""
    return benchmark.status == "official" and is_before(benchmark.rounds[-1], "3.0")


def is_before(round_name: str | None, other: str) -> bool:
    """Return whether `round_name` is known and is an earlier MLPerf round than `other`."""
    return round_name is not None and _number(round_name) < _number(other)


@cache
def _number(name: str) -> tuple[int, ...]:
    return tuple(map(int, name.split(".")))


def max_init_s(division: str, round_name: str | None) -> float:
    """Return the maximum length of a run's initialisation in seconds; initialisation is not part of the measured
    time. It is 20 minutes in round 0.7, 4 hours in the Open division from round 2.0 on, and 30 minutes otherwise
    (compliance rules of each round, training_*/common.yaml)."""
    if round_name == "0.7":
        return 20 * 60
    return 4 * 60 * 60 if division == keys.OPEN and not is_before(round_name, "2.0") else 30 * 60
