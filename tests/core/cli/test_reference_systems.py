"""Sets of known systems, shipped or in a bundle of anybody's: listed, compared with, shown beside."""

import itertools
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from bundle_builder import LOAD, about_box, write_box, write_bundle, write_runs, write_speed
from goldens import lay_data
from log_builder import make_records, usual_evals
from measured_builder import write_measured
from places import ROOT
from records_builder import system_part
from report_builder import write_run_set
from scripted_commands import run_scripted_command
from scripted_workers import Moment, ScriptedWorkers
from version_builder import next_version

from reports.comparison.comparability import ONE_SYSTEM, systems_differ
from reports.page.content import gather_everything
from reports.page.report import render_report
from reports.results import reference_systems
from reports.results.provenance import repetition_key
from rules.records.codec import decode
from rules.records.run_set import RunSetRecord

pytestmark = pytest.mark.usefixtures("temporary")
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy with one reference system, `box`: runs to the target and throughput of dlrm_tiny."""
    folder = tmp_path / "site-packages" / "reference_systems"
    monkeypatch.setattr(reference_systems, "FOLDER", folder)
    write_box(folder / "box.zip", tmp_path / "box")
    yield folder
    reference_systems.close_systems()


def test_compare_holds_a_set_against_what_the_system_measured_alike(
    command: Command, shipped: Path, tmp_path: Path
) -> None:
    mine = write_runs(tmp_path / "mine", 20_000.0, seed=3)
    code, out, err = command("compare", mine, "--with", "box")
    assert (code, err) == (0, "")
    text = " ".join(out.split())
    assert text.startswith("SLOWER dlrm_tiny-box-20261121T030000Z against mine 2.00x slower: 2.00x from throughput")
    assert f"cross-system: the recorded systems of the compared sets differ. {ONE_SYSTEM}" in text
    assert "new: this set is of reference system box, measured elsewhere on 2026-09-21." in text
    assert "differences of up to 30 % may be drift (assumed" in text, "nothing bounds drift between two systems"
    assert "--beside" not in text, "nobody can measure in turns with a shipped set"
    assert command("compare", mine, "--with", "box", "--fail-on", "regression")[0] == 5


@pytest.mark.slow
def test_what_is_most_alike_comes_first(command: Command, shipped: Path, tmp_path: Path) -> None:
    def made_by(implementation: str) -> dict[str, Any]:
        return {"config": {"runtime.implementation": {"value": implementation, "source": "--set"}}}

    sets = (
        write_runs(
            tmp_path / f"dlrm_tiny-{name}-20261121T020000Z", 10_000.0, seed=seed, **about_box(), **made_by(name)
        )
        for name, seed in (("reference", 6), ("optimized", 7))
    )
    write_bundle(shipped / "box.zip", *sets)
    mine = write_runs(tmp_path / "mine", 20_000.0, seed=3, **made_by("reference"))
    optimized = write_runs(tmp_path / "other", 20_000.0, seed=4, **made_by("optimized"))
    for base, first in ((mine, "dlrm_tiny-reference-"), (optimized, "dlrm_tiny-optimized-")):
        code, out, err = command("compare", base, "--with", "box", "--format", "json")
        assert code == 0, err
        comparisons = json.loads(out)["comparisons"]
        assert code == 0 and len(comparisons) == 2 and comparisons[0]["new"].startswith(first)
    text = " ".join(command("compare", mine, "--with", "box")[1].split())
    assert "mine Two systems, unlike in runtime.implementation (reference, new: optimized)." in text


def test_other_code_is_a_named_difference(command: Command, shipped: Path, tmp_path: Path) -> None:
    mine = write_speed(tmp_path / "mine", 2_500.0, environment={"commit": "abc"}, harness_version="0.2.0")
    code, out, _ = command("compare", mine, "--with", "box", "--format", "json")
    (comparison,) = json.loads(out)["comparisons"]
    assert code == 0 and comparison["new"].startswith("dlrm_tiny-box-speed") and comparison["is_cross_system"]
    assert {"name": "dlrmbench", "base": "0.2.0", "new": "0.1.0"} in comparison["changes"]


def test_another_version_of_the_definition_is_refused(command: Command, shipped: Path, tmp_path: Path) -> None:
    with next_version(tmp_path / "benchmarks") as (_, newer):
        about = {"name": "dlrm_tiny", "version": newer.version, "status": "own"}
        made = {"benchmark": about | {"definition_sha256": newer.definition_sha256}}
        speed = write_speed(tmp_path / "speed", 2_500.0, **made)
        code, out, _ = command("compare", speed, "--with", "box")
        assert code == 2 and f"different definition: {newer.definition_sha256} and {'a' * 64}" in " ".join(
            out.split()
        )
        runs = [
            make_records(newer, num_evals=usual_evals(newer), seed=2000 + index, start_ms=1_790_000_000_000 + index)
            for index in range(5)
        ]
        mine = write_run_set(tmp_path / "mine", runs=runs, interrupted=False)
        code, out, _ = command("compare", mine, "--with", "box")
        assert code == 2 and "different benchmark version" in out


def test_report_shows_the_systems_sets_beside(command: Command, shipped: Path, tmp_path: Path) -> None:
    mine = write_runs(tmp_path / "mine", 20_000.0, seed=3)
    page = tmp_path / "page.html"
    assert command("report", mine, "--with", "box", "-o", page)[0] == 0
    text = " ".join(re.sub("<[^>]+>", " ", page.read_text()).split())
    assert ONE_SYSTEM in text and "this set is of reference system box, measured elsewhere" in text
    assert "dlrm_tiny-box-speed" not in text, "nothing of the kind was given"
    code, out, _ = command("report", mine, "--with", "box", "--format", "json", "--no-second-opinion")
    assert code == 0
    names = [member["configuration"] for member in json.loads(out)["configurations"]]
    assert names == ["mine", "dlrm_tiny-box-20261121T030000Z"]
    speed = write_speed(tmp_path / "speed", 2_500.0)
    code, out, _ = command("report", speed, "--with", "box", "--format", "md")
    assert code == 0 and ONE_SYSTEM in out and "dlrm\\_tiny-box-speed" in out.replace("dlrm_tiny", "dlrm\\_tiny")


def test_a_set_of_a_shipped_system_is_of_another_one_whatever_it_is_called(shipped: Path, tmp_path: Path) -> None:
    """Virtual processors hide their names: two that are called alike need not be one."""
    (place,) = reference_systems.find_system("box").glob("*-box-2026*")
    twin = shutil.copytree(place, tmp_path / "twin")
    found = gather_everything([place, twin], second_opinion=False).sets
    assert [reference_systems.system_of(result) for result in found] == ["box", None]
    assert found[0].hardware == found[1].hardware and systems_differ(*found) and systems_differ(*found[::-1])
    assert not systems_differ(found[0], found[0]) and not systems_differ(found[1], found[1])


@pytest.mark.slow
def test_sets_of_ones_own_show_no_drift_between_two_systems(command: Command, shipped: Path, tmp_path: Path) -> None:
    """Equal in name, configuration and code, and around the shipped set in time: nor does that repeat one of them."""
    alike = about_box()
    place = write_runs(tmp_path / "again" / "dlrm_tiny-box-20261121T030000Z", 10_000.0, seed=4, **alike)
    write_bundle(shipped / "box.zip", place)
    mine = [write_runs(tmp_path / f"mine{seed}", 10_000.0 + seed, seed=seed, **alike) for seed in (0, 2, 6, 8)]
    assert (
        len({repetition_key(decode(folder / "extra" / "run_set.json", RunSetRecord)) for folder in (place, *mine)})
        == 1
    )
    code, out, _ = command("compare", mine[1], mine[2], "--with", "box", "--format", "json")
    own, with_box = json.loads(out)["comparisons"]
    assert code == 0 and [name.partition("-")[0] for name in own["repeated_sets"]] == [
        "mine0",
        "mine2",
        "mine6",
        "mine8",
    ]
    assert with_box["repeated_sets"] == []
    code, out, _ = command("compare", mine[1], "--with", "box", "--repeated", tmp_path, "--format", "json")
    assert code == 0 and json.loads(out)["comparisons"][0]["repeated_sets"] == []


def test_a_set_of_another_processor_is_of_another_system(command: Command, tmp_path: Path) -> None:
    """A stored set of an Intel Xeon, one of an AMD EPYC, and one of another EPYC of equal name."""
    stored = ROOT / "tests" / "data" / "sets" / "throughput_sweep"
    (xeon, *_) = sorted(path for path in stored.iterdir() if path.is_dir())
    epyc = system_part("1x-amd-epyc", host_processor_model_name="AMD EPYC", host_processor_core_count="2")
    zen3, zen4 = (
        write_speed(
            tmp_path / f"model-{model}", 2_000.0 + model, system=epyc, environment={"processor": f"25 {model}"}
        )
        for model in (1, 17)
    )
    for base, new in ((xeon, zen3), (zen3, zen4)):
        code, out, _ = command("compare", base, new, "--format", "md")
        assert code == 0 and ONE_SYSTEM in out and out.count("processor") >= 2, "said first, and a row"
        content = gather_everything([base, new], second_opinion=False)
        assert ONE_SYSTEM in render_report(content)
    again = write_speed(tmp_path / "again", 2_100.0, system=epyc, environment={"processor": "25 1"})
    older = write_speed(tmp_path / "older", 2_200.0, system=epyc)
    for new in (again, older):
        assert ONE_SYSTEM not in command("compare", zen3, new)[1]


def test_the_page_of_runs_on_two_systems_says_what_an_interval_is_of(tmp_path: Path) -> None:
    sides = [
        write_runs(tmp_path / name, 10_000.0, seed=seed, processor=f"AuthenticAMD family 25 model {seed}")
        for seed, name in enumerate(("zen2", "zen3"))
    ]
    assert ONE_SYSTEM in render_report(gather_everything(sides, second_opinion=False))
    assert ONE_SYSTEM in render_report(gather_everything(sides, second_opinion=False), output_format="md")
    assert ONE_SYSTEM not in render_report(gather_everything(sides[:1], second_opinion=False))


def test_list_names_the_systems_and_their_sets(command: Command, shipped: Path) -> None:
    code, out, _ = command("list", "--systems")
    assert code == 0
    assert "AMD EPYC (AuthenticAMD family 25 model 1), 2 cores each" in " ".join(out.split())
    (system,) = json.loads(command("list", "--systems", "--format", "json")[1])["systems"]
    assert system["name"] == "box" and system["fields"]["host_processor_core_count"] == "2"
    assert [(past["kind"], past["created_utc"][:10]) for past in system["sets"]] == [
        ("throughput", "2026-11-21"),
        ("training", "2026-09-21"),
    ]
    assert all(past["harness_version"] and past["code"] for past in system["sets"])
    shutil.rmtree(shipped)
    assert "No reference system" in command("list", "--systems")[1]
    assert json.loads(command("list", "--systems", "--format", "json")[1])["systems"] == []


def test_what_cannot_be_compared_with_is_refused(command: Command, shipped: Path, tmp_path: Path) -> None:
    mine = write_runs(tmp_path / "mine", 20_000.0)
    code, _, err = command("compare", mine, "--with", "bx")
    assert code == 2 and "bx: is no reference system, nor a bundle's file. Did you mean 'box'?" in err
    code, _, err = command("compare", mine)
    assert code == 2 and "--with NAME" in err
    quality = write_measured(tmp_path / "quality", "quality", [0.7] * 5)
    for verb in ("compare", "report"):
        code, _, err = command(verb, quality, "--with", "box")
        assert code == 2
        assert "has dlrm_tiny (throughput), dlrm_tiny (training); given is dlrm_tiny (quality)" in err
    code, _, err = command("report", mine, "--with", "box", "--format", "parquet", "-o", tmp_path / "tables")
    assert code == 2 and not (tmp_path / "tables").exists()
    assert not (tmp_path / "report.html").exists()


# What is shipped with this copy.


def test_a_bundle_is_taken_as_a_shipped_system_is(
    command: Command, shipped: Path, tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = write_runs(tmp_path / "mine", 20_000.0, seed=3)
    by_name = command("compare", mine, "--with", "box", "--format", "json")
    bundle = shutil.copy(shipped / "box.zip", tmp_path / "theirs.zip")
    shutil.rmtree(shipped)
    assert command("compare", mine, "--with", bundle, "--format", "json") == by_name and by_name[0] == 0
    code, out, _ = command("report", mine, "--with", bundle, "--format", "md")
    assert code == 0 and "| box (" in out
    assert command("compare", mine, "--with", "theirs")[0] == 2
    monkeypatch.setenv("DLRMBENCH_SYSTEMS", str(tmp_path))
    assert command("compare", mine, "--with", "theirs", "--format", "json") == by_name
    for where in ([], [tmp_path]):
        (system,) = json.loads(command("list", "--systems", *where, "--format", "json")[1])["systems"]
        assert system["name"] == "box" and system["path"] == str(bundle) and len(system["sets"]) == 2
    assert not list(temporary.iterdir())


@pytest.mark.slow
def test_a_run_says_where_its_machine_stands(
    data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scripted runs, whose speed has a CV of 8 %, held against those of a bundle and against one of another batch."""
    monkeypatch.setattr(reference_systems, "MAX_CV", 0.2)
    folder, words = lay_data(data_root, tmp_path / "here"), ("run", "dlrm_tiny", "-n", "5", "--threads", "1", "-q")
    assert run_scripted_command([*words, "--seed", "1"], folder, ScriptedWorkers(Moment())).code == 0
    write_bundle(tmp_path / "known" / "box.zip", (folder / "results" / "latest").resolve())
    known = {"DLRMBENCH_SYSTEMS": str(tmp_path / "known")}
    again = run_scripted_command([*words, "--seed", "2"], folder, ScriptedWorkers(Moment(9e3)), known)
    text = " ".join(again.out.split())
    assert again.code == 0 and "about as fast as box" in text and "1/4-" in text, again.out + again.err
    assert "Where this machine stands" in (folder / "results" / "latest" / "report.html").read_text()
    other = [*words, "--seed", "2", "--set", "train.global_batch_size=1024", "--name", "other"]
    assert "box" not in run_scripted_command(other, folder, ScriptedWorkers(Moment(2e4)), known).out
    assert "box" not in run_scripted_command([*words, "--seed", "3"], folder, ScriptedWorkers(Moment(3e4))).out


