"""List the mllog keys that a log must hold: how often each must occur, and the type of its value.

Official keys are those that the compliance checker's YAML files of each round require (mlperf_logging
compliance_checker/training_*/{common,closed_common,closed_dlrm*}.yaml). Own keys are this harness's.
"""

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, cast

from rules.benchmarks.constraints import Constraint
from rules.checks.subject import LogSubject
from rules.logs import keys
from rules.logs.log import as_number, as_whole
from rules.records.metrics import ROC_AUC

START, END, POINT = "INTERVAL_START", "INTERVAL_END", "POINT_IN_TIME"
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
MAX_WHOLE = 2**63 - 1


class ValueKind(NamedTuple):
    """Type of the value of an mllog key: its name in messages, and a function that tells whether a value is of the
    type."""

    name: str
    holds: Callable[[Any], bool]


def _is_throughput(value: Any) -> bool:
    number = as_number(value.get("throughput")) if isinstance(value, dict) else None
    return number is not None and number > 0


_ANY_VALUE = ValueKind("any value or null", lambda value: True)
NOTHING = ValueKind("null", lambda value: value is None)
FLAG = ValueKind("true or false", lambda value: isinstance(value, bool))
TEXT = ValueKind("a string that is not empty", lambda value: isinstance(value, str) and bool(value.strip()))
DIVISION = ValueKind("'closed' or 'open'", lambda value: value in (keys.CLOSED, keys.OPEN))
STATUSES = ("onprem", "cloud", "research", "preview")
STATUS = ValueKind(f"one of {', '.join(STATUSES)}", lambda value: value in STATUSES)
WHOLE = ValueKind("a whole number of at least 0", lambda value: type(value) is int and 0 <= value <= MAX_WHOLE)
COUNT = ValueKind("a whole number of at least 1", lambda value: type(value) is int and 1 <= value <= MAX_WHOLE)
POSITIVE = ValueKind("a number above 0", lambda value: (as_number(value) or 0) > 0)
NUMBER = ValueKind("a number", lambda value: as_number(value) is not None)
ANY_WHOLE = ValueKind("a whole number", lambda value: type(value) is int)
SOME_WHOLE = ValueKind("a whole number", lambda value: as_whole(value) is not None)
SOME_COUNT = ValueKind("a count of at least 1", lambda value: (as_whole(value) or 0) >= 1)
DIGEST = ValueKind("64 hexadecimal digits", lambda value: isinstance(value, str) and bool(_DIGEST.match(value)))
QUALITY = ValueKind("a number from 0 to 1", lambda value: 0 <= (-1 if (n := as_number(value)) is None else n) <= 1)
BELOW_1 = ValueKind("a number from 0 to below 1", lambda value: QUALITY.holds(value) and as_number(value) != 1)
"""Type of the qualities in logs of DLRM in rounds 0.7 to 2.1 (training_2.1.0/closed_dlrm.yaml): below 1, which
qualities of later benchmarks may reach."""
THROUGHPUT = ValueKind('{"throughput": a number above 0}', _is_throughput)

_MAX_DIGITS = 400


def seed_number(value: Any) -> float | None:
    """Return a seed's value as a number, even from a string that Python's int() converts; None for anything else."""
    if isinstance(value, str) and len(value) <= _MAX_DIGITS:
        try:
            return as_number(int(value))
        except ValueError:
            return None
    number = None if isinstance(value, bool) else as_number(value)
    return None if number is None else float(int(number))


PRECISIONS = (
    "fp64", "fp32", "tf32", "fp16", "fp8", "mxfp6", "nvfp4", "mxfp4", "bfloat16", "Graphcore FLOAT 16.16", "int8",
    "uint8", "int4", "uint4",
)  # fmt: skip
"""Numerical formats that a log may state as lowest_numerical_precision_in_* (common.yaml of 6.0 and 6.1; mxfp6 from
6.1 on)."""
PRECISION_6_0 = ValueKind("a known precision", lambda value: value in PRECISIONS and value != "mxfp6")
PRECISION_6_1 = ValueKind(f"one of {', '.join(PRECISIONS)}", lambda value: value in PRECISIONS)

