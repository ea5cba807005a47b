"""Which keys a log must hold, how often, of which type: data for the structure rules.

Official keys are those of the compliance checker's YAML of each round (mlperf_logging
compliance_checker/training_*/{common,closed_common,closed_dlrm*}.yaml); own keys are this harness's.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from rules.benchmarks.constraints import Constraint
from rules.checks.subject import LogSubject
from rules.logs import keys
from rules.logs.log import as_number, as_whole

START, END, POINT = "INTERVAL_START", "INTERVAL_END", "POINT_IN_TIME"
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
MAX_WHOLE = 2**63 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """A type of value: what it is called and which values are of it."""

    name: str
    holds: Callable[[Any], bool]


def _is_whole(value: Any, low: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= MAX_WHOLE


def _is_throughput(value: Any) -> bool:
    number = as_number(value.get("throughput")) if isinstance(value, dict) else None
    return number is not None and number > 0


NOTHING = Kind(name="null", holds=lambda value: value is None)
FLAG = Kind(name="true or false", holds=lambda value: isinstance(value, bool))
TEXT = Kind(name="a string that is not empty", holds=lambda value: isinstance(value, str) and bool(value.strip()))
DIVISION = Kind(name="'closed' or 'open'", holds=lambda value: value in (keys.CLOSED, keys.OPEN))
STATUSES = ("onprem", "cloud", "research", "preview")
STATUS = Kind(name=f"one of {', '.join(STATUSES)}", holds=lambda value: value in STATUSES)
WHOLE = Kind(name="a whole number of at least 0", holds=lambda value: _is_whole(value, 0))
COUNT = Kind(name="a whole number of at least 1", holds=lambda value: _is_whole(value, 1))
POSITIVE = Kind(name="a number above 0", holds=lambda value: (as_number(value) or 0) > 0)
NUMBER = Kind(name="a number", holds=lambda value: as_number(value) is not None)
ANY_WHOLE = Kind(name="a whole number", holds=lambda value: isinstance(value, int) and not isinstance(value, bool))
SOME_WHOLE = Kind(name="a whole number", holds=lambda value: as_whole(value) is not None)
SOME_COUNT = Kind(name="a count of at least 1", holds=lambda value: (as_whole(value) or 0) >= 1)
DIGEST = Kind(name="64 hexadecimal digits", holds=lambda value: isinstance(value, str) and bool(_DIGEST.match(value)))
QUALITY = Kind(
    name="a number from 0 to 1", holds=lambda value: 0 <= (-1 if (n := as_number(value)) is None else n) <= 1
)
THROUGHPUT = Kind(name='{"throughput": a number above 0}', holds=_is_throughput)

PRECISIONS = (
    "fp64", "fp32", "tf32", "fp16", "fp8", "mxfp6", "nvfp4", "mxfp4", "bfloat16", "Graphcore FLOAT 16.16", "int8",
    "uint8", "int4", "uint4",
)  # fmt: skip
"""What lowest_numerical_precision_in_* may say (common.yaml of 6.0 and 6.1; mxfp6 from 6.1 on)."""
PRECISION_6_0 = Kind(name="a known precision", holds=lambda value: value in PRECISIONS and value != "mxfp6")
PRECISION_6_1 = Kind(name=f"one of {', '.join(PRECISIONS)}", holds=lambda value: value in PRECISIONS)

EVENT_TYPES = {
    keys.INIT_START: START,
    keys.INIT_STOP: END,
    keys.RUN_START: START,
    keys.RUN_STOP: END,
    keys.EPOCH_START: START,
    keys.EPOCH_STOP: END,
    keys.BLOCK_START: START,
    keys.BLOCK_STOP: END,
    keys.EVAL_START: START,
    keys.EVAL_STOP: END,
}
"""Event types of the keys that bound intervals; every other key is a POINT_IN_TIME."""

_OWN_SETTINGS: dict[str, Kind] = {
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
_OFFICIAL_ONCE: dict[str, Kind] = {
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
"""At least one of each pair (common.yaml, AT_LEAST_ONE_OR)."""
TENSORS_OF_DLRM = (
    "embeddings",
    *(f"bottom_mlp_dense{i}" for i in range(1, 4)),
    *(f"top_mlp_dense{i}" for i in range(1, 6)),
)
"""Tensors whose initialisation a `dlrm` log names exactly once from round 1.1 on (closed_dlrm.yaml)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RequiredKey:
    """A key that must occur: exactly once, or at least once."""

    key: str
    kind: Kind
    count: Literal["once", "some"] = "once"


def required_keys_of(subject: LogSubject) -> tuple[RequiredKey, ...]:
    """The keys that this log must hold."""
    if "required_keys" not in subject.memo:
        subject.memo["required_keys"] = _required_keys(subject)
    required: tuple[RequiredKey, ...] = subject.memo["required_keys"]
    return required


