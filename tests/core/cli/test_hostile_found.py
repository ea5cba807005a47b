"""What hostile input once did to a verb, each as it was found: exit code 1, a wait, or codes on a terminal."""

import errno
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from log_builder import make_runs, write_set
from report_builder import write_run_set
from seams import READING, reading
from sweep_builder import FastWorkers

from rules.benchmarks.loader import load_benchmark, read_toml
from rules.errors import DefinitionError

TINY = load_benchmark("dlrm_tiny")
CommandLine = Callable[..., tuple[int, str, str]]
DEEP_TOML = "a = " + "[" * 100_000
READERS = ("check", "score", "report", "diff", "compare", *READING)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return write_run_set(tmp_path / "set", runs=make_runs(TINY, num_evals=3))


def arguments_of(verb: str, path: Path, tmp_path: Path) -> list[object]:
    more: dict[str, list[object]] = {
        "report": ["-o", tmp_path / "page.html", "--no-second-opinion"],
        "check": ["--no-second-opinion"],
        "diff": [path],
        "compare": [path],
    }
    return reading(verb, path, tmp_path / "out") if verb in READING else [verb, path, *more.get(verb, [])]


@pytest.mark.parametrize("verb", READERS)
def test_a_link_to_itself_costs_a_finding_and_not_the_tree(command: CommandLine, tmp_path: Path, verb: str) -> None:
    official = load_benchmark("dlrm_dcnv2")
    folder = write_set(tmp_path / "round" / "Example", official, make_runs(official, ours=False), ours=False)
    (folder / "result_11.txt").symlink_to("result_11.txt")
    code, out, err = command(*arguments_of(verb, tmp_path / "round", tmp_path))
    assert code in ((0, 8) if verb in READING else (0, 2, 3)), err
    if verb == "check":
        assert "a link that cannot be followed: Too many levels of symbolic links" in " ".join(out.split())


@pytest.mark.parametrize("verb", [*READERS, "resume"])
def test_a_definition_that_is_nested_too_deep_is_not_used(
    command: CommandLine, tree: Path, tmp_path: Path, verb: str
) -> None:
    (tree / "extra" / "definition.toml").write_text(DEEP_TOML)
    arguments = [verb, tree] if verb == "resume" else arguments_of(verb, tree, tmp_path)
    code, _, err = command(*arguments)
    assert code in ((0, 8) if verb in READING else (0, 2, 3)) and "internal error" not in err, err


def test_every_reader_of_definitions_refuses_depth_devices_pipes_and_size(
    command: CommandLine, tmp_path: Path
) -> None:
    deep, pipe, large = tmp_path / "deep.toml", tmp_path / "pipe.toml", tmp_path / "large.toml"
    deep.write_text(DEEP_TOML)
    os.mkfifo(pipe)
    with large.open("wb") as file:
        file.truncate(1 << 40)
    for path, why in ((deep, "deeper than"), (pipe, "not a regular file"), (large, "bytes, expected a definition")):
        with pytest.raises(DefinitionError, match=why):
            read_toml(path)
        code, _, err = command("plan", "dlrm_tiny", "-c", path)
        assert (code, why in err) == (2, True)
    code, _, err = command("plan", "dlrm_tiny", "-c", "/dev/zero")
    assert code == 2 and "not a regular file" in err
    levels = tmp_path / "levels.toml"
    levels.write_text("\n".join(f"[{'.'.join('a' * depth)}]" for depth in range(1, 200)))
    with pytest.raises(DefinitionError, match="deeper than"):
        read_toml(levels)


@pytest.mark.parametrize("number", ["9" * 5000, "0x" + "f" * 4000, "0b1" + "0" * 20_000, "0o" + "7" * 200_000])
def test_a_number_of_more_digits_than_python_reads_is_no_value(
    command: CommandLine, tmp_path: Path, number: str
) -> None:
    path = tmp_path / "digits.toml"
    path.write_text(f"schema_version = {number}")
    with pytest.raises(DefinitionError, match="not valid TOML"):
        read_toml(path)
    code, _, err = command("plan", path)
    assert code == 2 and "not valid TOML" in err
    if len(number) < 100_000:
        code, _, err = command("plan", "dlrm_tiny", "--no-measure", "--set", f"train.global_batch_size={number}")
        assert code == 2 and "internal error" not in err, err


