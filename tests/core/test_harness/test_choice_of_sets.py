"""What was chosen for a set is on record, and is used again by all that repeats it; `--matmul` gives it."""

import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sweep_builder import FastWorkers, use_fast_workers
from waiting import needs_two_cpus

from harness import api
from harness.autotune import tuning as choosing
from harness.autotune.choices import Candidates, find_candidates
from harness.experiment.executors import job_members
from harness.experiment.loop import complete
from harness.foundation.errors import ExitCode, HarnessError
from harness.run_sets.folder import RunSet, open_run_set
from reference_models.fused.choice import convert_choice
from reports.comparison.comparability import list_changes
from reports.comparison.sources import read_results
from reports.results.provenance import repetition_key
from reports.results.records import config_texts
from rules.benchmarks.loader import load_benchmark
from rules.records.run_set import ChoiceRecord, MatmulRecord, RunSetRecord

THREADS = "runtime.threads"
ASK = find_candidates


def matmul_content(form: str = "onednn", num_samples: int = 512) -> dict[str, Any]:
    product = {"kind": "forward", "num_samples": num_samples, "num_in": 16, "num_out": 64}
    return {
        "num_threads": 2,
        "precision": "fp32",
        "torch_version": "2.13.0",
        "cpu": "a processor",
        "products": [
            {"product": product, "form": form, "seconds": {"mm": 2e-5, "onednn": 1e-5}},
            {"product": {**product, "kind": "data_gradient", "has_relu": True}, "form": "mm"},
        ],
    }


class Timing:
    """In place of timing: the most threads, up to `most`, and one form; what it was asked is noted."""

    def __init__(self) -> None:
        self.asked: list[Candidates] = []
        self.form, self.most = "onednn", 2
        self.workers = FastWorkers()

    def __call__(self, installation: Any) -> Any:
        return self.answer

    def answer(self, candidates: Candidates, earlier: MatmulRecord | None) -> ChoiceRecord:
        self.asked.append(candidates)
        given = candidates.given.record if candidates.given is not None else None
        timed = msgspec.convert(matmul_content(self.form), MatmulRecord) if candidates.chooses_matmul else None
        return ChoiceRecord(
            key=candidates.key,
            num_threads=min(candidates.thread_counts[-1], self.most),
            spin_count=candidates.spin_counts[-1],
            tried=(),
            matmul=given or timed,
            matmul_source=candidates.given.source if candidates.given is not None else timed and "measured",
            chosen_utc="2026-11-22T09:00:00+00:00",
        )


@pytest.fixture
def timing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Timing:
    """Workers that answer at once and timing that does, on two cores; what is kept is in tmp_path/data."""
    made = Timing()
    use_fast_workers(monkeypatch, made.workers)
    monkeypatch.setattr(choosing, "find_candidates", ASK)
    monkeypatch.setattr(choosing, "_Timing", made)
    monkeypatch.setattr("harness.autotune.choices.powers", lambda num_cores: (1, 2))
    monkeypatch.setattr(choosing, "is_system_busy", lambda *_: False)
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "KMP_BLOCKTIME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("harness.experiment.create.run_checks", lambda data, output: [])
    monkeypatch.setattr("harness.experiment.prepare.ensure_dataset", lambda data, root, **options: tmp_path / "data")
    monkeypatch.setattr("harness.experiment.prepare.open_dataset", lambda folder, data: _Opened())
    return made


class _Split:
    num_samples = load_benchmark("dlrm_tiny").data_samples("train_samples")


class _Opened:
    train = _Split()


def plain(record: msgspec.Struct | None) -> Any:
    """As the record is in a file."""
    return json.loads(msgspec.json.encode(record))


def record_of(folder: Path) -> RunSetRecord:
    return open_run_set(folder)[1]


OPTIMIZED = {"runtime.implementation": "optimized"}


def test_a_set_records_what_its_runs_are_given(timing: Timing, tmp_path: Path) -> None:
    folder = api.run("dlrm_tiny", throughput=4, settings=OPTIMIZED, output=tmp_path / "results")
    record = record_of(folder)
    assert record.choice is not None and record.choice.matmul is not None
    assert (record.num_threads, record.choice.spin_count) == (2, 300_000)
    assert record.environment["variables"]["GOMP_SPINCOUNT"] == "300000"
    launches = timing.workers.launches
    assert [launch["matmul"] for launch in launches] == [plain(record.choice.matmul)] * 5
    assert {launch["tables"]["runtime"]["threads"] for launch in launches} == {2}
    texts = config_texts(record)
    assert texts[THREADS] == ("2", "chosen by timing")
    assert texts["runtime.matmul"] == (f"{record.choice.matmul.digest[:12]}: 1 mm, 1 onednn", "chosen by timing")


