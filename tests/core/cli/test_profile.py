"""`dlrmbench profile`: one file, its tables, a trace, and errors that say what to do."""

import gzip
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from command import Command
from inside import run_inside, use_short_ceilings, use_workers_inside

from harness.config.run_config import read_set_option
from harness.experiment.attach import open_or_create
from harness.experiment.request import Request
from harness.foundation.errors import HarnessError
from reference_models.dlrm.phases import DLRMPhase
from rules.records.codec import json_schema
from rules.records.profile import ProfileRecord

EAGER_PHASES = [phase for phase in DLRMPhase if phase is not DLRMPhase.REPLAY]
"""Of a step that no CUDA graph replays."""


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory, data_root: Path) -> tuple[Path, Any, str]:
    """A profile of dlrm_tiny: the run set's folder, profile.json, and the text that was printed.

    It is measured in this process.
    """
    base = tmp_path_factory.mktemp("profile")
    with pytest.MonkeyPatch.context() as patch:
        use_workers_inside(patch)
        use_short_ceilings(patch)
        done = run_inside(
            base, "profile", "dlrm_tiny", "--data", data_root, "-o", base / "out", "--threads", 1, "--steps", 20,
            "--trace", base / "trace.json.gz",
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (folder,) = (base / "out").iterdir()
    return folder, json.loads((folder / "extra" / "profile.json").read_text(encoding="utf-8")), done.stdout


@pytest.mark.once("kind profile: a process is profiled")
def test_the_file_fits_its_schema_and_names_every_phase(profiled: tuple[Path, Any, str]) -> None:
    _, content, _ = profiled
    jsonschema.Draft202012Validator(json_schema(ProfileRecord)).validate(content)
    assert [phase["phase"] for phase in content["phases"]] == EAGER_PHASES
    assert all(phase["measured"]["time_s"] > 0 for phase in content["phases"])
    assert sum(phase["computed"]["share"] for phase in content["phases"]) == pytest.approx(1)


@pytest.mark.slow
def test_named_phases_cover_the_step_and_the_counts_are_the_benchmarks(profiled: tuple[Path, Any, str]) -> None:
    _, content, _ = profiled
    measured, computed = content["step"]["measured"], content["step"]["computed"]
    # How near to 1 depends on whom the machine holds up when; that all work has a named phase is tested by counting.
    assert 0 < measured["named_share"] <= 1
    assert measured["num_blocks"] * measured["steps_per_block"] >= 20
    assert measured["samples_per_s"] == pytest.approx(content["global_batch_size"] / measured["step_s"])
    assert computed["matmul_flop"] == sum(phase["computed"]["matmul_flop"] for phase in content["phases"])
    limits = computed["limits"]
    assert limits["all_phases"]["step_s"] >= limits["matmul"]["step_s"] >= limits["matmul_best_shape"]["step_s"] > 0
    assert content["ceilings"]["measured"]["transfer"] is None


@pytest.mark.slow
def test_the_trace_opens_in_perfetto_and_names_the_phases(profiled: tuple[Path, Any, str]) -> None:
    folder, _, _ = profiled
    trace = folder.parents[1] / "trace.json.gz"
    events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    names = {event.get("name") for event in events}
    assert {f"phase {phase}" for phase in EAGER_PHASES if phase is not DLRMPhase.OTHER} <= names
    assert all({"ph", "ts", "pid", "name"} <= event.keys() for event in events if event.get("ph") == "X")
    assert [path.name for path in trace.parent.iterdir() if path.name.startswith(".")] == []


@pytest.mark.slow
def test_the_text_says_what_is_measured_and_what_is_computed(profiled: tuple[Path, Any, str]) -> None:
    _, _, printed = profiled
    for words in ("sparse optimizer", "every phase at its ceiling", "time measured, all else computed", "Self,"):
        assert words in printed
    assert "Bound by" in printed
    assert "profile.json" in printed


@pytest.mark.slow
def test_a_profile_can_be_beside_runs_of_the_same_configuration_only(profiled: tuple[Path, Any, str]) -> None:
    folder, _, _ = profiled
    (data_dir,) = {Path(json.loads((folder / "extra" / "run_set.json").read_text())["dataset"]["dir"])}

    def find(*assignments: str, num_threads: int = 1) -> Path:
        words = [*assignments, f"runtime.threads={num_threads}"]
        overrides = [read_set_option(text) for text in words]
        request = Request(
            verb="profile",
            benchmark="dlrm_tiny",
            overrides=overrides,
            kinds={"profile": None},
            data=data_dir,
            output=folder,
            quiet=True,
        )
        return open_or_create(request)

    assert find() == folder
    with pytest.raises(HarnessError, match=r"another configuration \(train.global_batch_size differ"):
        find("train.global_batch_size=64")
    with pytest.raises(HarnessError, match=r"runtime.threads"):
        find(num_threads=2)


@pytest.mark.slow
def test_a_set_that_holds_a_profile_only_has_no_runs_to_resume(
    profiled: tuple[Path, Any, str], inside: Command
) -> None:
    done = inside("resume", profiled[0])
    assert done.returncode == 2
    assert "holds a profile measurement, which has no runs to complete" in done.stderr


def test_a_trace_into_a_missing_folder_is_refused_before_anything_is_written(
    inside: Command, tmp_path: Path, data_root: Path
) -> None:
    done = inside("profile", "dlrm_tiny", "--data", data_root, "-o", "out", "--trace", "nowhere/trace.json")
    assert done.returncode == 2
    assert "nowhere" in done.stderr
    assert not (tmp_path / "out").exists()
