"""Version 1 of what `--format json` prints, made version 2; `report --format json` is still at version 1."""

from collections.abc import Callable, Mapping
from typing import Any

from rules.logs.text import show
from rules.records.codec import DamageError

Members = dict[str, Any]
_SCORE = {
    "verdict": "outcome", "standing": "verification", "interval_low_s": "low_s", "interval_high_s": "high_s",
    "interval_confidence": "confidence", "interval_coverage": "coverage",
}  # fmt: skip
_SPREADS = {
    "samples_to_converge": "samples_cv", "samples_to_converge_smoothed": "smoothed_cv",
    "throughput_samples_per_s": "throughput_cv", "overhead_s": "overhead_cv", "overhead_ratio": "overhead_ratio_cv",
}  # fmt: skip
_SIDES = {"verdict": "overall_verdict", "num_base": "num_base_runs", "num_new": "num_new_runs"}
_QUANTITIES = {
    "auc": ("AUC", "auc"), "accuracy": ("Accuracy", "accuracy"), "queries_per_s": ("Queries/s", "queries/s"),
    "throughput_samples_per_s": ("Samples/s", "samples/s"),
}  # fmt: skip
"""Quantity and unit by the member that history had."""


def upgrade(name: str, content: Members) -> Members:
    """Return a document of version 1 as version 2 has it: `name` is score, run, measurement, pair, comparison or
    history. Types are checked after. Raises DamageError where a list or an object is none.
    """
    if name in _OBJECTS:
        return _OBJECTS[name](content, "")
    lists = {each: _parts(content, each, "", change) for each, change in _LISTS[name].items()}
    return content | lists | {"schema_version": 2}


def _parts(content: Members, name: str, place: str, change: Callable[[Members, str], Members]) -> list[Members]:
    found = content.get(name)
    if not isinstance(found, list):
        raise DamageError(f"{place}{name}", show(found), "a list")
    places = (f"{place}{name}[{index}]" for index in range(len(found)))
    return [change(_object(part, at), f"{at}.") for part, at in zip(found, places, strict=True)]


def _object(value: Any, place: str) -> Members:
    """Copy an object; null has no members."""
    if value is not None and not isinstance(value, dict):
        raise DamageError(place, show(value), "an object")
    return dict(value or {})


def _renamed(content: Members, names: Mapping[str, str]) -> Members:
    return {names.get(name, name): value for name, value in content.items()}


def _score(content: Members, place: str) -> Members:
    score = _renamed(content, _SCORE)
    for name, spread in _SPREADS.items():
        mean = _object(score.get(name), f"{place}{name}")
        score |= {name: mean.get("geometric_mean"), spread: mean.get("coefficient_of_variation")}
    noise = _object(score.pop("noise", None), f"{place}noise")
    score |= {f"{name}_share": share for name, share in _object(noise.get("shares"), f"{place}noise.shares").items()}
    for name, short in (("time_to_train", "time"), ("throughput", "throughput")):
        score |= _smallest(noise.get(name), f"{place}noise.{name}", f"smallest_{short}")
    dropped, folder = score.pop("dropped", None), score.get("path")
    counted = "yes" if score.get("olympic_mean_s") is not None else "no score"

    def change_run(run: Members, _: str) -> Members:
        return run | {
            "run": str(file := run.pop("file", None)).removeprefix("result_").removesuffix(".txt"),
            "path": f"{folder}/{file}",
            "status": "success" if run.pop("converged", None) else "not_converged",
            "counted": "dropped" if isinstance(dropped, list) and file in dropped else counted,
        }

    if str(score.get("verification")).startswith(("unverified", "verification by")):
        score["status"] = "official"  # of others it does not say whether they are own or unknown
    return score | {"configuration": folder, "runs": _parts(score, "runs", place, change_run)}


def _run(content: Members, place: str) -> Members:
    return _score(content, place) | {"schema_version": 2, "kind": "training"}


def _smallest(found: Any, place: str, name: str) -> Members:
    ends = _object(found, place)
    return {f"{name}_apart": ends.get("later_set"), f"{name}_in_turns": ends.get("in_turns")}


def _measurement(content: Members, place: str) -> Members:
    made = _renamed(content, {f"interval_{end}": end for end in ("low", "high", "confidence")})
    smallest = _smallest(made.pop("smallest_difference", None), f"{place}smallest_difference", "smallest")
    return made | smallest | {"schema_version": 2}


def _comparison(content: Members, place: str) -> Members:
    return _renamed(content, _SIDES) | {"factors": _parts(content, "factors", place, _factor)}


def _factor(content: Members, place: str) -> Members:
    factor = _renamed(content, {"name": "factor"})
    for name, member in (("adjusted", "adjusted_interval"), ("interval", "interval")):
        interval = _object(factor.pop(member, None), f"{place}{member}")
        factor |= {f"{name}_{part}": interval.get(part) for part in ("low", "high", "confidence")}
        factor["interval_method"] = interval.get("method", factor.get("interval_method"))
    return factor


def _past_set(content: Members, place: str) -> Members:
    past = content | {"kind": "training" if content.get("kind") == "runs" else content.get("kind")}
    for name, (quantity, unit) in _QUANTITIES.items() if past["kind"] != "training" else ():
        if past.get(name) is not None:
            past |= {"quantity": quantity, "unit": unit, "mean": past[name]}
    return {name: value for name, value in past.items() if name not in ("auc", "accuracy", "queries_per_s")}


_OBJECTS = {"run": _run, "measurement": _measurement}
_LISTS = {
    "score": {"scores": _score},
    "pair": {"scores": _run, "measurements": _measurement, "comparisons": _comparison},
    "comparison": {"comparisons": _comparison},
    "history": {"run_sets": _past_set},
}
