"""`measure-system --bundle`: sets are measured, held to the bar, and packed without what names the place."""

import getpass
import json
import shutil
import socket
from pathlib import Path

import pytest
from bundle_builder import about_box, rates_text, write_bundle, write_runs, write_speed
from command import Command
from goldens import lay_data
from scripted_commands import run_scripted_command
from scripted_workers import Moment, ScriptedWorkers

from harness.extensions.system_model import bundle
from harness.extensions.system_model.bundle import pack_sets, without_places
from harness.foundation.errors import HarnessError
from reports.page.content import gather_everything
from reports.results import reference_systems
from reports.results.bundles import read_bundle, write_members
from rules.records.chain import digest_record, first_link
from rules.records.codec import decode
from rules.records.run_set import RunSetRecord

MEASURE = "measure-system --bundle box --benchmark dlrm_tiny -o box.zip"


@pytest.mark.slow
def test_all_sets_of_a_bundle_are_measured_and_packed(
    data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scripted runs differ by a CV of 8 % in speed."""
    monkeypatch.setattr("reports.results.reference_systems.MAX_CV", 0.2)
    folder = lay_data(data_root, tmp_path / "here")
    ended = run_scripted_command(MEASURE.split(), folder, ScriptedWorkers(Moment()))
    assert ended.code == 0 and "wrote box.zip" in ended.out, ended.err
    assert "warning: governor" in ended.err
    opened = reference_systems.open_system(folder / "box.zip")
    results = gather_everything([opened.folder], second_opinion=False).results
    told = {
        (str(result.asked.config["runtime.implementation"].value), result.kind) for result in results if result.asked
    }
    assert told == {(way, kind) for way in ("reference", "optimized") for kind in ("training", "throughput")}
    reference_systems.require_references(results)
    assert all(result.outcome in ("valid", None) and not result.problems for result in results)
    assert (opened.folder / "system.toml").is_file() and len(list((folder / "results").glob("dlrm_tiny-box-*"))) == 4
    reference_systems.close_systems()


def test_a_noisy_set_ends_it_and_no_bundle_is_made(data_root: Path, tmp_path: Path) -> None:
    folder = lay_data(data_root, tmp_path / "here")
    workers = ScriptedWorkers(Moment())
    ended = run_scripted_command(MEASURE.split(), folder, workers)
    assert (
        ended.code == 6
        and "its speed varies by a CV of 7.9 % between" in ended.err
        and "No bundle is made." in ended.err
    )
    assert not (folder / "box.zip").exists()
    assert not any("throughput" in job for job in workers.launches), "it ends with the first set that is refused"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--bundle", ".."), "expected words of a-z and 0-9"),
        (("--bundle", "a/b"), "expected words of a-z and 0-9"),
        (("--bundle", "A b"), "expected words of a-z and 0-9"),
        (("--bundle", ""), "expected words of a-z and 0-9"),
        (("--bundle", "box", "-o", "box.toml"), "ends in .zip"),
        (("--bundle", "box", "-o", "absent/box.zip"), "in a folder that is there"),
        (("--benchmark", "dlrm_tiny"), "--benchmark is for --bundle NAME"),
        (("-o", "its.zip"), "ends in .toml"),
    ],
)
def test_what_does_not_go_together_is_refused(words: tuple[str, ...], said: str, inside: Command) -> None:
    done = inside("measure-system", *words)
    assert done.returncode == 2 and said in " ".join(done.stderr.split()), done.stderr


def packed(*folders: Path, work: Path) -> Path:
    path = work / "box.zip"
    path.write_bytes(pack_sets("box", folders, rates_text()))
    return path


def test_what_is_packed_is_what_was_measured_without_host_and_folder(tmp_path: Path) -> None:
    data = {"dir": "/somewhere/data/tiny", "dataset_sha256": "d" * 64}
    place = write_runs(tmp_path / "set", 10_000.0, dataset=data)
    attempt = next(place.glob("extra/run_0/attempt_*/run.json"))
    startup = [{"kind": "pth", "path": "/usr/lib/python3/x.pth", "sha256": "0" * 64}]
    attempt.write_text(json.dumps(json.loads(attempt.read_text()) | {"startup": startup}))
    assert without_places('{"DLRMBENCH_DATA": "/data", "a": "/data"}') == '{"DLRMBENCH_DATA": "data", "a": "/data"}'
    attempt.with_name("spec.json").write_text("{}")
    files = read_bundle(packed(place, work=tmp_path)).files
    assert not any(name.endswith("spec.json") for name in files)
    (tmp_path / "run_set.json").write_bytes(files["set/extra/run_set.json"])
    record = decode(tmp_path / "run_set.json", RunSetRecord)
    assert isinstance(record, RunSetRecord) and record.dataset.dir == "tiny"
    assert json.loads(files[f"set/{attempt.relative_to(place)}"])["startup"][0]["path"] == "x.pth"
    logs = sorted(place.rglob("result_*.txt"))
    assert len(logs) == 5 and all(files[f"set/{log.relative_to(place)}"] == log.read_bytes() for log in logs)


def test_the_chain_of_runs_stays_whole_where_their_records_change(data_root: Path, tmp_path: Path) -> None:
    """Each record holds the digest of the one before, which changes where the host is left out of it."""
    folder = lay_data(data_root, tmp_path / "here")
    words = "run dlrm_tiny -n 3 --threads 1 -q --seed 5"
    assert run_scripted_command(words.split(), folder, ScriptedWorkers(Moment())).code in (0, 7)
    place = (folder / "results" / "latest").resolve()
    record = decode(place / "extra" / "run_set.json", RunSetRecord)
    assert isinstance(record, RunSetRecord)
    link = first_link(record)
    for index in range(3):
        (run,) = place.glob(f"extra/run_{index}/attempt_0/run.json")
        content = json.loads(run.read_text()) | {"previous_sha256": link}
        content["startup"] = [{"kind": "pth", "path": f"/{index}/x.pth", "sha256": None}]
        run.write_text(json.dumps(content))
        link = digest_record(run.read_bytes())
    (place / "extra" / "last_run").write_text(link)
    (tmp_path / "out").mkdir()
    write_members(read_bundle(packed(place, work=tmp_path)), tmp_path / "out")
    (result,) = gather_everything([tmp_path / "out"], second_opinion=False).results
    assert {finding.code for finding in result.verdict.findings if finding.severity == "error"} == set()
    texts = [content for name, content in read_bundle(tmp_path / "box.zip").files.items() if "run.json" in name]
    assert len(texts) == 3 and all(b'"path": "x.pth"' in text for text in texts)


@pytest.mark.parametrize("told", ["/home/somebody/data", socket.gethostname(), getpass.getuser()])
def test_what_names_a_folder_the_host_or_its_user_is_not_packed(told: str, tmp_path: Path) -> None:
    place = write_speed(tmp_path / "set", 10_000.0, environment={"variables": {"OMP_NOTE": told}})
    with pytest.raises(HarnessError, match="which no bundle may do") as error:
        packed(place, work=tmp_path)
    assert error.value.exit_code == 2 and told in str(error.value)


def test_a_variable_that_names_a_folder_is_refused_before_anything_is_measured(
    data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "harness.extensions.system_model.bundle.describe_environment", lambda: {"variables": {"PYTHONPATH": "/a/b"}}
    )
    folder, workers = lay_data(data_root, tmp_path / "here"), ScriptedWorkers(Moment())
    with pytest.raises(HarnessError, match="Unset the variable"):
        bundle.make_bundle("box", ["dlrm_tiny"], folder / "data", folder / "results", lambda text: None)
    assert not workers.launches and not (folder / "results").exists()


@pytest.mark.slow
def test_a_bundle_is_planned_on_by_its_rates(inside: Command, tmp_path: Path) -> None:
    path = packed(write_speed(tmp_path / "set", 2_000.0, **about_box()), work=tmp_path)
    shutil.copy(path, tmp_path / "copy.zip")
    (tmp_path / "its.toml").write_text(rates_text(2e9))
    done = inside(
        "plan-system", "dlrm_tiny", "--system", "its.toml", "--with", "box.zip", "--price-per-hour", 1,
        "--price-per-hour", 3, "--format", "json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    its, box = json.loads(done.stdout)["tables"][0]["rows"]
    assert (its[0], box[0]) == ("its.toml", "box") and box[1] > its[1] and box[6] == 3
    done = inside("plan-system", "dlrm_tiny", "--with", "box.zip", "--with", "copy.zip")
    assert done.returncode == 8 and "reference system box is given twice" in done.stderr


def test_a_bundle_without_rates_is_refused_by_plan_system(inside: Command, tmp_path: Path) -> None:
    write_bundle(tmp_path / "box.zip", write_speed(tmp_path / "set", 2_000.0), rates=None)
    done = inside("plan-system", "dlrm_tiny", "--with", "box.zip")
    assert done.returncode == 8 and "system.toml: found no such member" in done.stderr
