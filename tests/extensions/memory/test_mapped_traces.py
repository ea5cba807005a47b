"""`trace` of ids that are mapped to fewer rows: the rows that are left, as models see them."""

import json
from pathlib import Path

from command import Command
from small_set import write_definition

from harness.foundation.errors import ExitCode

ROWS = [100, 50, 200, 100, 100, 3, 50, 20]
"""Rows of all tables at a budget of a tenth."""


def write_mapped(path: Path, kind: str) -> None:
    definition = write_definition(path)
    definition.write_text(f'{definition.read_text()}\n[id_map]\nkind = "{kind}"\nbudget = 0.1\n')


def test_a_trace_is_of_the_rows_that_are_left(inside: Command, tmp_path: Path) -> None:
    write_mapped(tmp_path / "mine.toml", "quotient_remainder")
    done = inside("trace", "./mine.toml", "-o", "t", "--lookups", 1100, "--data", "data", "--format", "json")
    assert done.returncode == 0, done.stderr
    manifest = json.loads((tmp_path / "t" / "manifest.json").read_text())
    assert [table["num_rows"] for table in manifest["tables"]] == ROWS
    assert (manifest["num_bags"], manifest["tables"][0]["num_lookups"]) == (100, 200)


def test_a_map_that_is_a_control_is_refused(inside: Command, tmp_path: Path) -> None:
    write_definition(tmp_path / "mine.toml")
    done = inside("trace", "./mine.toml", "--set", "id_map.kind=classes", "-o", "out")
    assert done.returncode == ExitCode.USAGE and "which is a control" in done.stderr, done.stderr
    assert not (tmp_path / "out").exists()