def test_list_says_which_bundle_cannot_be_used(command: Command, shipped: Path, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "broken.zip").write_bytes(b"PK")
    code, out, _ = command("list", "--systems", tmp_path / "own")
    text = " ".join(out.split())
    assert code == 0 and "Not used:" in text and "no ZIP archive that can be read" in text and "AMD EPYC" in text
    code, _, err = command("list", "--systems", tmp_path / "absent")
    assert code == 8 and "no such directory" in err


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"spread": 0.08}, "its speed varies by a CV of 6.3 % between processes, expected at most 3 %"),
        ({"load": None}, "the load while it was measured is not on record"),
        ({"load": {**LOAD, "load_avg_before": None}}, "the load while it was measured is not on record"),
    ],
)
def test_a_set_that_is_too_noisy_or_not_watched_is_no_reference(
    changes: dict[str, Any], said: str, command: Command, tmp_path: Path
) -> None:
    """However its bundle was made: the bar is held to where it is compared with."""
    mine = write_runs(tmp_path / "mine", 20_000.0, seed=3)
    bundle = write_box(tmp_path / "box.zip", tmp_path / "sets", **changes)
    for verb in ("compare", "report"):
        code, _, err = command(verb, mine, "--with", bundle)
        assert code == 8 and "reference system box: dlrm_tiny-box-20261121T030000Z" in err and said in err
        assert not list(Path(tempfile.gettempdir()).iterdir())


