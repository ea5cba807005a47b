"""Sets of known systems that are shipped: listed, compared with, shown beside; and how they are made."""

import json
import re
import runpy
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from log_builder import make_records, usual_evals
from measured_builder import write_measured
from places import ROOT
from records_builder import system_part
from report_builder import write_run_set
from version_builder import next_version

from reports.comparison.comparability import ONE_SYSTEM, systems_differ
from reports.page.content import gather_everything
from reports.page.report import render_report
from reports.results import reference_systems
from reports.results.provenance import repetition_key
from rules.benchmarks.loader import load_benchmark
from rules.records.codec import decode
from rules.records.run_set import RunSetRecord

MAKER = runpy.run_path(str(ROOT / ".ci" / "reference_system.py"))
IMPLEMENTATIONS, KINDS = ("reference", "optimized"), ("training", "throughput")
Command = Callable[..., tuple[int, str, str]]
TINY = load_benchmark("dlrm_tiny")


def write_runs(root: Path, speed: float, *, seed: int = 0, processor: str | None = None, **changes: Any) -> Path:
    """Five runs to dlrm_tiny's target at about so many samples a second."""
    runs = [
        make_records(
            TINY,
            num_evals=usual_evals(TINY) + index % 2,
            seed=1000 + seed * 100 + index,
            start_ms=1_790_000_000_000 + (seed * 50 + index) * 600_000,
            throughput=speed * (1 + 0.002 * (index % 3)),
        )
        for index in range(5)
    ]
    return write_run_set(
        root, runs=runs, interrupted=False, changes={"environment": {"processor": processor}} | changes
    )


