"""Judge whether the benchmark that a log names is known, and whether the run used the benchmark's definition."""

from collections.abc import Iterator

from rules.benchmarks.loader import guess_meant_name, list_versions, shipped_versions
from rules.checks.rule import Problem, rule
from rules.checks.subject import LogSubject
from rules.logs import keys
from rules.logs.text import show


@rule(
    "ST110",
    "the definition of the log's benchmark must be known",
    source='training_rules.adoc, "Benchmarks"',
    remedy="Give the definition with --benchmark FILE.toml, or keep extra/definition.toml beside the results.",
    requires={"ST101"},
)
def benchmark_is_known(subject: LogSubject) -> Iterator[Problem]:
    """The log's benchmark has a definition, which rules on hyperparameters, cadence and quality need. Without a
    definition only the log's structure is judged."""
    line = subject.log.first(keys.SUBMISSION_BENCHMARK)
    if line is None:
        return
    name, version = line.value, subject.log.first(keys.BENCHMARK_VERSION)
    if subject.benchmark is None and isinstance(name, str) and version is not None and shipped_versions(name):
        yield Problem(
            f"this version of {name} is not known here",
            version,
            found=show(version.value),
            expected=f"version {list_versions(name)}",
            remedy="Update dlrmbench, if the log is of a newer one.",
        )
    elif subject.benchmark is None:
        near = guess_meant_name(name)
        yield Problem(
            "no definition of this benchmark" + (f"; did you mean {near}?" if near else ""),
            line,
            found=show(line.value),
            expected="a benchmark of 'dlrmbench list'",
            remedy=f"Let runs log {near}, letter by letter and without blanks, if that is meant." if near else None,
        )
    elif line.value != subject.benchmark.name:
        yield Problem(
            "the log is of another benchmark than the definition that judges it",
            line,
            found=show(line.value),
            expected=subject.benchmark.name,
        )


@rule(
    "ST111",
    "the log must be of the benchmark definition by which it is judged",
    source="dlrmbench: benchmarks are versioned, their definitions have digests",
    remedy="Judge the log by the definition of its run (--benchmark FILE.toml), or run again with this definition.",
    requires={"ST101", "ST110"},
    reads=(keys.SUBMISSION_BENCHMARK, keys.BENCHMARK_VERSION),
)
def definition_matches(subject: LogSubject) -> Iterator[Problem]:
    """benchmark_version, definition_sha256, quality_target, quality_metric and dataset_sha256 have the definition's
    values. If one of them differs, the log's training problem is another one, and results of different problems are
    never compared."""
    benchmark, log = subject.benchmark, subject.log
    if benchmark is None:
        return
    expected: dict[str, object] = {
        keys.BENCHMARK_VERSION: benchmark.version,
        keys.DEFINITION_SHA256: benchmark.definition_sha256,
        keys.QUALITY_TARGET: benchmark.quality.target,
        keys.QUALITY_METRIC: benchmark.quality.metric,
    }
    pinned = benchmark.sections.get("data", {}).get("sha256")
    if isinstance(pinned, str):
        expected[keys.DATASET_SHA256] = pinned
    for key, value in expected.items():
        for line in log.all(key):
            if line.value != value or isinstance(line.value, bool):
                yield Problem(
                    f"{key} is not that of the definition {benchmark.name} version {benchmark.version}",
                    line,
                    found=show(line.value),
                    expected=show(value),
                )


@rule(
    "ST115",
    "the log's benchmark must be one of the round that the user names",
    source='training_rules.adoc, "Benchmarks": the latest version available of each',
    remedy="Judge this log by itself, without --ruleset or with a round that had its benchmark.",
    requires={"ST101"},
)
def benchmark_of_round(subject: LogSubject) -> Iterator[Problem]:
    """Where several logs are judged by a round that the user names, the benchmark of each log was part of that round.
    A log of another benchmark is judged by the round that would apply without the user's choice."""
    if subject.foreign_round is None or subject.benchmark is None:
        return
    rounds = ", ".join(subject.benchmark.rounds)
    line = subject.log.first(keys.SUBMISSION_BENCHMARK)
    yield Problem(
        f"ruleset {subject.foreign_round} has no benchmark {subject.benchmark.name}",
        line,
        found=show(subject.benchmark.name),
        expected=f"a benchmark of round {subject.foreign_round}; this one "
        + (f"was in {rounds}" if rounds else "has its own rules"),
    )