def test_each_shipped_system_has_valid_sets_that_say_what_made_them_and_not_where() -> None:
    """As many as are shipped, which may be none."""
    for name in reference_systems.system_names():
        folder = reference_systems.find_system(name)
        results = gather_everything([folder], second_opinion=False).results
        told = [
            (result.benchmark, str(result.asked.config["runtime.implementation"].value), result.kind)
            for result in results
            if result.asked
        ]
        benchmarks, kinds = ("dlrm_small", "dlrm_dcnv2_small"), ("training", "throughput")
        assert sorted(told, key=str) == sorted(
            itertools.product(benchmarks, ("reference", "optimized"), kinds), key=str
        )
        reference_systems.require_references(results)
        for result in results:
            assert result.outcome in ("valid", None) and not result.problems
            assert result.asked is not None and result.asked.code_sha256 is not None
            assert result.asked.environment["processor"] and result.asked.system.fields["host_processor_model_name"]
        for path in filter(Path.is_file, folder.rglob("*")):
            assert re.findall(r'"/(?!sys/|proc/)[^"]*"', path.read_text()) == [], path
            assert set(re.findall(r'"host": "(.*)"', path.read_text())) <= {""}, path


def test_what_is_shipped_takes_less_than_a_megabyte() -> None:
    assert sum(path.stat().st_size for path in reference_systems.find_bundles(reference_systems.FOLDER)) < 1 << 20