def write_speed(root: Path, speed: float, **about: Any) -> Path:
    write_measured(root, "throughput", [speed * (1 + 0.002 * index) for index in range(5)], **about)
    path = root / "extra" / "throughput.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"data_kind": "click_log"}))
    return root


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy with one reference system, `box`: runs to the target and throughput of dlrm_tiny."""
    folder = tmp_path / "site-packages" / "reference_systems"
    monkeypatch.setattr(reference_systems, "FOLDER", folder)
    fields = {"host_processor_model_name": "AMD EPYC", "host_processor_core_count": "2"}
    about = {"system": system_part("box", **fields), "environment": {"processor": "AuthenticAMD family 25 model 1"}}
    write_runs(folder / "box" / "dlrm_tiny-box-20261121T030000Z", 10_000.0, **about)
    write_speed(folder / "box" / "dlrm_tiny-box-speed-20261121T030000Z", 2_000.0, **about)
    return folder


def test_compare_holds_a_set_against_what_the_system_measured_alike(
    command: Command, shipped: Path, tmp_path: Path
) -> None:
    mine = write_runs(tmp_path / "mine", 20_000.0, seed=3)
    code, out, err = command("compare", mine, "--with", "box")
    assert (code, err) == (0, "")
    text = " ".join(out.split())
    assert text.startswith("SLOWER dlrm_tiny-box-20261121T030000Z against mine 2.00x slower: 2.00x from throughput")
    assert f"cross-system: the sides' systems differ, by what is recorded of them. {ONE_SYSTEM}" in text
    assert "new: a set of reference system box, measured elsewhere and before, on 2026-09-21." in text
    assert "differences of up to 20 % may be drift (assumed" in text, "nothing bounds drift between two systems"
    assert "--beside" not in text, "nobody can measure in turns with a shipped set"
    assert command("compare", mine, "--with", "box", "--fail-on", "regression")[0] == 5


def test_what_is_most_alike_comes_first(command: Command, shipped: Path, tmp_path: Path) -> None:
    def made_by(implementation: str) -> dict[str, Any]:
        return {"config": {"runtime.implementation": {"value": implementation, "source": "--set"}}}

    for name, seed in (("reference", 6), ("optimized", 7)):
        folder = shipped / "box" / f"dlrm_tiny-{name}-20261121T020000Z"
        write_runs(folder, 90_000.0, seed=seed, **made_by(name))
    shutil.rmtree(shipped / "box" / "dlrm_tiny-box-20261121T030000Z")
    mine = write_runs(tmp_path / "mine", 20_000.0, seed=3, **made_by("reference"))
    optimized = write_runs(tmp_path / "other", 20_000.0, seed=4, **made_by("optimized"))
    for base, first in ((mine, "dlrm_tiny-reference-"), (optimized, "dlrm_tiny-optimized-")):
        code, out, _ = command("compare", base, "--with", "box", "--format", "json")
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
    assert ONE_SYSTEM in text and "a set of reference system box, measured elsewhere and before" in text
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
    (place,) = shipped.glob("box/*-box-2026*")
    twin = shutil.copytree(place, tmp_path / "twin")
    found = gather_everything([place, twin], second_opinion=False).sets
    assert [reference_systems.system_of(result) for result in found] == ["box", None]
    assert found[0].hardware == found[1].hardware and systems_differ(*found) and systems_differ(*found[::-1])
    assert not systems_differ(found[0], found[0]) and not systems_differ(found[1], found[1])


@pytest.mark.slow
def test_sets_of_ones_own_show_no_drift_between_two_systems(command: Command, shipped: Path, tmp_path: Path) -> None:
    """Equal in name, configuration and code, and around the shipped set in time: nor does that repeat one of them."""
    (place,) = shipped.glob("box/*-box-2026*")
    record = json.loads((place / "extra" / "run_set.json").read_text())
    shutil.rmtree(place)
    alike = {"system": record["system"], "environment": record["environment"]}
    write_runs(place, 10_000.0, seed=4, **alike)
    mine = [write_runs(tmp_path / f"mine{seed}", 10_000.0 + seed, seed=seed, **alike) for seed in (0, 2, 6, 8)]
    assert (
        len({repetition_key(decode(folder / "extra" / "run_set.json", RunSetRecord)) for folder in (place, *mine)})
        == 1
    )
    code, out, _ = command("compare", mine[1], mine[2], "--with", "box", "--format", "json")
    own, with_box = json.loads(out)["comparisons"]
    assert code == 0 and [name.partition("-")[0] for name in own["band_sets"]] == ["mine0", "mine2", "mine6", "mine8"]
    assert with_box["band_sets"] == []
    code, out, _ = command("compare", mine[1], "--with", "box", "--repeated", tmp_path, "--format", "json")
    assert code == 0 and json.loads(out)["comparisons"][0]["band_sets"] == []


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
    assert code == 2 and "bx: is no reference system. Did you mean 'box'?" in err
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


# What is shipped with this copy, and how it comes about.


@pytest.mark.parametrize("name", reference_systems.system_names())
def test_no_file_of_a_shipped_system_is_changed_by_hand(name: str) -> None:
    folder = reference_systems.find_system(name)
    assert (folder / MAKER["SUMS"]).read_text() == MAKER["sums_of"](folder), "make reference-system writes both"


@pytest.mark.parametrize("name", reference_systems.system_names())
def test_a_shipped_system_has_valid_sets_that_say_what_made_them_and_not_where(name: str) -> None:
    folder = reference_systems.find_system(name)
    results = gather_everything([folder], second_opinion=False).results
    told = {
        (str(result.asked.config["runtime.implementation"].value), result.kind) for result in results if result.asked
    }
    assert told == {(implementation, kind) for implementation in IMPLEMENTATIONS for kind in KINDS}
    for result in results:
        assert result.benchmark == "dlrm_small" and result.num_converged >= 5
        assert result.outcome in ("valid", None) and not result.problems
        assert result.asked is not None and result.asked.code_sha256 is not None
        assert result.asked.environment["processor"] and result.asked.system.fields["host_processor_model_name"]
        assert not Path(result.asked.dataset.dir).is_absolute()
    for path in filter(Path.is_file, folder.rglob("*")):
        assert re.findall(r'"/(?!sys/|proc/)[^"]*"', path.read_text()) == [], path
        assert set(re.findall(r'"host": "(.*)"', path.read_text())) <= {""}, path


def test_shipped_files_are_the_measured_ones_without_host_and_folder(tmp_path: Path) -> None:
    made, target = tmp_path / "results", tmp_path / "systems" / "box"
    target.mkdir(parents=True)
    (target / "old").write_text("")
    place = write_runs(made / "set", 10_000.0, dataset={"dir": "/somewhere/data/tiny", "dataset_sha256": "d" * 64})
    attempt = next(place.glob("extra/run_0/attempt_*/run.json"))
    text = json.dumps(json.loads(attempt.read_text()), indent=1).replace(
        '"example"', json.dumps(socket.gethostname())
    )
    attempt.write_text(text)
    (attempt.with_name("spec.json")).write_text("{}")
    MAKER["ship"](made, target)
    assert not (target / "old").exists() and not list(target.rglob("spec.json"))
    record = decode(target / "set" / "extra" / "run_set.json", RunSetRecord)
    assert isinstance(record, RunSetRecord) and record.dataset.dir == "tiny"
    copied = (target / attempt.relative_to(made)).read_text()
    assert copied == text.replace(f'"host": {json.dumps(socket.gethostname())}', '"host": ""') != text
    logs = sorted(place.rglob("result_*.txt"))
    assert len(logs) == 5 and all((target / log.relative_to(made)).read_bytes() == log.read_bytes() for log in logs)
    assert (target / MAKER["SUMS"]).read_text() == MAKER["sums_of"](target)
    victim = target / logs[0].relative_to(made)
    victim.write_text(victim.read_text().replace("1790", "1791", 1))
    assert (target / MAKER["SUMS"]).read_text() != MAKER["sums_of"](target), "an edited number shows"


@pytest.mark.parametrize("told", ["/home/somebody/data", None])
def test_what_names_a_folder_or_the_host_is_not_shipped(told: str | None, tmp_path: Path) -> None:
    made, target = tmp_path / "results", tmp_path / "systems" / "box"
    target.mkdir(parents=True)
    write_runs(made / "set", 10_000.0, environment={"variables": {"OMP_NOTE": told or socket.gethostname()}})
    with pytest.raises(ValueError, match="which no shipped file may do"):
        MAKER["ship"](made, target)
    assert list(target.parent.iterdir()) == [target] and not list(target.iterdir())


def test_a_name_that_is_no_folder_of_its_own_is_refused() -> None:
    for name in ("", "..", "a/b", "A b"):
        with pytest.raises(SystemExit, match="expected words"):
            MAKER["main"](name)
