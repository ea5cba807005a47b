"""The next command in a page's head: it fits what the page found, and the command line takes it."""

import json
import shlex
from pathlib import Path

import click
import pytest
from log_builder import make_runs
from measured_builder import write_measured
from records_builder import group_content, pair_content
from report_builder import write_run_set

from harness.cli import cli
from reports.page.content import gather_everything
from reports.page.next_step import next_step
from reports.parts.study import split_step
from rules.benchmarks.loader import load_benchmark

STEADY = (1.0, 1.01, 0.99, 1.005, 0.995)
SWEPT = "dlrmbench sweep dlrm_tiny --throughput 100 --axis train.global_batch_size=256,512 -n 5 -q --threads 1"
CONFIG = {"runtime.implementation": {"value": "reference", "source": "definition"}}


def next_command(*folders: Path) -> str:
    """Return the next command of the page of some folders, which the command line's parser has taken."""
    found = next_step(gather_everything(folders, second_opinion=False))
    if found is None:
        return ""
    words = shlex.split(found.value)
    whole = click.Context(cli, info_name=words[0], **cli.context_settings)
    name, verb, rest = cli.resolve_command(whole, words[1:])
    assert verb is not None and found.note
    verb.make_context(name, rest, parent=whole).close()
    return found.value


@pytest.mark.parametrize(
    ("num_runs", "expected"), [(5, "versus {} --implementation optimized"), (3, "resume {} --runs 5")]
)
def test_a_set_is_completed_and_then_held_against_the_other_implementation(
    num_runs: int, expected: str, tmp_path: Path
) -> None:
    runs = make_runs(load_benchmark("dlrm_tiny"), num_runs)
    folder = write_run_set(tmp_path / "a", runs=runs, interrupted=False, changes={"config": CONFIG})
    assert next_command(folder) == f"dlrmbench {expected.format(folder)}"


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ([2000.0, 2010.0, 1990.0, 2005.0, 1995.0], "report {} --summary"),
        ([1000.0, 1010.0, 990.0], "resume {} --runs 5"),
        ([1010.0, 1060.0, 985.0, 1055.0, 1000.0], "resume {} --runs "),
        ([1000.0, 3000.0, 900.0, 1500.0, 600.0], "doctor"),
    ],
)
def test_a_pair_is_decided_grows_or_is_measured_again(rates: list[float], expected: str, tmp_path: Path) -> None:
    for index, (side, values) in enumerate((("base", [1000.0, 1005.0, 995.0, 1002.0, 998.0]), ("new", rates))):
        path = write_measured(tmp_path / "pair" / side, "throughput", values[: len(rates)]) / "extra/throughput.json"
        content = json.loads(path.read_text())
        for minute, process in enumerate(content["processes"]):
            process["started_utc"] = f"2026-11-21T03:{2 * minute + index:02}:00+00:00"
        path.write_text(json.dumps(content))
    (tmp_path / "pair" / "experiment.json").write_text(json.dumps(pair_content(kind="throughput")))
    assert next_command(tmp_path / "pair").startswith(f"dlrmbench {expected.format(tmp_path / 'pair')}")


@pytest.mark.parametrize(
    ("means", "number", "expected"),
    [
        ((1000, 2000), 3, "resume {} --runs 5"),
        ((1000, 2000, 2001), 5, "resume {} --runs 10"),
        ((1000, 2000), 5, "sweep dlrm_tiny --axis train.global_batch_size=256,512 --threads 1"),
    ],
)
def test_a_sweep_grows_until_it_tells_and_is_then_trained(
    means: tuple[int, ...], number: int, expected: str, tmp_path: Path
) -> None:
    sweep, members = tmp_path / "sweep", []
    for size, mean in zip((256, 512, 1024), means, strict=False):
        write_measured(sweep / f"batch-{size}", "throughput", [mean * factor for factor in STEADY[:number]])
        values = {"train.global_batch_size": str(size)}
        members.append({"label": f"batch={size}", "folder": f"batch-{size}", "values": values})
    axes = [{"key": "train.global_batch_size", "values": [str(size) for size in (256, 512, 1024)[: len(means)]]}]
    content = group_content("matrix", "table", members, kind="throughput", options={"num_steps": 100}, axes=axes)
    (sweep / "experiment.json").write_text(json.dumps(content | {"command": SWEPT}))
    assert next_command(sweep) == f"dlrmbench {expected.format(sweep)}"


@pytest.mark.parametrize(
    ("finding", "rest", "value", "note"),
    [
        ("A. Next, to see: dlrmbench tiers --trace t", "A.", "dlrmbench tiers --trace t", ": to see"),
        ("Next, to train: a first; dlrmbench run x", "", "dlrmbench run x", ": to train; a first"),
        ("Next, for power: this command with --watts.", "", "this command with --watts.", ": for power"),
    ],
)
def test_a_studys_next_step_is_taken_out_of_its_finding(finding: str, rest: str, value: str, note: str) -> None:
    kept, step = split_step(finding)
    assert step is not None and (kept, step.value, step.note) == (rest, value, note)
    assert step.is_code == value.startswith("dlrmbench ")
    assert split_step("What comes next: nothing.") == ("What comes next: nothing.", None)
