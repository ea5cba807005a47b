"""Which round's rules judge a log, and which results may be compared (training_rules.adoc, compatibility table)."""

from functools import cache

from rules.benchmarks.loader import Benchmark
from rules.errors import DefinitionError
from rules.scoring.results import RunResult

OFFICIAL_ROUNDS = ("0.6", "0.7", "1.0", "1.1", "2.0", "2.1", "3.0", "3.1", "4.0", "4.1", "5.0", "5.1", "6.0", "6.1")


def named_round(asked: str) -> str:
    """The official round that a user names. Raises DefinitionError where there is none."""
    wanted = asked.removeprefix("v").removesuffix(".0") if asked.count(".") == 2 else asked.removeprefix("v")
    if wanted not in OFFICIAL_ROUNDS:
        raise DefinitionError(f"unknown ruleset {asked!r}. Known: {', '.join(OFFICIAL_ROUNDS)}.")
    return wanted


def infer_round(benchmark: Benchmark | None, tree_round: str | None, asked: str | None = None) -> str | None:
    """The round whose rules apply: the one asked for, else the tree's, else the benchmark's last.

    None for benchmarks of one's own, which have a version instead of rounds, and where nothing is known.
    Raises DefinitionError when the round asked for does not exist or had no such benchmark.
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
    return tree_round if tree_round in benchmark.rounds else benchmark.rounds[-1]


@cache
def round_number(name: str) -> tuple[int, ...]:
    return tuple(int(part) for part in name.split("."))


def why_not_comparable(a: RunResult, b: RunResult) -> str | None:
    """Why two runs' results may not be compared, or None.

    Other benchmark, version, target, definition, dataset or division is another problem. What one side does
    not say (published logs carry no digests) does not separate them. Nor does a dropped last partial batch,
    which the rules allow: some submitters leave it out of train_samples.
    """
    for what, one, other in (
        ("benchmark", a.benchmark, b.benchmark),
        ("benchmark version", a.benchmark_version, b.benchmark_version),
        ("quality target", a.quality_target, b.quality_target),
        ("definition", a.definition_sha256, b.definition_sha256),
        ("dataset", a.dataset_sha256, b.dataset_sha256),
        ("training samples", *_whole_batches(a, b)),
        ("evaluation samples", a.eval_samples, b.eval_samples),
        ("division", a.division, b.division),
    ):
        if one is not None and other is not None and one != other:
            return f"different {what}: {one} and {other}"
    if a.benchmark is None or b.benchmark is None:
        return "a log does not name its benchmark"
    return None


def _whole_batches(a: RunResult, b: RunResult) -> tuple[int | None, int | None]:
    """Both counts of training samples; the same count twice where less than one batch lies between them."""
    one, other = a.train_samples, b.train_samples
    batch_size = max(a.global_batch_size or 0, b.global_batch_size or 0)
    same = one is not None and other is not None and abs(one - other) < batch_size
    return (one, one) if same else (one, other)
