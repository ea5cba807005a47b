"""Read a user.conf of MLPerf LoadGen, in which a submitter sets how LoadGen runs, as keys of [serve].

The format is LoadGen's (mlcommons/inference, loadgen/test_settings_internal.cc): lines of `model.scenario.key =
value`; model and scenario may be `*`; durations are in milliseconds. LoadGen ignores keys that it does not know. Here
no line for the served model and scenario is ignored: a line with an unknown key is refused with its line number.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from harness.extensions.serving.rounds import EARLIEST, FORMS, LAST_ROUNDS, ROUNDS
from reference_models.process.errors import ConfigError, DatasetError, did_you_mean
from reference_models.process.open_file import read_regular

MODELS = {"dlrm": "dlrm-v2", "hstu": "dlrm-v3"}
"""MLPerf Inference's name of a recommender, by the name that a benchmark definition gives the model."""
MAX_BYTES = 1 << 16
_SCENARIOS = {"server": "Server", "offline": "Offline", "single_stream": "SingleStream"}
_WHOLE = re.compile(r"0x[0-9a-fA-F]{1,15}|0|[1-9][0-9]{0,17}")
_NUMBER = re.compile(r"[0-9]{1,18}(\.[0-9]{0,18})?([eE][+-]?[0-9]{1,2})?")
_SEED = "LoadGen takes its seeds from its own mlperf.conf alone, and so does dlrmbench"
_CUT = "no run is cut short here"
_REFUSED = {
    "qsl_rng_seed": _SEED,
    "sample_index_rng_seed": _SEED,
    "schedule_rng_seed": _SEED,
    "max_duration": _CUT,
    "max_query_count": _CUT,
    "mode": "give --mode instead",
}


def _whole(text: str) -> int:
    if _WHOLE.fullmatch(text) is None:
        raise ValueError("expected a whole number")
    return int(text, 0)


def _number(text: str) -> float:
    if _NUMBER.fullmatch(text) is None:
        raise ValueError("expected a number")
    return float(text)


def _per_s(text: str) -> float:
    if (milliseconds := _number(text)) == 0:
        raise ValueError("expected more than 0 ms")
    return 1e3 / milliseconds


Reading = tuple[str, Callable[[str], float | int]]
_OF_ANY: Mapping[str, Reading] = {
    "min_duration": ("min_duration_s", lambda text: _whole(text) / 1e3),
    "min_query_count": ("min_queries", _whole),
    "performance_sample_count_override": ("library", _whole),
}
_KEYS: Mapping[str, Mapping[str, Reading]] = {
    "Server": {
        "target_qps": ("target_qps", _number),
        "target_latency": ("target_latency_ms", _number),
        "target_latency_percentile": ("percentile", _number),
        **_OF_ANY,
    },
    "Offline": {"target_qps": ("target_qps", _number), **_OF_ANY},
    "SingleStream": {
        "target_latency": ("target_qps", _per_s),
        "target_latency_percentile": ("percentile", _number),
        **_OF_ANY,
    },
}
"""Accepted keys of a user.conf, by scenario: each with the key of [serve] that it sets, and the function that reads
its value. In the scenario single stream, LoadGen's target latency is the expected latency of a query."""


class _ConfLine(NamedTuple):
    number: int
    model: str
    scenario: str
    key: str
    value: str

    @property
    def name(self) -> str:
        return f"{self.model}.{self.scenario}.{self.key}"


def take_user_conf(serve: dict[str, Any], sources: dict[str, str], model: str) -> None:
    """Set in place the keys of [serve] that a file user.conf gives, and replace the file's path by its digest. This
    is done only if the user names the file in this call (serve.user_conf by an option or setting), not if the
    benchmark definition does.

    Raises ConfigError if the file, a line or a key is wrong, or if an option sets a key to another value.
    """
    scenario = _SCENARIOS.get(str(serve.get("scenario", "server")))
    if "serve.user_conf" not in sources or scenario is None:
        return
    path = Path(str(serve["user_conf"]))
    content = _read(path)
    chosen = _choose(path, _parse(path, content), MODELS.get(model), scenario)
    for line in chosen:
        place = f"{path}:{line.number}: {line.name}"
        key, read = _find_key(place, line, scenario)
        try:
            value = read(line.value)
        except ValueError as error:
            raise ConfigError(f"{place} is {line.value!r:.80}, {error}.") from None
        name = f"serve.{key}"
        if name in sources and serve[key] != value:
            raise ConfigError(
                f"{place} asks for {name} = {value:g}, {sources[name]} for {serve[key]!r:.80}. Give one of them."
            )
        serve[key], sources[name] = value, f"file {place}"
    serve["user_conf"] = hashlib.sha256(content).hexdigest()
    sources["serve.user_conf"] = f"file {path}"