@pytest.mark.slow
def test_the_processes_of_a_set_get_its_spinning_whatever_the_environment_says_later(
    timing: Timing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    folder = api.run("dlrm_tiny", runs=1, output=tmp_path / "results")
    plain = FastWorkers()

    def launch(spec_path: Path, **options: Any) -> Any:
        seen.append((options["num_threads"], options["variables"]))
        return plain(spec_path, **options)

    monkeypatch.setattr("harness.experiment.executors.launch_worker", launch)
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")
    api.resume(folder, runs=2)
    assert seen == [(2, {"GOMP_SPINCOUNT": "300000"})] and len(timing.asked) == 1


@pytest.mark.slow
def test_resume_uses_the_record_and_not_what_is_kept_beside_the_data(timing: Timing, tmp_path: Path) -> None:
    folder = api.run("dlrm_tiny", runs=1, settings=OPTIMIZED, output=tmp_path / "results")
    before = record_of(folder).choice
    for path in (tmp_path / "data" / "choices").glob("*.json"):
        path.unlink()
    timing.form = "mm"
    api.resume(folder, runs=2)
    assert record_of(folder).choice == before and len(timing.asked) == 1
    first, second = timing.workers.launches
    assert first["matmul"] == second["matmul"]


def test_a_record_whose_products_are_none_is_refused_by_name(timing: Timing, tmp_path: Path) -> None:
    folder = api.run("dlrm_tiny", runs=1, settings=OPTIMIZED, output=tmp_path / "results")
    path = folder / "extra" / "run_set.json"
    content = json.loads(path.read_text())
    content["num_runs"], content["seeds"] = 2, [*content["seeds"], 9]
    content["choice"]["matmul"]["products"][0]["form"] = "os.system"
    path.write_text(json.dumps(content))
    with pytest.raises(HarnessError, match=rf"{re.escape(str(path))}: choice.matmul .*os.system") as refused:
        complete(folder)
    assert refused.value.exit_code == ExitCode.INPUT


@pytest.mark.slow
def test_configurations_of_a_sweep_share_what_is_of_one_shape(timing: Timing, tmp_path: Path) -> None:
    axes = {"train.opt_base_learning_rate": [0.1, 0.2], "train.global_batch_size": [512, 256]}
    folder = api.sweep("dlrm_tiny", axes, throughput=4, output=tmp_path / "results")
    choices = [record_of(path.parents[1]).choice for path in sorted(folder.glob("*/extra/run_set.json"))]
    assert len(timing.asked) == 2 and choices[0] == choices[2] != choices[1] == choices[3]


@pytest.mark.slow
def test_a_sweep_over_ranks_gives_each_number_the_cores(
    timing: Timing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    axes = {"runtime.ranks": [1, 2]}
    monkeypatch.setattr("harness.measure.kinds.refuse_untrainable", lambda workload: None)
    folder = api.sweep(
        "dlrm_tiny", axes, throughput=4, settings={"runtime.implementation": "torchrec"}, output=tmp_path / "results"
    )
    assert timing.asked == []
    assert all(record_of(path.parents[1]).choice is None for path in folder.glob("*/extra/run_set.json"))


@pytest.mark.slow
def test_beside_a_set_both_sides_compute_as_it_did(timing: Timing, tmp_path: Path) -> None:
    base = api.run("dlrm_tiny", throughput=4, settings=OPTIMIZED, output=tmp_path / "results")
    for path in (tmp_path / "data" / "choices").glob("*.json"):
        path.unlink()
    timing.form = "mm"
    pair = api.run(beside=base, settings={"train.opt_base_learning_rate": 0.2}, output=tmp_path / "pairs")
    chosen = record_of(base).choice
    assert chosen == record_of(pair / "base").choice == record_of(pair / "new").choice and len(timing.asked) == 1
    other = api.run(beside=base, settings={"train.global_batch_size": 256}, output=tmp_path / "pairs")
    assert record_of(other / "base").choice == chosen != record_of(other / "new").choice


@pytest.mark.slow
def test_sides_have_equal_threads_unless_others_are_asked_for(timing: Timing, tmp_path: Path) -> None:
    base = api.run("dlrm_tiny", throughput=4, settings={"runtime.threads": 1}, output=tmp_path / "results")
    given = api.run(beside=base, settings={"runtime.threads": 2}, output=tmp_path / "pairs")
    assert [record_of(given / side).num_threads for side in ("base", "new")] == [1, 2]
    timing.most = 1
    base = api.run("dlrm_tiny", throughput=4, settings=OPTIMIZED, output=tmp_path / "results")
    timing.most = 2
    pair = api.run(beside=base, settings={"train.global_batch_size": 256}, output=tmp_path / "pairs")
    assert [record_of(pair / side).num_threads for side in ("base", "new")] == [1, 1]
    assert timing.asked[-1].thread_counts == (1,)


@pytest.mark.slow
def test_a_choice_made_on_a_busy_system_is_warned_of_until_it_is_made_again(
    timing: Timing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choosing, "is_system_busy", lambda *_: True)
    base = api.run("dlrm_tiny", throughput=4, settings=OPTIMIZED, output=tmp_path / "results")
    monkeypatch.setattr(choosing, "is_system_busy", lambda *_: False)
    pair = api.run(beside=base, settings={"train.opt_base_learning_rate": 0.2}, output=tmp_path / "pairs")
    fresh = api.run("dlrm_tiny", throughput=4, settings=OPTIMIZED, output=tmp_path / "results")
    told = [
        [check.value for check in record_of(folder).preflight if check.name == "choice by timing"]
        for folder in (base, pair / "base", pair / "new", fresh)
    ]
    assert told == [["made on a noisy machine, 2026-11-22"]] * 3 + [[]]


@pytest.mark.slow
def test_what_was_chosen_differently_is_a_difference_and_no_repetition(timing: Timing, tmp_path: Path) -> None:
    first = api.run("dlrm_tiny", throughput=4, settings=OPTIMIZED, output=tmp_path / "results")
    (path,) = (tmp_path / "data" / "choices").glob("*.json")
    path.unlink()
    timing.form = "mm"
    second = api.run("dlrm_tiny", throughput=4, settings=OPTIMIZED, output=tmp_path / "results")
    (base,), (new,) = read_results(first), read_results(second)
    assert [change.name for change in list_changes(base, new)] == ["runtime.matmul"]
    assert repetition_key(record_of(first)) != repetition_key(record_of(second))
    old = msgspec.structs.replace(record_of(first), choice=None)
    assert "runtime.matmul" not in config_texts(old), "sets of older versions say nothing of it"


def test_threads_that_differ_are_listed_with_the_times_that_chose_them(timing: Timing, tmp_path: Path) -> None:
    first = api.run("dlrm_tiny", throughput=4, output=tmp_path / "results")
    path = first / "extra" / "run_set.json"
    second = tmp_path / "results" / "second"
    shutil.copytree(first, second)

    def write(folder: Path, num_threads: int, one_s: float, two_s: float) -> None:
        content = json.loads(path.read_text())
        content["environment"]["variables"]["GOMP_SPINCOUNT"] = f"{num_threads}000"
        tried = [{"num_threads": n, "spin_count": 1000, "step_s": s} for n, s in ((1, one_s), (2, two_s))]
        content["choice"] |= {"num_threads": num_threads, "spin_count": 1000, "tried": tried}
        (folder / "extra" / "run_set.json").write_text(json.dumps(content | {"num_threads": num_threads}))

    def changes() -> dict[str, tuple[str | None, str | None]]:
        (base,), (new,) = read_results(first), read_results(second)
        return {change.name: (change.base, change.new) for change in list_changes(base, new)}

    write(second, 1, 0.0102, 0.01)
    write(first, 2, 0.0106, 0.01)
    assert changes() == {
        THREADS: ("2", "1"),
        "variables.GOMP_SPINCOUNT": ("2000", "1000"),
        "runtime.threads, timed": ("10 ms a step; 1 thread: 10.6 ms", "10.2 ms a step; 2 threads: 10 ms, a tie"),
    }
    assert config_texts(record_of(second))[THREADS][1] == (
        "chosen by timing: 10.2 ms a step; 2 threads: 10 ms, a tie"
    )
    write(second, 2, 0.02, 0.01)
    assert changes() == {}, "times alone are no difference"


def test_the_digest_is_of_products_and_forms_here_and_where_they_are_computed() -> None:
    record = msgspec.convert(matmul_content(), MatmulRecord)
    assert record.digest == convert_choice(matmul_content(), "here").digest
    slower = matmul_content()
    slower["products"][0]["seconds"] = {}
    slower["products"].reverse()
    assert msgspec.convert(slower, MatmulRecord).digest == record.digest
    assert msgspec.convert(matmul_content("mm"), MatmulRecord).digest != record.digest


def test_a_page_repeats_what_was_chosen(timing: Timing, tmp_path: Path) -> None:
    folder = api.run("dlrm_tiny", runs=1, settings=OPTIMIZED, output=tmp_path / "results")
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "export GOMP_SPINCOUNT=300000" in page and "--threads 2 --matmul matmul.json" in page
    assert "matmul.json, which says how 2 matrix products are computed" in page


@pytest.fixture
def give(timing: Timing, tmp_path: Path) -> Callable[..., Path]:
    """Run with a file of that content as --matmul; the set's folder."""

    def call(content: object, **settings: Any) -> Path:
        path = tmp_path / "mine.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        keys = {**OPTIMIZED, **{key.replace("__", "."): value for key, value in settings.items()}}
        return api.run("dlrm_tiny", throughput=4, settings=keys, matmul=path, output=tmp_path / "results")

    return call


@pytest.mark.slow
@needs_two_cpus
def test_products_that_are_given_are_used_and_on_record_with_their_file(
    give: Callable[..., Path], timing: Timing, tmp_path: Path
) -> None:
    folder = give(matmul_content())
    choice = record_of(folder).choice
    assert choice is not None and choice.matmul == msgspec.convert(matmul_content(), MatmulRecord)
    assert choice.matmul_source == f"file {tmp_path / 'mine.json'}" and choice.num_threads == 2
    assert timing.asked[0].thread_counts == (2,), "those that the products were timed on"
    assert "--matmul" in shlex.split(record_of(folder).command)
    again = give((folder / "extra" / "run_set.json").read_text())
    chosen = record_of(again).choice
    assert chosen is not None and chosen.matmul == choice.matmul


@pytest.mark.slow
def test_beside_a_set_of_given_products_they_are_given_again(
    give: Callable[..., Path], timing: Timing, tmp_path: Path
) -> None:
    base = give(matmul_content("onednn_transposed"))
    pair = api.run(beside=base, settings={"train.opt_base_learning_rate": 0.2}, output=tmp_path / "pairs")
    chosen = record_of(base).choice
    assert chosen == record_of(pair / "base").choice == record_of(pair / "new").choice


@pytest.mark.parametrize(
    ("content", "settings", "code", "expected"),
    [
        ('{\n "num_threads": ,}', {}, ExitCode.INPUT, r"mine\.json: .*line 2 column 17"),
        ("[]", {}, ExitCode.INPUT, r"mine\.json: found .*expected a JSON object"),
        ({**matmul_content(), "num_threads": 0}, {}, ExitCode.INPUT, r"mine\.json: num_threads: found 0, expected"),
        ({**matmul_content(), "products": [{}]}, {}, ExitCode.INPUT, r"mine\.json: products\[0\]\.product: found"),
        (matmul_content("exec"), {}, ExitCode.INPUT, r"mine\.json.*exec"),
        ({"schema_version": 1}, {}, ExitCode.INPUT, r"mine\.json: name: found nothing"),
        (matmul_content(num_samples=64), {}, ExitCode.USAGE, r"of 64 samples, expected some of 512, as train\."),
        (matmul_content(), {"train__global_batch_size": 256}, ExitCode.USAGE, "of 512 samples, expected some of 256"),
        ({**matmul_content(), "precision": "bf16"}, {}, ExitCode.USAGE, "precision is bf16, expected fp32"),
        (matmul_content(), {"runtime__implementation": "reference"}, ExitCode.USAGE, "reference has no choice"),
    ],
)
def test_a_file_that_is_no_choice_is_refused_before_anything_is_written(
    give: Callable[..., Path], tmp_path: Path, content: object, settings: dict[str, Any], code: int, expected: str
) -> None:
    with pytest.raises(HarnessError, match=expected) as refused:
        give(content, **settings)
    assert refused.value.exit_code == code and not (tmp_path / "results").exists()


def test_a_missing_file_is_refused(timing: Timing, tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"--matmul .*none\.json: found no file") as refused:
        api.run("dlrm_tiny", settings=OPTIMIZED, matmul=tmp_path / "none.json", output=tmp_path / "results")
    assert refused.value.exit_code == ExitCode.INPUT


def test_a_job_without_a_choice_is_one_that_older_versions_understand(timing: Timing, tmp_path: Path) -> None:
    folder = api.run("dlrm_tiny", runs=1, settings={THREADS: 1}, output=tmp_path / "results")
    run_set, record = open_run_set(folder)
    assert isinstance(run_set, RunSet) and record.choice is None and timing.asked == []
    assert "matmul" not in job_members(run_set, record, 0, folder)
    assert "matmul" not in timing.workers.launches[0]
