"""One way to break each rule of submissions, rounds, power, system descriptions and sets' files."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from consistency_cases import write_kept_set
from log_builder import Record, make_runs, with_record, without, write_log
from submission_builder import (
    DCNV2,
    SYSTEM,
    power_records,
    set_folder,
    short_runs,
    write,
    write_power,
    write_submission,
)
from verdict_cases import VerdictCase, check

from rules.benchmarks.loader import load_benchmark
from rules.checks.verdict import Verdict

TINY = load_benchmark("dlrm_tiny")
Write = Callable[[Path], Path]
LOGS = f"results/{SYSTEM}/dlrm_dcnv2"


def good(folder: Path) -> Path:
    return write_submission(folder)


def good_round(folder: Path) -> Path:
    round_folder = folder / "training_results_v6.0"
    for number, name in enumerate(("Example", "Other")):
        start_ms = 1_790_000_000_000 + number * 10**11
        runs = make_runs(DCNV2, ours=False, organization=name, start_ms=start_ms)
        write_submission(round_folder, organization=name, runs=runs)
    return round_folder


def good_power(folder: Path) -> Path:
    return with_power(folder)


def with_power(folder: Path, **options: Any) -> Path:
    runs = short_runs()
    top = write_submission(folder, runs=runs)
    write_power(set_folder(top), runs, **options)
    return top


def own_set(folder: Path) -> Path:
    return write_kept_set(folder / "set")


def after(write_good: Write, change: Callable[[Path], object]) -> Write:
    """What is good, changed, and still judged as a whole."""

    def bad(folder: Path) -> Path:
        top = write_good(folder)
        change(top)
        return top

    return bad


def describe(**fields: Any) -> Write:
    return after(good, lambda top: _change_json(top / "systems" / f"{SYSTEM}.json", fields))


def _change_json(path: Path, fields: dict[str, Any]) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def _link(place: Path, goal: str | Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(goal)


def _large(path: Path) -> None:
    write(path, "")
    os.truncate(path, (50 << 20) + 1)


def _move_codeless(top: Path) -> None:
    (top / "benchmarks" / "dlrm_dcnv2" / "implementations" / "reference" / "train.py").unlink()
    for script in (top / "benchmarks" / "dlrm_dcnv2" / SYSTEM).glob("*.sh"):
        script.rename(top / "benchmarks" / "dlrm_dcnv2" / SYSTEM / (script.stem + ".txt"))


def _empty_set(top: Path) -> None:
    for log in set_folder(top).glob("result_*.txt"):
        log.rename(log.with_name(log.name.replace("result", "run")))


def _twin_sets(folder: Path, num_accelerators: str = "4") -> Path:
    """The same runs for two systems, the first of which has eight accelerators."""
    top = write_submission(folder, systems=(SYSTEM, "second"))
    _change_json(top / "systems" / "second.json", {"accelerators_per_node": num_accelerators})
    for log in set_folder(top).iterdir():
        (top / "results" / "second" / "dlrm_dcnv2" / log.name).write_bytes(log.read_bytes())
    return top


def _twin_submissions(folder: Path) -> Path:
    top = good_round(folder)
    for log in set_folder(top / "Example").iterdir():
        records = [json.loads(line.removeprefix(":::MLLOG ")) for line in log.read_text().splitlines()]
        records = with_record(records, "submission_org", value="Other")
        write_log(set_folder(top / "Other") / log.name, records)
    return top


def _old_round(folder: Path) -> Path:
    return write_submission(folder / "training_results_v6.1")


def _another(records: list[Record], seed: int) -> list[Record]:
    """A run of another seed, so with other qualities."""
    return with_record(with_record(records, "seed", value=seed), "eval_accuracy", value=0.78 + seed * 1e-7)


def _overlapping(folder: Path) -> Path:
    runs = make_runs(DCNV2, ours=False)
    late = make_runs(DCNV2, ours=False, start_ms=1_790_000_000_000 + 1000)[0]
    runs[0] = _another(late, 4242)
    runs[1] = make_runs(DCNV2, ours=False, start_ms=1_790_000_000_000 + 60_000)[1 - 1]
    return write_submission(folder, runs=[*runs[:1], _another(runs[1], 4243), *runs[2:]])


def _paused(folder: Path) -> Path:
    runs = make_runs(DCNV2, 9, ours=False)
    late = make_runs(DCNV2, 1, ours=False, start_ms=runs[-1][-1]["time_ms"] + 10**10)
    return write_submission(folder, runs=[*runs, _another(late[0], 4242)])


def _gap_in_numbers(top: Path) -> None:
    (set_folder(top) / "result_9.txt").rename(set_folder(top) / "result_11.txt")


def _edited_definition(top: Path) -> None:
    path = top / "extra" / "definition.toml"
    path.write_text(path.read_text().replace(f"target = {TINY.quality.target}", "target = 0.55"))


def _node(top: Path, run: int = 0, name: str = "node_0.txt") -> Path:
    return set_folder(top) / "power" / f"result_{run}" / name


def _sparse(records: list[Any]) -> list[Any]:
    """Every second reading."""
    return [one for index, one in enumerate(records) if index in (0, len(records) - 1) or index % 2]


def _few(records: list[Any]) -> list[Any]:
    """Readings every three seconds only, as the run were short."""
    return [records[0], *records[1:-1][::3], records[-1]]


def _late(records: list[Any]) -> list[Any]:
    return with_record(records, "power_measurement_start", time_ms=records[20]["time_ms"])


def _swapped(records: list[Any]) -> list[Any]:
    changed = list(records)
    changed[10], changed[11] = changed[11], changed[10]
    return changed


def _num_power_records() -> int:
    """Records, and so lines, of the first run's first node."""
    times = {record["key"]: record["time_ms"] for record in short_runs(1)[0]}
    return len(power_records(times["run_start"], times["run_stop"]))