EVENT_TYPES = {
    key: START if key.endswith("_start") else END
    for key in (
        keys.INIT_START, keys.INIT_STOP, keys.RUN_START, keys.RUN_STOP, keys.EPOCH_START, keys.EPOCH_STOP,
        keys.BLOCK_START, keys.BLOCK_STOP, keys.EVAL_START, keys.EVAL_STOP,
    )
}  # fmt: skip
"""Event types (INTERVAL_START or INTERVAL_END) of the keys that bound intervals; every other key is a
POINT_IN_TIME."""

_OWN_SETTINGS: dict[str, ValueKind] = {
    keys.SUBMISSION_BENCHMARK: TEXT,
    keys.SUBMISSION_DIVISION: DIVISION,
    keys.SUBMISSION_ORG: TEXT,
    keys.SUBMISSION_PLATFORM: TEXT,
    keys.SUBMISSION_STATUS: STATUS,
    keys.BENCHMARK_VERSION: COUNT,
    keys.DEFINITION_SHA256: DIGEST,
    keys.QUALITY_TARGET: QUALITY,
    keys.SEED: WHOLE,
    keys.IMPLEMENTATION: TEXT,
    keys.PRECISION: TEXT,
    keys.NUM_THREADS: COUNT,
    keys.WORLD_SIZE: COUNT,
    keys.GLOBAL_BATCH_SIZE: COUNT,
    keys.GRADIENT_ACCUMULATION_STEPS: COUNT,
    keys.TRAIN_SAMPLES: COUNT,
    keys.EVAL_SAMPLES: COUNT,
}
_OFFICIAL_ONCE: dict[str, ValueKind] = {
    keys.SUBMISSION_BENCHMARK: TEXT,
    keys.SUBMISSION_DIVISION: DIVISION,
    keys.TRAIN_SAMPLES: SOME_COUNT,
    keys.EVAL_SAMPLES: SOME_COUNT,
}
_PRECISION_KEYS = (
    keys.LOWEST_NUMERICAL_PRECISION_IN_LINEAR,
    keys.LOWEST_NUMERICAL_PRECISION_IN_ATTN,
    keys.LOWEST_NUMERICAL_PRECISION_IN_COMM,
)
_PARALLELISM_KEYS = (
    keys.TENSOR_PARALLELISM,
    keys.PIPELINE_PARALLELISM,
    keys.CONTEXT_PARALLELISM,
    keys.EXPERT_PARALLELISM,
    keys.MICRO_BATCH_SIZE,
)
EITHER_OR = (
    (keys.EPOCH_START, keys.BLOCK_START),
    (keys.EPOCH_STOP, keys.BLOCK_STOP),
    (keys.EVAL_START, keys.BLOCK_START),
    (keys.EVAL_STOP, keys.BLOCK_STOP),
)
"""Pairs of mllog keys: of each pair, a log must hold at least one (common.yaml, AT_LEAST_ONE_OR)."""
TENSORS_OF_DLRM = (
    "embeddings",
    *(f"bottom_mlp_dense{i}" for i in range(1, 4)),
    *(f"top_mlp_dense{i}" for i in range(1, 6)),
)
"""Weight tensors whose initialisation a log of the benchmark `dlrm` names exactly once from round 1.1 on
(closed_dlrm.yaml)."""


class RequiredKey(NamedTuple):
    """Requirement on an mllog key: the type of its value, and whether it occurs exactly once or at least once."""

    kind: ValueKind
    is_once: bool = True


def required_keys_of(subject: LogSubject) -> Mapping[str, RequiredKey]:
    """Return the requirement on each mllog key that this log must hold. Keys that a crash prevented from being logged
    are left out, and so are hyperparameters of the definition's optimizer where another optimizer trained."""
    return _keys_of(subject)[0]


def kinds_of(subject: LogSubject) -> Mapping[str, ValueKind]:
    """Return the type of each mllog key's value, including keys that a log need not hold."""
    return _keys_of(subject)[1]


