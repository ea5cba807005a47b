"""Rank systems by the modelled time or cost of training, with the model's error on systems where steps were
measured."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from harness.config.run_config import RunConfig
from reports.comparison.sources import read_results
from reports.results.reference_systems import open_system, require_references
from reports.results.result import Result
from reports.statistics.intervals import log_summary
from reports.text.formatting import names, plural
from rules.records.codec import Damage, decode
from rules.records.run_set import RunSetRecord

_THREADS = "runtime.threads"


def read_known_steps(references: Iterable[str], config: RunConfig) -> dict[str, float]:
    """Return the measured seconds of a training step with the configuration `config`, as a dict from reference system
    to seconds. References without a measurement of this configuration are left out; the number of threads may differ.
    If a reference has measured both throughput and runs to the target, throughput is used.

    Raises ReferenceSystemError or InputError if a reference cannot be read as a system, or if its run set may not be
    used as a reference.
    """
    values = {key: given["value"] for key, given in config.values().items() if key != _THREADS}
    found = dict[str, float]()
    for given in references:
        opened = open_system(given)
        for kind in ("training", "throughput"):  # throughput overwrites runs
            for place in sorted(opened.folder.glob("*/extra/run_set.json")):
                record = decode(place, RunSetRecord)
                if not isinstance(record, Damage) and record.kind == kind and _is_of(record, config, values):
                    results = read_results(place.parents[1])
                    require_references(results)
                    if (rate := _rate_of(results)) is not None:
                        found[opened.record.name] = config.workload.train.global_batch_size / rate
    return found


def _is_of(record: RunSetRecord, config: RunConfig, values: Mapping[str, object]) -> bool:
    """Return whether a run set has the configuration `config`; keys that only one of the two has are ignored."""
    if record.benchmark.definition_sha256 != config.benchmark.definition_sha256:
        return False
    said = {key: given.value for key, given in record.config.items() if key in values}
    return bool(said) and all(_plain(values[key]) == _plain(value) for key, value in said.items())


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def _rate_of(results: Sequence[Result]) -> float | None:
    (result,) = results
    if result.measured is None:
        summary = result.summary("throughput_samples_per_s")
    else:
        summary = log_summary(result.measured_values)
    return None if summary is None else summary.geometric_mean


def describe_ranking(order: Sequence[str], by: str, unfit: Sequence[str] = ()) -> str:
    """Return a sentence on the order of ranked systems, the best first. It also names the systems without a rank, on
    which a run does not fit into memory."""
    left = f" Not ranked, since no run fits there: {names(list(unfit), 12)}." if unfit else ""
    return (f"By modelled {by}, the least first: {names(list(order), 12)}." if order else "") + left.removeprefix(
        "" if order else " "
    )


def describe_error(modelled_s: Mapping[str, float], known_s: Mapping[str, float]) -> str:
    """Return a sentence on how far modelled step times are off, on the systems whose step time was also measured. The
    sentence also says how many pairs of these systems the model puts into the order that was measured.

    Both arguments are dicts from system to seconds of a training step; systems in only one of them are ignored.
    """
    both = {name: (modelled_s[name], known_s[name]) for name in modelled_s if name in known_s}
    if not both:
        return "The model's error is not known: this configuration was measured on none of the ranked systems."
    ratios = [modelled / known for modelled, known in both.values()]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    text = f"On the {plural(len(both), 'system')} where this configuration was measured, the model takes "
    text += f"{min(ratios):.2f} to {max(ratios):.2f} of the measured step (geometric mean {mean:.2f})"
    pairs = list(_pairs(both))
    if not pairs:
        return f"{text}; one system tells nothing about the order of systems."
    return f"{text}, and orders {sum(pairs)} of {plural(len(pairs), 'pair')} as measured."


def _pairs(both: Mapping[str, tuple[float, float]]) -> Iterator[bool]:
    for (modelled, known), (other_modelled, other_known) in combinations(both.values(), 2):
        yield (modelled < other_modelled) == (known < other_known)