def _check_cut(path: Path) -> tuple[Verdict, ...]:
    """As if a submission of 27 names were too large to be listed."""
    with patch("rules.tree.submission.MAX_ENTRIES", 26):
        return check(path)


def _two_nodes(folder: Path) -> Path:
    top = with_power(folder, num_nodes=2)
    _change_json(top / "systems" / f"{SYSTEM}.json", {"number_of_nodes": "2"})
    return top


def _copied_node(folder: Path) -> Path:
    top = _two_nodes(folder)
    write(_node(top, name="node_1.txt"), _node(top).read_text())
    return top


def _copied_later(folder: Path) -> Path:
    """The readings of one run's node, which vary, are also those of another run: stamps say otherwise."""
    top = _two_nodes(folder)
    first, other = _node(top), _node(top).parents[1] / "result_3" / "node_1.txt"
    for path in (first, other):
        records = [json.loads(line.removeprefix(":::MLLOG ")) for line in path.read_text().splitlines()]
        powers = iter(range(500, 500 + len(records)))
        write_log(path, [{**one, "value": next(powers)} if one["key"] == "power_reading" else one for one in records])
    texts = [[line for line in path.read_text().splitlines() if "power_reading" in line] for path in (first, other)]
    assert len(texts[0]) == len(texts[1]) and texts[0] != texts[1]
    return top


def _scaled(records: list[Any], factor: float) -> list[Any]:
    return [{**one, "value": one["value"] * factor} if one["key"] == "power_reading" else one for one in records]


def _half_efficient(records: list[Any]) -> list[Any]:
    return [records[0], {**records[0], "key": "conversion_eff", "value": 0.5}, *records[1:]]


def _power(change: Callable[[list[Any]], list[Any]]) -> Write:
    return lambda folder: with_power(folder, change=change)


def _case(code: str, bad: Write, file: str | None, write_good: Write = good, **options: Any) -> VerdictCase:
    also = frozenset(options.pop("also", ()))
    return VerdictCase(code=code, write_bad=bad, write_good=write_good, file=file, also=also, **options)


def _mild(code: str, bad: Write, file: str | None, write_good: Write = good, **options: Any) -> VerdictCase:
    return _case(code, bad, file, write_good, is_error=False, **options)