def _required_keys(subject: LogSubject) -> tuple[RequiredKey, ...]:
    found = {key: RequiredKey(key=key, kind=kind) for key, kind in _settings(subject).items()}
    for key in (keys.INIT_STOP, keys.RUN_START, keys.RUN_STOP):
        found[key] = RequiredKey(key=key, kind=NOTHING if subject.is_ours else _ANY_VALUE)
    once_in_ours: Literal["once", "some"] = "once" if subject.is_ours else "some"
    found[keys.INIT_START] = RequiredKey(
        key=keys.INIT_START, kind=NOTHING if subject.is_ours else _ANY_VALUE, count=once_in_ours
    )
    found[keys.CACHE_CLEAR] = RequiredKey(
        key=keys.CACHE_CLEAR, kind=FLAG if subject.is_ours else _ANY_VALUE, count=once_in_ours
    )
    if not _ended_before_evaluating(subject):
        found[keys.EVAL_ACCURACY] = RequiredKey(key=keys.EVAL_ACCURACY, kind=QUALITY, count="some")
    if _requires_seed(subject):
        found[keys.SEED] = RequiredKey(
            key=keys.SEED, kind=WHOLE if subject.is_ours else ANY_WHOLE, count=once_in_ours
        )
    return tuple(found.values())


def _ended_before_evaluating(subject: LogSubject) -> bool:
    """Whether a run of ours diverged or ran out of time, which may happen before its first evaluation."""
    stop = subject.log.last(keys.RUN_STOP)
    return (
        subject.is_ours
        and stop is not None
        and stop.metadata.get(keys.STATUS) == keys.ABORTED
        and stop.metadata.get(keys.REASON) in ("not_finite", "timeout")
    )


def kinds_of(subject: LogSubject) -> dict[str, Kind]:
    """The type of each key's value, also of keys that a log need not hold."""
    if "kinds" not in subject.memo:
        subject.memo["kinds"] = _kinds(subject)
    kinds: dict[str, Kind] = subject.memo["kinds"]
    return kinds


def _kinds(subject: LogSubject) -> dict[str, Kind]:
    kinds = {required.key: required.kind for required in required_keys_of(subject)}
    if subject.is_ours:
        events = (keys.BLOCK_START, keys.BLOCK_STOP, keys.EVAL_START, keys.EVAL_STOP)
        kinds |= dict.fromkeys(events, NOTHING) | {keys.TRACKED_STATS: THROUGHPUT}
        kinds.setdefault(keys.DATASET_SHA256, DIGEST)
    if subject.is_official and subject.is_at_least("6.0"):
        kinds = _disclosures(subject) | kinds
    return kinds


def _disclosures(subject: LogSubject) -> dict[str, Kind]:
    """Precision, parallelism and configuration, which logs may name in round 6.0 and must from 6.1 on."""
    late = subject.is_at_least("6.1")
    return {
        **dict.fromkeys(_PRECISION_KEYS, PRECISION_6_1 if late else PRECISION_6_0),
        **dict.fromkeys(_PARALLELISM_KEYS, SOME_COUNT if late else SOME_WHOLE),
        keys.CONFIG_FILENAME: TEXT if late else _ANY_VALUE,
    }


_ANY_VALUE = Kind(name="any value or null", holds=lambda value: True)


def _settings(subject: LogSubject) -> dict[str, Kind]:
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
    for key, constraint in (benchmark.closed if subject.is_closed or subject.is_ours else benchmark.open).items():
        settings.setdefault(key, _kind_of_setting(key, constraint, subject))
    if subject.is_closed and subject.round != "0.7":
        settings[keys.GRADIENT_ACCUMULATION_STEPS] = COUNT if subject.is_ours else SOME_COUNT
    if subject.is_official and subject.is_at_least("6.1"):
        settings |= _disclosures(subject)
    return settings


def _kind_of_setting(key: str, constraint: Constraint, subject: LogSubject) -> Kind:
    """By what is fixed, else by the reference's value; what Open leaves free may be anything."""
    assert subject.benchmark is not None
    if key in (keys.GLOBAL_BATCH_SIZE, keys.GRADIENT_ACCUMULATION_STEPS):
        return COUNT if subject.is_ours else SOME_COUNT
    if key == keys.OPT_BASE_LEARNING_RATE:
        return POSITIVE
    if constraint.free and not subject.is_closed and not subject.is_ours:
        return SOME_COUNT if key == keys.MAX_SEQUENCE_LENGTH else _ANY_VALUE
    value = constraint.value if constraint.value is not None else subject.benchmark.sections["train"].get(key)
    return _kind_of(value)


def _kind_of(value: Any) -> Kind:
    if isinstance(value, str):
        return TEXT
    if isinstance(value, bool):
        return FLAG
    return NUMBER


def _requires_seed(subject: LogSubject) -> bool:
    """Seeds are required of closed results from round 4.1 on (seed_checker; training_policies#546)."""
    return subject.is_ours or (subject.is_closed and subject.is_at_least("4.1"))