def _keys_of(subject: LogSubject) -> tuple[Mapping[str, RequiredKey], Mapping[str, ValueKind]]:
    lost, has_evaluated = lost_in_crash(subject), not _ended_before_evaluating(subject)
    not_held = (*lost, *_keys_of_another_optimizer(subject))
    alike = ("keys", subject.is_ours, subject.is_closed, not_held, has_evaluated)
    if alike not in subject.known:
        required = _require_keys(subject, not_held, has_evaluated=has_evaluated)
        subject.known[alike] = required, _name_kinds(subject, required)
    return cast(tuple[Mapping[str, RequiredKey], Mapping[str, ValueKind]], subject.known[alike])


def _keys_of_another_optimizer(subject: LogSubject) -> tuple[str, ...]:
    """Return the hyperparameters of the definition's optimizer that a run of this harness need not log, because the
    run trained with another optimizer."""
    benchmark, log = subject.benchmark, subject.log
    of_name = None if benchmark is None else benchmark.closed.get(keys.OPT_NAME)
    if benchmark is None or of_name is None or not subject.is_ours or not log.all(keys.OPT_NAME):
        return ()
    if of_name.resolve(log.value).allows(log.value(keys.OPT_NAME)):
        return ()
    kept = (keys.OPT_NAME, keys.OPT_BASE_LEARNING_RATE)
    return tuple(key for key in benchmark.closed if "opt_" in key and key not in kept and not log.all(key))


def _require_keys(subject: LogSubject, not_held: Collection[str], *, has_evaluated: bool) -> dict[str, RequiredKey]:
    is_ours = subject.is_ours
    event = NOTHING if is_ours else _ANY_VALUE
    required = {key: RequiredKey(kind) for key, kind in _settings(subject).items()}
    required |= dict.fromkeys((keys.INIT_STOP, keys.RUN_START, keys.RUN_STOP), RequiredKey(event))
    required[keys.INIT_START] = RequiredKey(event, is_once=is_ours)
    required[keys.CACHE_CLEAR] = RequiredKey(FLAG if is_ours else _ANY_VALUE, is_once=is_ours)
    if has_evaluated:
        is_below_1 = subject.is_official and not subject.is_at_least("3.0")
        required[keys.EVAL_ACCURACY] = RequiredKey(BELOW_1 if is_below_1 else QUALITY, is_once=False)
    if is_ours or (subject.is_closed and subject.is_at_least("4.1")):  # seed_checker; training_policies#546
        required[keys.SEED] = RequiredKey(WHOLE if is_ours else ANY_WHOLE, is_once=is_ours)
    return {key: kind for key, kind in required.items() if key not in not_held}


_COURSE = (
    keys.INIT_START, keys.INIT_STOP, keys.RUN_START, keys.EPOCH_START, keys.EVAL_START, keys.EVAL_ACCURACY,
    keys.EVAL_STOP, keys.EPOCH_STOP, keys.RUN_STOP,
)  # fmt: skip
_LOGGED_LATE = (keys.TRAIN_SAMPLES, keys.EVAL_SAMPLES, keys.CACHE_CLEAR)
"""Keys that some implementations log only after a run has ended."""


def lost_in_crash(subject: LogSubject) -> tuple[str, ...]:
    """Return the mllog keys, run_stop among them, that a log lacks because its run crashed; none if it did not crash.

    A run crashed if its log has init_start, no run_stop and no evaluation that met the target. A key is lost in the
    crash if it belongs to a phase after the last phase in the log. Settings, and keys of earlier phases, are not lost
    but missing. In logs of this harness no key counts as lost, since an interrupted run is no result there.
    """
    log, benchmark = subject.log, subject.benchmark
    if subject.is_ours or benchmark is None or log.all(keys.RUN_STOP) or not log.all(keys.INIT_START):
        return ()
    if any((as_number(line.value) or 0.0) >= benchmark.quality.target for line in log.all(keys.EVAL_ACCURACY)):
        return ()
    reached = max(index for index, key in enumerate(_COURSE) if log.all(key))
    return tuple(key for key in (*_COURSE[reached + 1 :], *_LOGGED_LATE) if not log.all(key))