def _remove(top: Path, *parts: str) -> None:
    place = top.joinpath(*parts)
    if place.is_dir():
        for path in sorted(place.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        place.rmdir()
    else:
        place.unlink()


CASES = [
    _mild("SU101", after(good, lambda top: _remove(top, "benchmarks")), "Example"),
    _case("SU101", after(good, lambda top: _remove(top, "systems")), "Example", name="systems", also=["SY101"]),
    _mild("SU102", after(good, _move_codeless), "benchmarks", also=["SU112"]),
    _mild("SU103", after(good, lambda top: write(top / "systems" / "spare.json", "{}")), "spare.json"),
    _case(
        "SU103",
        after(good, lambda top: write(top / "results" / "x" / "bert" / "result_0.txt", "")),
        "x",
        name="no description",
        also=["SU110"],
    ),
    _case("SU104", after(good, _empty_set), "dlrm_dcnv2", also=["RS101", "RS109"]),
    _mild(
        "SU105", after(good, lambda top: write(top / "results" / "result_0.txt", "")), "result_0.txt", also=["SU106"]
    ),
    _mild("SU106", after(good, lambda top: write(top / "notes" / "a.txt", "")), "notes"),
    _case("SU107", after(good, lambda top: write(top / "systems" / ".old.json", "{}")), ".old.json", also=["SU103"]),
    _mild("SU107", after(good, lambda top: write(top / "benchmarks" / "a b", "")), "a b", name="in benchmarks"),
    _case("SU108", after(good, lambda top: _large(top / "benchmarks" / "weights.bin")), "weights.bin"),
    _case(
        "SU109",
        after(good, lambda top: _link(set_folder(top) / "notes", "nowhere")),
        "notes",
        also=["RS109"],
        name="broken",
    ),
    _mild("SU109", after(good, lambda top: _link(top / "benchmarks" / "data", "/etc")), "data", name="out"),
    _mild(
        "SU110",
        after(good, lambda top: write(top / "results" / SYSTEM / "bert" / "result_0.txt", "")),
        "Example",
        write_good=good,
    ),
    _case("SU111", _old_round, "dlrm_dcnv2"),
    _mild("SU112", after(good, lambda top: _remove(top, "benchmarks", "dlrm_dcnv2", SYSTEM, "README.md")), SYSTEM),
    _mild("SU113", after(good, lambda top: write(top / "benchmarks" / "more", "")), "Example", check=_check_cut),
    _case("SU201", _twin_sets, "result_0.txt"),
    _mild("SU201", lambda folder: _twin_sets(folder, "8"), "result_0.txt", name="of equal hardware"),
    _case("RO101", _twin_submissions, "result_0.txt", good_round),
    _mild("RO102", after(good_round, lambda top: write(top / "notes" / "a.txt", "")), "notes", good_round),
    _mild(
        "RO103",
        after(good_round, lambda top: (top / "Other").rename(top / "EXAMPLE")),
        "Example",
        good_round,
        also=["RS107", "SY105"],
    ),
    _case(
        "RS108",
        after(good, lambda top: _link(set_folder(top) / "result_10.txt", "/etc/passwd")),
        "result_10.txt",
        also=["SU109"],
    ),
    _mild("RS109", after(good, lambda top: write(set_folder(top) / "run_1.txt", "")), "dlrm_dcnv2"),
    _mild("RS110", after(good, _gap_in_numbers), "dlrm_dcnv2"),
    _case("RS111", after(own_set, _edited_definition), "definition.toml", own_set),
    _mild(
        "RS111",
        after(own_set, lambda top: write(top / "extra" / "definition.toml", "[")),
        "definition.toml",
        own_set,
        name="broken",
    ),
    _mild("RS112", after(own_set, lambda top: write(top / "extra" / "run_set.json", "[1")), "run_set.json", own_set),
    _mild(
        "RS112",
        after(own_set, lambda top: write(top / "extra" / "run_set.json", '{"schema_version": 1, "num_runs": "5"}')),
        "run_set.json",
        own_set,
        name="wrong types",
    ),
    _mild("RS113", _overlapping, "result_1.txt"),
    _mild("RS114", _paused, "result_9.txt"),
    _mild("SY105", describe(submitter="Someone"), f"{SYSTEM}.json"),
    _case("SY106", describe(division="open"), f"{SYSTEM}.json"),
    _mild("SY106", describe(division="Closed"), f"{SYSTEM}.json", name="spelling"),
    _case("SY107", describe(number_of_nodes="two"), f"{SYSTEM}.json"),
    _mild("SY108", describe(cooling=""), f"{SYSTEM}.json"),
    _mild(
        "SY108",
        describe(accelerators_per_node="8", accelerator_model_name=""),
        f"{SYSTEM}.json",
        describe(accelerators_per_node="0", accelerator_model_name="", accelerator_interconnect=""),
        name="no accelerators",
    ),
    _mild(
        "SY109",
        after(good, lambda top: write(p := top / "systems" / f"{SYSTEM}.json", "\ufeff" + p.read_text())),
        f"{SYSTEM}.json",
    ),
    _mild("SY111", describe(number_of_nodes="100"), f"{SYSTEM}.json"),
    _mild("SY110", describe(system_name="A fine machine"), f"{SYSTEM}.json"),
    _case("PW101", after(good_power, lambda top: _remove(_node(top).parent)), "result_0.txt", good_power),
    _case(
        "PW102",
        after(good_power, lambda top: _node(top).rename(_node(top, name="node_1.txt"))),
        "result_0",
        good_power,
    ),
    _case(
        "PW103",
        after(good_power, lambda top: write(_node(top, name="node_1.txt"), _node(top).read_text())),
        "result_0",
        good_power,
        also=["PW110", "PW111"],
    ),
    _case("PW104", _power(lambda one: without(one, "power_measurement_stop")), "node_0.txt", good_power),
    _case(
        "PW104",
        _power(lambda one: with_record(one, "power_measurement_stop", time_ms=one[0]["time_ms"])),
        "node_0.txt",
        good_power,
        name="no length",
        line=_num_power_records(),
    ),
    _case(
        "PW105", _power(lambda one: with_record(one, "power_reading", 4, value=-1)), "node_0.txt", good_power, line=6
    ),
    _mild("PW106", _power(_swapped), "node_0.txt", good_power, line=12),
    _case("PW107", _power(_late), "node_0.txt", good_power, line=1),
    _case("PW108", _power(_sparse), "node_0.txt", good_power),
    _case("PW109", _power(_few), "node_0.txt", good_power, also=["PW108"]),
    _mild("PW111", _copied_node, "node_1.txt", _two_nodes, also=["PW110", "SY111"]),
    _mild("PW111", _copied_later, "node_1.txt", _two_nodes, also=["PW110", "SY111"], name="of another run"),
    _mild("PW112", _power(lambda one: _scaled(one, 0.01)), "node_0.txt", good_power, name="5 W"),
    _mild("PW112", _power(lambda one: _scaled(one, 1000)), "node_0.txt", good_power, name="milliwatts"),
    _mild("PW112", _power(_half_efficient), "node_0.txt", good_power, name="efficiency"),
    _mild("PW110", _two_nodes, "dlrm_dcnv2", good_power, also=["SY111"]),
]
