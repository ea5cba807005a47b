"""`dlrmbench profile --forward`: parts of answering a batch, their formulas, and several models on one page."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from command import Command
from inside import run_inside, use_short_ceilings, use_study_workers_inside

from harness.config.catalog import load_entry
from harness.measure.profile.forward import COLUMNS, Ceilings, forward_table
from reference_models.costs import PhaseCosts
from reference_models.dlrm.phases import LABELS, DLRMPhase
from reports.kinds.forward import WHOLE
from reports.page.content import ReportContent
from reports.page.report import render_report
from rules.records.codec import Damage, decode
from rules.records.profile import CopyRate, Rate
from rules.records.study import StudyRecord

MODELS = ("rm1_deeprecsys", "rm2_deeprecsys", "rm3_deeprecsys")
FORWARD_PHASES = (
    DLRMPhase.BOTTOM_MLP_FORWARD,
    DLRMPhase.EMBEDDING_FORWARD,
    DLRMPhase.INTERACTION_FORWARD,
    DLRMPhase.TOP_MLP_FORWARD,
)
SMALL = ("--set", "data.row_scale=0.0001", "--threads", "1")


def forward_costs(name: str, batch_size: int, **precisions: str) -> dict[str, PhaseCosts]:
    workload = load_entry(name).workload
    given = {"precision": "fp32", "table_precision": "fp32", **precisions}
    return workload.model_spec.costs.forward(workload.model, workload.data, batch_size=batch_size, **given)


@pytest.mark.parametrize("name", ["rm1_deeprecsys", "dlrm_tiny", "dlrm_dcnv2_small"])
def test_products_are_those_of_the_models_forward_pass(name: str) -> None:
    costs = forward_costs(name, 7)
    entry = load_entry(name).workload
    per_sample = entry.costs(entry.data.num_embeddings).forward_flop_per_sample
    assert sum(part.matmul_flop for part in costs.values()) == 7 * per_sample
    assert list(costs) == [phase for phase in LABELS if phase in costs and str(phase).endswith("_forward")]


def test_work_per_byte_of_layers_and_of_lookups_is_the_published_formula() -> None:
    """2BMN / (s (BM + MN + BN)), biases apart; and a quarter FLOP per byte of pooled fp32 rows, ids apart."""
    model, data = load_entry("rm3_deeprecsys").workload.model, load_entry("rm3_deeprecsys").workload.data
    batch = 32
    pairs = list(pairwise((data.num_dense, *model.bottom_mlp)))
    moved = sum(4 * (batch * m + m * n + batch * n + n) for m, n in pairs)
    assert forward_costs("rm3_deeprecsys", batch)[DLRMPhase.BOTTOM_MLP_FORWARD].bytes == moved
    for name in MODELS:
        lookups = forward_costs(name, batch)[DLRMPhase.EMBEDDING_FORWARD]
        ids = 8 * lookups.rows
        assert 0.2 < lookups.flop / (lookups.bytes - ids) < 0.25


@pytest.mark.parametrize("name", MODELS)
def test_fewer_bits_move_fewer_bytes(name: str) -> None:
    tables = [forward_costs(name, 4, table_precision=p)[DLRMPhase.EMBEDDING_FORWARD].bytes for p in TABLES]
    layers = [forward_costs(name, 4, precision=p)[DLRMPhase.TOP_MLP_FORWARD].bytes for p in ("fp32", "bf16", "int8")]
    assert tables == sorted(tables, reverse=True) and len(set(tables)) == len(TABLES)
    assert layers == sorted(layers, reverse=True) and len(set(layers)) == 3


TABLES = ("fp32", "fp16", "int8", "int4")


def test_a_table_is_its_times_and_costs_under_the_ceilings() -> None:
    copies = (
        CopyRate(bytes=size, bytes_per_s=Rate(best=rate, median=rate)) for size, rate in ((10, 40.0), (1000, 20.0))
    )
    ceilings = Ceilings(flop_per_s=100.0, copies=tuple(copies))
    times = {2: {DLRMPhase.BOTTOM_MLP_FORWARD: 1.0, DLRMPhase.EMBEDDING_FORWARD: 3.0}}
    costs = {
        2: {
            DLRMPhase.BOTTOM_MLP_FORWARD: PhaseCosts(matmul_flop=80, bytes=8),
            DLRMPhase.EMBEDDING_FORWARD: PhaseCosts(elementwise_flop=6, bytes=40, rows=2),
        }
    }
    table = forward_table("toy", times, costs, LABELS, ceilings)
    names = [column.name for column in table.columns]
    assert names == [name for name, _, _ in COLUMNS]
    bottom, embedding, whole = (dict(zip(names, row, strict=True)) for row in table.rows)
    assert (bottom["Share"], bottom["FLOP/B"], bottom["Reached"]) == (0.25, 10.0, 80.0)
    assert (bottom["Of the roof"], bottom["Bound by"]) == (0.8, "compute")
    assert embedding["Of the roof"] == pytest.approx(40 / 20 / 3) and embedding["Bound by"] == "memory"
    assert (whole["Part"], whole["Time"], whole["FLOP"], whole["Bytes"]) == (WHOLE, 4.0, 86, 48)


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, StudyRecord, str]:
    """The folder, the study and the text of the three RM models, with small tables."""
    base = tmp_path_factory.mktemp("forward")
    more = [word for name in MODELS[1:] for word in ("--also", name)]
    precisions = ("--set", "runtime.precision=int8", "--set", "runtime.table_precision=int4")
    with pytest.MonkeyPatch.context() as patch:
        use_short_ceilings(patch)
        use_study_workers_inside(patch)
        done = run_inside(base, "profile", MODELS[0], "--forward", *more, "--batch-sizes", "1,8", *SMALL, *precisions)
    assert done.returncode == 0, done.stderr
    (folder,) = (base / "results").iterdir()
    study = decode(folder / "study.json", StudyRecord)
    assert not isinstance(study, Damage), study
    return folder, study, done.stdout


@pytest.mark.slow
def test_three_models_are_on_one_page(profiled: tuple[Path, StudyRecord, str]) -> None:
    folder, study, text = profiled
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert [table.title.removesuffix("_forward") for table in study.tables] == list(MODELS)
    for name in MODELS:
        assert name in page and name in text
    assert page.count("<svg") >= 3 and "http://" not in page.replace("http://www.w3.org", "")
    values = {parameter.name: parameter.value for parameter in study.parameters}
    assert (values["precision"], values["table precision"], values["threads"]) == ("int8", "int4", 1)
    assert "Bound by" in text and str(folder.name) in text


@pytest.mark.slow
def test_parts_add_up_and_every_column_says_its_origin(profiled: tuple[Path, StudyRecord, str]) -> None:
    _, study, _ = profiled
    for table in study.tables:
        names = [column.name for column in table.columns]
        rows = [dict(zip(names, row, strict=True)) for row in table.rows]
        assert {row["Batch"] for row in rows} == {1, 8}
        for size in (1, 8):
            *parts, whole = [row for row in rows if row["Batch"] == size]
            assert [row["Part"] for row in parts] == [LABELS[phase] for phase in FORWARD_PHASES]
            assert whole["Part"] == WHOLE and whole["Time"] == pytest.approx(sum(row["Time"] for row in parts))
            assert sum(row["Share"] for row in parts) == pytest.approx(1)
            assert all(row["Time"] > 0 and row["Bytes"] > 0 for row in parts)
        assert {column.origin for column in table.columns} == {"given", "measured", "computed"}


@pytest.mark.slow
def test_a_page_of_anything_that_a_study_may_hold_can_be_written(profiled: tuple[Path, StudyRecord, str]) -> None:
    import msgspec

    _, study, _ = profiled
    hostile = msgspec.structs.replace(
        study,
        title="<script>alert(1)</script>",
        parameters=(),
        tables=(msgspec.structs.replace(study.tables[0], title="</svg>", rows=((None,) * 10, ("x",) * 10)),),
    )
    page = render_report(ReportContent(studies=(hostile,)))
    assert "<script>alert" not in page and "</svg></h" not in page


@pytest.mark.slow
def test_the_data_of_a_benchmark_is_used_and_json_is_the_study(
    data_root: Path, inside: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_short_ceilings(monkeypatch)
    use_study_workers_inside(monkeypatch)
    given = ("--batch-sizes", "16", "--data", data_root, "--threads", 1, "--format", "json")
    done = inside("profile", "dlrm_tiny", "--forward", *given)
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert content["kind"] == "forward" and content["benchmark"] == "dlrm_tiny"
    assert len(content["tables"][0]["rows"]) == 5


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--forward", "--steps", "3"), "leave them out of --forward"),
        (("--batch-sizes", "1,2"), "are of --forward"),
        (("--also", "dlrm_small"), "are of --forward"),
        (("--forward", "--batch-sizes", "1,0"), "whole numbers of 1 to"),
        (("--forward", "--batch-sizes", "x"), "whole numbers of 1 to"),
        (("--forward", "--set", "runtime.precision=tf32"), "of a model that is served"),
        (("--forward", "--also", "wukong_small"), "model 'wukong' does not report the phases of its forward pass"),
        (("--forward", "--device", "cuda", "--set", "runtime.table_precision=int4"), "on cuda"),
        (("--forward", "--also", "no_such_benchmark"), "no_such_benchmark"),
    ],
)
def test_what_cannot_be_profiled_is_a_usage_error(words: tuple[str, ...], message: str, inside: Command) -> None:
    done = inside("profile", "dlrm_tiny", *words)
    assert done.returncode == 2 and message in done.stderr, done.stderr