@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "1e400"])
def test_what_is_no_finite_number_is_no_value_of_a_key(command: CommandLine, value: str) -> None:
    key = "train.opt_base_learning_rate"
    code, _, err = command("plan", "dlrm_tiny", "--no-measure", "--set", f"{key}={value}")
    assert code == 2 and f"{key} is" in err, err


def test_an_axis_of_no_section_names_those_that_are_there(command: CommandLine) -> None:
    code, _, err = command("sweep", "dlrm_tiny", "--axis", "nothing.at=1,2")
    assert code == 2 and "unknown section 'nothing'. Known: checkpoint, data, id_map, model," in " ".join(err.split())


def test_a_value_that_is_nested_deep_is_text(command: CommandLine) -> None:
    code, _, err = command("plan", "dlrm_tiny", "--no-measure", "--set", f"train.global_batch_size={'[' * 50_000}")
    assert code == 2 and "internal error" not in err, err[:300]


@pytest.mark.parametrize("verb", READERS)
def test_a_folder_that_is_named_like_a_log_holds_none(
    command: CommandLine, tree: Path, tmp_path: Path, verb: str
) -> None:
    logs = tree / "results" / "example"
    logs.rename(tree / "results" / "result_x.txt")
    code, _, err = command(*arguments_of(verb, tree, tmp_path))
    assert code in (0, 2, 3, 8) and "internal error" not in err, err


def test_half_a_character_where_a_word_is_expected_is_damage_that_names_the_member(
    command: CommandLine, tree: Path
) -> None:
    place = tree / "extra" / "run_1" / "attempt_0" / "run.json"
    place.write_text(json.dumps(json.loads(place.read_text()) | {"status": "\ud800"}))
    code, out, err = command("check", tree, "--no-second-opinion", "--format", "json")
    assert code in (0, 3), err
    (finding,) = [
        finding
        for finding in json.loads(out)["verdicts"][0]["findings"]
        if finding["message"].startswith("status is")
    ]
    assert (finding["code"], finding["expected"]) == ("RS116", "text of whole characters")


@pytest.mark.slow
@pytest.mark.parametrize("name", [b"b\xff", b"new\nline", b"\x1b[31mred", b"next\xc2\x85line"])
@pytest.mark.parametrize("form", ["json", "csv", "md", "html", "parquet"])
def test_a_folder_of_any_name_is_exported_and_its_name_reaches_no_terminal(
    dlrmbench: Callable[..., "subprocess.CompletedProcess[str]"],
    command: CommandLine,
    tree: Path,
    tmp_path: Path,
    name: bytes,
    form: str,
) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
    tree.rename(odd)
    code, out, err = command("report", odd, "--format", form, "-o", tmp_path / "out", "--no-second-opinion")
    assert code == 0, err
    if form not in ("html", "parquet"):
        code, out, err = command("report", odd, "--format", form, "--no-second-opinion")
        assert code == 0, err
        assert out.encode() and all(line.isprintable() for line in out.split("\n"))
    if form == "csv":
        assert len(out.splitlines()) == 1 + 5 + 1  # the runs and the interrupted attempt


def test_the_name_of_a_file_in_an_error_reaches_no_terminal(command: CommandLine) -> None:
    for verb in ("resume", "check", "score"):
        code, _, err = command(verb, "ex/a\x1b[31m\x07")
        assert code == 8 and r"ex/a\x1b[31m" in err
        assert all(line.isprintable() for line in err.split("\n"))
    code, _, err = command("check", "--format", "\x1b[31m")
    assert code == 2 and all(line.isprintable() for line in err.split("\n"))