def _ended_before_evaluating(subject: LogSubject) -> bool:
    """Return whether a run of this harness ended because it diverged or ran out of time, which may happen before its
    first evaluation."""
    stop = subject.log.last(keys.RUN_STOP)
    return (
        subject.is_ours
        and stop is not None
        and stop.metadata.get(keys.STATUS) == keys.ABORTED
        and stop.metadata.get(keys.REASON) in ("not_finite", "timeout")
    )


def _name_kinds(subject: LogSubject, required: Mapping[str, RequiredKey]) -> dict[str, ValueKind]:
    kinds = {key: found.kind for key, found in required.items()}
    if subject.is_ours:
        events = (keys.BLOCK_START, keys.BLOCK_STOP, keys.EVAL_START, keys.EVAL_STOP)
        kinds |= dict.fromkeys(events, NOTHING) | {keys.TRACKED_STATS: THROUGHPUT}
        kinds.setdefault(keys.DATASET_SHA256, DIGEST)
    if subject.is_official and subject.is_at_least("6.0"):
        kinds = _disclosures(subject) | kinds
    return kinds


def _disclosures(subject: LogSubject) -> dict[str, ValueKind]:
    """Return the types of the keys on precision, parallelism and configuration, which logs may hold in round 6.0 and
    must hold from 6.1 on."""
    late = subject.is_at_least("6.1")
    return {
        **dict.fromkeys(_PRECISION_KEYS, PRECISION_6_1 if late else PRECISION_6_0),
        **dict.fromkeys(_PARALLELISM_KEYS, SOME_COUNT if late else SOME_WHOLE),
        keys.CONFIG_FILENAME: TEXT if late else _ANY_VALUE,
    }


def _settings(subject: LogSubject) -> dict[str, ValueKind]:
    settings = dict(_OWN_SETTINGS if subject.is_ours else _OFFICIAL_ONCE)
    if subject.round != "5.0":
        settings |= {keys.SUBMISSION_ORG: TEXT, keys.SUBMISSION_PLATFORM: TEXT}
    if subject.round is not None and not subject.is_at_least("4.1"):
        settings[keys.SUBMISSION_STATUS] = STATUS
    benchmark = subject.benchmark
    if benchmark is None:
        return settings
    if subject.is_ours and not str(benchmark.sections.get("data", {}).get("kind")).startswith("mlperf_"):
        settings[keys.DATASET_SHA256] = DIGEST
    if subject.is_ours and benchmark.quality.metric != ROC_AUC:
        settings[keys.QUALITY_METRIC] = TEXT
    for key, constraint in (benchmark.closed if subject.is_closed or subject.is_ours else benchmark.open).items():
        settings.setdefault(key, _kind_of_setting(key, constraint, subject))
    if subject.is_closed and subject.round != "0.7":
        settings[keys.GRADIENT_ACCUMULATION_STEPS] = COUNT if subject.is_ours else SOME_COUNT
    if subject.is_official and subject.is_at_least("6.1"):
        settings |= _disclosures(subject)
    return settings


def _kind_of_setting(key: str, constraint: Constraint, subject: LogSubject) -> ValueKind:
    """Return the type of a hyperparameter's value: the type of the value that the division fixes, or else of the
    reference's value. Any type is allowed if Open leaves the key free."""
    assert subject.benchmark is not None
    if key in (keys.GLOBAL_BATCH_SIZE, keys.GRADIENT_ACCUMULATION_STEPS):
        return COUNT if subject.is_ours else SOME_COUNT
    if key == keys.OPT_BASE_LEARNING_RATE:
        return POSITIVE
    if constraint.free and not subject.is_closed and not subject.is_ours:
        return SOME_COUNT if key == keys.MAX_SEQUENCE_LENGTH else _ANY_VALUE
    reference = subject.benchmark.sections["train"].get(key)
    value = next((allowed for allowed in (constraint.value, *constraint.one_of) if allowed is not None), reference)
    return TEXT if isinstance(value, str) else FLAG if isinstance(value, bool) else NUMBER