def take_mlperf_form(serve: dict[str, Any], sources: dict[str, str], model: str) -> None:
    """Set in place the keys of [serve] that MLPerf Inference requires, if this call asks for serve.mlperf by an
    option or setting. Keys that the call itself sets keep their values. Nothing is set if only the benchmark
    definition asks for serve.mlperf.

    The requirements are those of MLPerf's round serve.round. If serve.round is left out, they are those of the last
    round that includes the definition's `model`.
    """
    if "serve.mlperf" not in sources or serve["mlperf"] is not True:
        return
    if serve.get("round") is None:
        serve["round"] = LAST_ROUNDS.get(MODELS.get(model, ""), EARLIEST)
        sources["serve.round"] = sources["serve.mlperf"]
    if (asked := ROUNDS.get(str(serve["round"]))) is None:
        return  # parsing [serve] refuses an unknown round
    for key, value in FORMS[asked.model].get(str(serve.get("scenario", "server")), {}).items():
        if f"serve.{key}" not in sources:
            serve[key], sources[f"serve.{key}"] = value, sources["serve.mlperf"]


def _read(path: Path) -> bytes:
    try:
        return read_regular(path, MAX_BYTES, follows=True)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file. Give the path of a user.conf.") from None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}.") from None
    except DatasetError as error:
        raise ConfigError(f"{error} Give the path of a user.conf.") from None


def _parse(path: Path, content: bytes) -> list[_ConfLine]:
    found: dict[str, _ConfLine] = {}
    for number, text in enumerate(content.decode(errors="replace").split("\n"), 1):
        words = text.split()
        if not words or words[0].startswith("#"):
            continue
        parts = words[0].split(".")
        if len(words) != 3 or words[1] != "=" or len(parts) != 3 or "" in parts:
            raise ConfigError(
                f"{path}:{number}: {text.strip()!r:.80}, expected 'model.scenario.key = value', with spaces around "
                "'=' and nothing after the value."
            )
        model, scenario, key = parts
        line = _ConfLine(number, model, scenario, key, words[2])
        if scenario not in (known := ("*", "MultiStream", *_KEYS)):
            raise ConfigError(f"{path}:{number}: scenario {scenario!r:.80}.{did_you_mean(scenario, [*known])}")
        if (first := found.get(line.name)) is not None:
            raise ConfigError(f"{path}:{number}: {line.name!r:.80} is in line {first.number}, too. Keep one of them.")
        found[line.name] = line
    return list(found.values())


def _choose(path: Path, lines: list[_ConfLine], model: str | None, scenario: str) -> list[_ConfLine]:
    """Return for each key the line of a user.conf that LoadGen uses. A line for the scenario goes before a line for
    `*`; among these, a line for the model goes before a line for `*`."""
    ranks = [(model, scenario), ("*", scenario), (model, "*"), ("*", "*")]
    chosen: dict[str, _ConfLine] = {}
    for rank in reversed(ranks):
        chosen |= {line.key: line for line in lines if (line.model, line.scenario) == rank}
    if not chosen:
        raise ConfigError(
            f"{path}: no line is for {model or '*'}.{scenario}, the served model and scenario. Add one, or leave "
            "--user-conf out."
        )
    return sorted(chosen.values())


def _find_key(place: str, line: _ConfLine, scenario: str) -> Reading:
    if (reading := _KEYS[scenario].get(line.key)) is not None:
        return reading
    why = _REFUSED.get(line.key)
    if why is None:
        why = f"for {scenario}, dlrmbench honours {', '.join(_KEYS[scenario])}"
    raise ConfigError(f"{place!r:.200} cannot be honoured: {why}. Remove the line.")
