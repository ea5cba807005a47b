"""The next command in a page's head: it fits what the page found, and the command line takes it."""

import json
import shlex
from pathlib import Path

import click
import pytest
from log_builder import make_runs
from measured_builder import write_measured
from records_builder import pair_content
from report_builder import write_run_set

from harness.cli import cli
from reports.page.content import gather_everything
from reports.page.next_step import next_step
from rules.benchmarks.loader import load_benchmark

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