def test_names_that_the_system_refuses_are_input_errors(command: CommandLine, tree: Path, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for verb, *arguments in (
        ("check", "a" * 300),
        ("score", "a" * 300),
        ("diff", "a" * 300, tree),
        ("check", tmp_path / "loop"),
        ("report", tree, "--no-second-opinion", "-o", tmp_path / ("a" * 300)),
        *(reading(verb, "a" * 300, tmp_path / "out") for verb in READING),
    ):
        code, _, err = command(verb, *arguments)
        assert code == 8 and ("too long" in err or "loop" in err), (verb, err)


@pytest.mark.slow
def test_a_tree_of_a_thousand_levels_is_walked(command: CommandLine, tmp_path: Path) -> None:
    here = Path.cwd()
    (tmp_path / "deep").mkdir()
    os.chdir(tmp_path / "deep")
    try:
        for _ in range(1200):
            Path("d").mkdir()
            os.chdir("d")
    finally:
        os.chdir(here)
    try:
        for verb in ("check", "score", "report"):
            code, _, err = command(verb, tmp_path / "deep")
            assert code in (0, 8) and "internal error" not in err, (verb, err)
        for verb in READING:
            code, _, err = command(*reading(verb, tmp_path / "deep", tmp_path / "out"))
            assert code in (0, 8) and "internal error" not in err, (verb, err)
    finally:  # whoever removes temporary folders may not get that deep
        subprocess.run(["rm", "-r", str(tmp_path / "deep")], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("closed", [1, 2])
def test_a_closed_stream_is_no_reason_to_fail(tree: Path, closed: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "harness", "check", str(tree), "--no-second-opinion"],
        stdout=subprocess.PIPE,
        preexec_fn=lambda: os.close(closed),
        check=False,
    )
    assert done.returncode in (0, 3)
    assert (b"dlrm_tiny" in done.stdout) == (closed == 2)


def test_a_damaged_sweep_is_refused_without_advice_to_complete_it(command: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "experiment.json").write_text('{"schema_version": 3}')
    code, _, err = command("resume", tmp_path)
    assert (
        code == 8
        and "experiment.json: schema_version: found 3, expected 1 (a newer dlrmbench wrote" in err
        and "Complete the sweep" not in err
    )


@pytest.mark.parametrize("key", ["train.global_batch_size", "runtime.threads", "train.eval_batch_size"])
def test_a_count_that_no_double_holds_is_refused_with_its_bound(command: CommandLine, key: str) -> None:
    code, _, err = command("plan", "dlrm_tiny", "--no-measure", "--set", f"{key}={10**400}")
    assert code == 2 and key in err and f"at most {2**53}" in " ".join(err.split()), err


@pytest.mark.slow
def test_a_set_with_the_results_of_another_is_not_finished(
    command: CommandLine, workers: FastWorkers, data_root: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    code, _, err = command("run", "dlrm_tiny", "-n", "1", "-q", "--data", data_root, "-o", out)
    assert code in (0, 3), err
    (folder,) = (path for path in out.iterdir() if not path.is_symlink())
    shutil.copytree(next(folder.glob("results/*/*")), folder / "copy")
    code, _, err = command("resume", folder, "-q")
    assert code == 8 and "holds results in" in err and str(folder / "copy") in err


def test_a_pipe_in_place_of_a_process_s_folder_is_removed_and_not_waited_for(
    command: CommandLine, workers: FastWorkers, data_root: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    code, _, err = command("run", "dlrm_tiny", "-n", "5", "--throughput", "5", "-q", "--data", data_root, "-o", out)
    assert code == 0, err
    (folder,) = (path for path in out.iterdir() if not path.is_symlink())
    shutil.rmtree(folder / "extra" / "throughput_3")
    os.mkfifo(folder / "extra" / "throughput_3")
    code, _, err = command("resume", folder, "-q")
    assert code == 0 and (folder / "extra" / "throughput_3").is_dir(), err


def test_a_pipe_in_place_of_a_measurement_s_record_is_refused_and_not_waited_for(
    command: CommandLine, workers: FastWorkers, data_root: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    code, _, err = command("run", "dlrm_tiny", "-n", "5", "--throughput", "5", "-q", "--data", data_root, "-o", out)
    assert code == 0, err
    (folder,) = (path for path in out.iterdir() if not path.is_symlink())
    record = folder / "extra" / "throughput.json"
    record.unlink()
    os.mkfifo(record)
    code, _, err = command("resume", folder, "-q")
    assert code == 8 and f"{record} is no regular file" in " ".join(err.split()), err
    assert stat.S_ISFIFO(record.stat().st_mode)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_a_set_s_page_takes_the_place_of_a_pipe_or_a_link(
    command: CommandLine, workers: FastWorkers, data_root: Path, tmp_path: Path, kind: str
) -> None:
    """A pipe has no reader, and a link in a stranger's set may lead to a file of the user's."""
    out, users = tmp_path / "out", tmp_path / "users"
    users.write_text("the user's")
    code, _, err = command("run", "dlrm_tiny", "-n", "1", "-q", "--data", data_root, "-o", out)
    assert code in (0, 3), err
    (folder,) = (path for path in out.iterdir() if not path.is_symlink())
    page = folder / "report.html"
    page.unlink()
    if kind == "pipe":
        os.mkfifo(page)
    else:
        page.symlink_to(users)
    again, _, err = command("resume", folder, "-q")
    assert again == code and page.is_file() and not page.is_symlink(), err
    assert users.read_text() == "the user's"


@pytest.mark.parametrize("arguments", [("report", "--no-second-opinion"), ("report", "--format", "csv"), ("system",)])
def test_no_verb_replaces_the_device_that_it_is_given_as_output(
    command: CommandLine, tree: Path, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    device = tmp_path / "null.json"
    try:
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        device.symlink_to("/dev/null")
    is_link = device.is_symlink()
    code, _, err = command(arguments[0], *([tree] if arguments[0] == "report" else []), *arguments[1:], "-o", device)
    assert code == 0, err
    assert device.is_symlink() == is_link and stat.S_ISCHR(device.stat().st_mode)


@pytest.mark.parametrize("verb", ["run", "report", "plan", *READING])
def test_a_folder_below_a_link_to_itself_is_no_place(
    command: CommandLine, workers: FastWorkers, tree: Path, tmp_path: Path, verb: str
) -> None:
    (tmp_path / "loop").symlink_to("loop")
    place = tmp_path / "loop" / "x"
    arguments: dict[str, list[object]] = {
        "run": ["dlrm_tiny", "--data", place],
        "report": [tree, "-o", place],
        "plan": ["dlrm_tiny", "--no-measure", "-c", place],
        **{each: reading(each, tree if "{out}" in words else place, place)[1:] for each, words in READING.items()},
    }
    code, _, err = command(verb, *arguments[verb])
    assert code in (2, 3, 8) and "internal error" not in err, err


@pytest.mark.parametrize("verb", ["compare", "diff"])
@pytest.mark.parametrize("is_first", [True, False])
def test_an_export_without_configurations_is_no_side(
    command: CommandLine, tree: Path, tmp_path: Path, verb: str, is_first: bool
) -> None:
    empty = tmp_path / "empty.json"
    empty.write_text('{"schema_version": 1, "configurations": []}')
    code, _, err = command(verb, *((empty, tree) if is_first else (tree, empty)))
    assert code == 8 and "holds no configuration" in err, err


def test_a_folder_that_may_not_be_read_is_an_input_error(
    command: CommandLine, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As any user but root meets it."""
    stat_of = Path.stat

    def refuse(path: Path, **options: bool) -> os.stat_result:
        if path == tree:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return stat_of(path, **options)

    monkeypatch.setattr(Path, "stat", refuse)
    for verb in ("check", "score"):
        code, _, err = command(verb, tree)
        assert code == 8 and "cannot be read: Permission denied" in err, err
