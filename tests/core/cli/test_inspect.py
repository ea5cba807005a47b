"""list, show, system and doctor, as a user calls them."""

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from waiting import HANG_S

from harness.system.preflight import Check
from reports.render.terminal import display_width
from rules.benchmarks.loader import list_workload_names, load_benchmark, read_definition_text, shipped_names
from rules.records.codec import json_schema
from rules.records.run_set import SystemChecks
from rules.records.system import SYSTEM_FIELDS, SystemRecord

CLI = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(command: CLI, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CLI:
    """The command line in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return command


def test_list_names_every_benchmark_with_target_runs_and_status(command: CLI) -> None:
    code, out, err = command("list")
    assert (code, err) == (0, "")
    table = out.partition("\n\n")[0]  # what follows says which older versions there are
    assert {line.split()[0] for line in table.splitlines()[2:] if not line.startswith(" ")} == {
        *shipped_names(),
        *list_workload_names(),
    }
    assert "0.80275" in out


def test_list_as_json_holds_the_same(command: CLI) -> None:
    records = json.loads(command("list", "--format", "json")[1])["benchmarks"]
    assert {record["name"]: record["quality_target"] for record in records} == {
        name: load_benchmark(name).quality.target for name in shipped_names()
    }


@pytest.mark.parametrize("name", shipped_names())
def test_every_benchmark_can_be_shown_in_80_columns_and_as_json_and_toml(command: CLI, name: str) -> None:
    code, out, _ = command("show", name)
    assert code == 0
    assert max(map(display_width, out.splitlines())) <= 80
    content = json.loads(command("show", name, "--format", "json")[1])
    assert content["definition_sha256"] == load_benchmark(name).definition_sha256
    assert tomllib.loads(command("show", name, "--format", "toml")[1])["benchmark"]["name"] == name


def test_show_says_size_and_cadence_of_the_official_definition(command: CLI) -> None:
    content = json.loads(command("show", "dlrm_dcnv2", "--format", "json")[1])
    assert content["size"]["num_embedding_rows"] == 204_184_588
    assert content["size"]["num_lookups_per_sample"] == 214
    assert content["cadence"] == {
        "global_batch_size": 65536,
        "steps_per_epoch": 64013,
        "steps_between_evals": 3200,
    }


def test_show_reads_a_users_file_and_escapes_what_it_holds(command: CLI, tmp_path: Path) -> None:
    text = read_definition_text(load_benchmark("dlrm_tiny").path)
    text = text.replace('name = "dlrm_tiny"', 'name = "mine"').replace('title = "', 'title = "\\u001b[31mred ')
    (tmp_path / "mine.toml").write_text(text)
    code, out, _ = command("show", "./mine.toml")
    assert code == 0
    assert "\x1b" not in out
    assert r"\x1b[31mred" in out


@pytest.mark.parametrize("arguments", [("show", "dlrm_smal"), ("show", "nowhere.toml"), ("show",), ("list", "extra")])
def test_what_cannot_be_shown_exits_2_with_one_message(command: CLI, arguments: tuple[str, ...]) -> None:
    code, out, err = command(*arguments)
    assert (code, out) == (2, "")
    assert "Traceback" not in err
    assert err


def test_an_unknown_benchmark_gets_a_suggestion(command: CLI) -> None:
    assert "Did you mean 'dlrm_small'?" in command("show", "dlrm_smal")[2]


def test_system_shows_33_fields_with_their_source(command: CLI) -> None:
    code, out, _ = command("system")
    assert code == 0
    first_words = [line.split()[0] for line in out.splitlines()[2:] if not line.startswith(" ")]
    assert tuple(first_words) == SYSTEM_FIELDS
    assert max(map(display_width, out.splitlines())) <= 80
    content = json.loads(command("system", "--format", "json")[1])
    assert tuple(content["fields"]) == tuple(content["provenance"]) == SYSTEM_FIELDS


def test_system_takes_fields_from_file_environment_and_option(
    command: CLI,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "c.toml").write_text('[submission]\ncooling = "air"\nsubmitter = "A"\n[train]\nx = 1\n')
    monkeypatch.setenv("DLRMBENCH_SUBMISSION_SW_NOTES", "tuned")
    arguments = ("system", "-c", "c.toml", "--submitter", "B", "-o", "out/mine.json")
    code, out, err = command(*arguments, "--format", "json")
    assert code == 0
    content = json.loads(out)
    assert content["provenance"]["cooling"] == "given (file c.toml [submission] cooling)"
    assert content["provenance"]["submitter"] == "given (--submitter)"
    assert content["fields"]["sw_notes"] == "tuned"
    assert "out/mine.json" in err
    written = json.loads((tmp_path / "out" / "mine.json").read_text())
    assert written == content["fields"]
    schema = json_schema(SystemRecord)
    jsonschema.Draft202012Validator(schema).validate(written)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[submission]\ncoling = 'air'", "Did you mean 'cooling'"),
        ("submission = 3", "expected a table"),
        ("[submission", "not valid TOML"),
        ("[submission]\nstatus = 'best'", "Preview"),
    ],
)
def test_a_wrong_submission_table_exits_2_and_names_the_file(
    command: CLI,
    tmp_path: Path,
    text: str,
    message: str,
) -> None:
    (tmp_path / "c.toml").write_text(text)
    code, out, err = command("system", "-c", "c.toml", "-o", "mine.json")
    assert (code, out) == (2, "")
    assert "c.toml" in err
    assert message in err
    assert not (tmp_path / "mine.json").exists()


@pytest.mark.parametrize("name", ["mine.txt", "taken.json"])
def test_system_refuses_an_output_that_it_cannot_write(command: CLI, tmp_path: Path, name: str) -> None:
    (tmp_path / "taken.json" / "x").mkdir(parents=True)
    code, _, err = command("system", "-o", name)
    assert code == 2
    assert name in err
    assert [path.name for path in tmp_path.iterdir()] == ["taken.json"]


def checks(*statuses: str) -> tuple[Check, ...]:
    return tuple(
        Check(name=f"check_{status}", value="v", status=status, why="It matters.", remedy="Do it.")
        for status in statuses
    )


def test_doctor_explains_warnings_and_only_strict_fails_on_them(
    command: CLI,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "harness.system.preflight.run_checks", lambda data, output: checks("ok", "warning", "unknown")
    )
    code, out, err = command("doctor")
    assert (code, err) == (0, "")
    assert out.count("It matters.") == out.count("Do it.") == 1
    code, strict_out, err = command("doctor", "--strict")
    assert (code, strict_out) == (6, out)
    assert "check_warning" in err
    assert "check_unknown" not in err


def test_doctor_prints_commands_and_runs_none(command: CLI, monkeypatch: pytest.MonkeyPatch) -> None:
    found = (*checks("ok"), Check(name="swap", value="1 GB used", status="warning", why="Slow.", remedy="Do it."))
    monkeypatch.setattr("harness.system.preflight.run_checks", lambda data, output: found)
    monkeypatch.setattr(subprocess, "Popen", None)
    code, out, err = command("doctor", "--fix")
    assert (code, err) == (0, "") and "# swap: 1 GB used\n# Do it.\n" in out and "swapon -a\n" in out
    assert command("doctor", "--fix", "--strict")[0] == 6
    assert command("doctor", "--fix", "--format", "json")[0] == 2


def test_strict_passes_when_nothing_warns(command: CLI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.system.preflight.run_checks", lambda data, output: checks("ok", "unknown"))
    assert command("doctor", "--strict")[0] == 0


def test_doctor_as_json_follows_its_schema_and_writes_nothing(command: CLI, tmp_path: Path) -> None:
    code, out, _ = command("doctor", "--format", "json")
    assert code == 0
    schema = json_schema(SystemChecks)
    jsonschema.Draft202012Validator(schema).validate(json.loads(out))
    assert list(tmp_path.iterdir()) == []


def test_colour_only_on_a_terminal_and_never_with_no_color(monkeypatch: pytest.MonkeyPatch, command: CLI) -> None:
    monkeypatch.setattr("harness.system.preflight.run_checks", lambda data, output: checks("ok", "warning"))
    assert "\x1b" not in command("doctor")[1]
    monkeypatch.setattr("click.utils.should_strip_ansi", lambda stream, color=None: False)
    assert "\x1b[32mok\x1b[0m" in command("doctor")[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in command("doctor")[1]


@pytest.mark.slow
def test_a_reader_that_leaves_early_is_no_defect_and_no_success(tmp_path: Path) -> None:
    """A gate in a pipe, such as `check … | head` under pipefail, may not pass because its reader left."""
    process = subprocess.Popen(
        [sys.executable, "-m", "harness", "list"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr as stderr:
        assert stderr.read() == b""
    assert process.wait(timeout=HANG_S) == 141
