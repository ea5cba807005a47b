"""A training step by the rates of a system: as by hand, and each number with its source."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as change
from waiting import HANG_S

from harness.config.catalog import load_entry
from harness.config.run_config import Override, resolve
from harness.extensions.system_model import rates
from harness.extensions.system_model.model import (
    THIS,
    PhaseTime,
    StepCosts,
    count_costs,
    expect_unique_rows,
    find_epochs,
    model_step,
    system_study,
)
from harness.measure.profile import measure_ceilings
from harness.measure.profile.worker import count_unique_rows, read_ids
from harness.planning.hardware.system import ModelledSystem, SystemNumber, read_system, write_system
from harness.planning.plan import make_schedule
from reference_models.costs import Matmul, PhaseCosts
from reference_models.count_step import count_operators
from reference_models.data.registry import locate_dataset, open_dataset
from reference_models.process.errors import ConfigError
from reports.text.formatting import duration
from rules.errors import DefinitionError
from rules.records.study import StudyRecord

KINDS = ("memory", "fp32", "other", "copy", "rows", "operator")
GENERATED = ("dlrm_tiny", "dlrm_small", "dlrm_dcnv2_small", "wukong_small", "dlrmv4_small", "d2nn_small")


def made_system(title: str = "made", **values: float | Mapping[float, float]) -> ModelledSystem:
    """A system whose every rate is 1 where nothing else is given: a number, or one for each size."""
    given = {**dict.fromkeys(KINDS, 1.0), **values}
    numbers = (
        SystemNumber(of=of, size=size, value=value, source="a test")  # type: ignore[arg-type]
        for of, each in given.items()
        for size, value in (each.items() if isinstance(each, Mapping) else ((1.0, each),))
    )
    return ModelledSystem(title=title, numbers=tuple(numbers))


COSTS = StepCosts(
    precision="fp32",
    phases={
        "forward": PhaseCosts(
            matmul_flop=2 * 6 * 8 * 10, elementwise_flop=30, bytes=4 * (48 + 80 + 60) + 500, rows=7
        ),
        "update": PhaseCosts(elementwise_flop=90, bytes=64),
    },
    products=(Matmul("forward", "layer", 6, 8, 10),),
    operators={"forward": 3, "loop": 2},
    row_bytes=16,
    table_bytes=4096,
)


def test_a_step_is_what_its_parts_take_by_hand() -> None:
    system = made_system(fp32={1: 10.0, 36: 30.0}, copy=50.0, rows=8.0, other=3.0, operator=0.25)
    found = model_step(COSTS, system)
    assert list(found) == ["forward", "update", "loop"]
    # The least extent is 6, half way from 1 to 36 by its logarithm.
    assert found["forward"] == PhaseTime(pytest.approx(960 / 20), 10.0, 14.0, 10.0, 3, 0.75, pytest.approx(62.75))
    assert found["update"] == PhaseTime(0, 64 / 50, 0, 30.0, 0, 0, 30.0)
    assert found["loop"] == PhaseTime(0, 0, 0, 0, 2, 0.5, 0.5)


@given(
    st.fixed_dictionaries(
        {of: st.dictionaries(st.floats(1, 1e12), st.floats(1e-9, 1e15), min_size=1, max_size=4) for of in KINDS}
    )
)
def test_twice_the_rates_and_half_the_overhead_take_half_the_time(values: dict[str, dict[float, float]]) -> None:
    system = made_system(**values)
    faster = change(
        system,
        numbers=tuple(
            change(each, value=each.value * (0.5 if each.of == "operator" else 2.0)) for each in system.numbers
        ),
    )
    before, after = model_step(COSTS, system), model_step(COSTS, faster)
    assert {phase: each.time_s / 2 for phase, each in before.items()} == {p: each.time_s for p, each in after.items()}


def test_a_system_is_read_as_it_was_written(tmp_path: Path) -> None:
    system = change(made_system('A "CPU"\\, é\n', copy={1e6: 2.5e10, 3e8: 1e10}), numbers=made_system().numbers)
    (tmp_path / "system.toml").write_text(write_system(system))
    assert read_system(tmp_path / "system.toml") == system


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ('{ of = "copy", value = 1e9 }', "source"),
        ('{ of = "copy", value = 1e9, source = "" }', "source"),
        ('{ of = "copy", value = 0, source = "ours" }', "at least 1e-30"),
        ('{ of = "copy", value = -1, source = "ours" }', "at least 1e-30"),
        ('{ of = "copy", value = 1e-308, source = "ours" }', "at least 1e-30"),
        ('{ of = "copy", value = inf, source = "ours" }', "value"),
        ('{ of = "copy", value = nan, source = "ours" }', "value"),
        ('{ of = "copy", size = 0, value = 1, source = "ours" }', "size"),
        ('{ of = "fp8", value = 1, source = "ours" }', "of"),
        ('{ of = "copy", value = 1, source = "ours", note = "x" }', "note"),
    ],
)
def test_a_number_without_its_source_is_refused(numbers: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(f'title = "mine"\nnumbers = [{numbers}]\n')
    with pytest.raises(ConfigError, match=r"mine\.toml") as refused:
        read_system(file)
    assert said in str(refused.value) and "source =" in str(refused.value)


def test_what_is_no_file_of_a_system_is_refused(tmp_path: Path) -> None:
    for content in ("", 'title = "mine"', "title = 1\nnumbers = []", "numbers = 3"):
        (tmp_path / "mine.toml").write_text(content)
        with pytest.raises(ConfigError, match=r"mine\.toml"):
            read_system(tmp_path / "mine.toml")
    with pytest.raises(DefinitionError, match=r"absent\.toml"):
        read_system(tmp_path / "absent.toml")


def test_a_number_that_is_missing_is_named() -> None:
    for of in KINDS[1:]:
        system = made_system()
        lacking = change(system, numbers=tuple(each for each in system.numbers if each.of != of))
        with pytest.raises(ConfigError, match=f"made: has no number of '{of}'"):
            model_step(COSTS, lacking)
    with pytest.raises(ConfigError, match="no number of 'bf16', only of memory, fp32"):
        model_step(replace(COSTS, precision="bf16"), made_system())


@pytest.mark.slow
@pytest.mark.parametrize("name", GENERATED)
def test_operators_of_products_are_those_that_a_model_declares(name: str) -> None:
    """Stock PyTorch launches at least an operator for each product; hand-written code launches fewer of all."""
    workload = load_entry(name).workload
    model, spec = workload.model, workload.model_spec
    counts = {
        implementation: count_operators(
            spec.implementations[implementation].load, model, workload.data, workload.train, 64
        )
        for implementation in ("reference", "optimized")
    }
    products = spec.costs.matmuls(model, workload.data, 64)
    for phase in {product.phase for product in products}:
        assert counts["reference"][phase] >= sum(product.phase == phase for product in products)
    if spec.section.__name__ == "DLRMConfig":
        assert sum(counts["optimized"].values()) < sum(counts["reference"].values()) / 4


def test_the_number_of_operators_is_that_of_layers_and_tables() -> None:
    def count(**changed: object) -> dict[str, int]:
        overrides = [
            Override(key=key.replace("__", "."), value=value, source="here") for key, value in changed.items()
        ]
        workload = resolve("dlrm_tiny", overrides, derived_suffix="_test").workload
        load = workload.implementation.load
        return count_operators(load, workload.model, workload.data, workload.train, 64)

    one, deeper, more_tables = count(), count(model__top_mlp=[64, 64, 1]), count(data__num_tables=16)
    assert deeper["top_mlp_forward"] > one["top_mlp_forward"] and deeper["loss"] == one["loss"]
    assert more_tables["embedding_forward"] == 2 * one["embedding_forward"]
    assert more_tables["top_mlp_forward"] == one["top_mlp_forward"]


@pytest.mark.slow
def test_operators_are_counted_without_the_compiler_of_torch() -> None:
    code = (
        "import sys\nfrom harness.config.run_config import resolve\n"
        "from reference_models.count_step import count_operators\n"
        "workload = resolve('dlrm_tiny', []).workload\n"
        "count_operators(workload.implementation.load, workload.model, workload.data, workload.train, 64)\n"
        "print({'triton', 'torch._dynamo'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_S, check=True)
    assert done.stdout.strip() == "set()"


def test_unique_rows_are_about_those_of_real_batches(data_root: Path) -> None:
    workload = load_entry("dlrm_tiny").workload
    opened = open_dataset(locate_dataset(workload.data, data_root), workload.data)
    counted = count_unique_rows(read_ids(opened, workload.train.global_batch_size), opened.train.multi_hot)
    assert expect_unique_rows(workload, opened.train.num_embeddings) == pytest.approx(counted, rel=0.1)
    assert expect_unique_rows(load_entry("d2nn_small").workload, (8, 8)) == 0


@pytest.mark.parametrize("name", GENERATED)
def test_epochs_are_those_of_the_reference_at_the_batch_size(name: str) -> None:
    config = resolve(name, [])
    train, evaluated = config.workload.data.train_samples, config.workload.data.eval_samples
    assert train is not None and evaluated is not None
    epochs, why = find_epochs(config.benchmark, make_schedule(config, train, evaluated))
    assert epochs is not None and 0.05 < epochs <= 1 and name in why


def test_no_time_to_train_without_a_reference_point(tmp_path: Path) -> None:
    batch = Override(key="train.global_batch_size", value=64, source="here")
    systems = {"a": made_system(memory=1e12)}
    study = system_study(resolve("dlrm_tiny", [batch]), systems, {}, tmp_path, measure=False)
    assert study.tables[0].rows[0][3] is None
    assert "no reference convergence point at or around batch size 64" in study.findings[0]


def of(study: StudyRecord, name: str, row: int = 0) -> float:
    (place,) = (place for place, column in enumerate(study.tables[0].columns) if column.name == name)
    value = study.tables[0].rows[row][place]
    assert isinstance(value, float | int)
    return value


def test_a_study_is_the_sum_of_its_phases_and_names_every_source(tmp_path: Path) -> None:
    config = resolve("dlrm_small", [Override(key="runtime.implementation", value="optimized", source="here")])
    systems = {
        "slow": made_system(memory=1e12, fp32=1e10, copy=1e10, rows=1e9, other=1e10, operator=4e-6),
        "fast": made_system(memory=1e12, fp32=2e10, copy=2e10, rows=2e9, other=2e10, operator=2e-6),
    }
    study = system_study(config, systems, dict(zip(systems, (3.0, 5.0), strict=True)), tmp_path, measure=True)
    whole, parts = study.tables
    assert {column.origin for column in whole.columns[1:5]} == {"modelled"}
    for place, name in enumerate(systems):
        step_s = of(study, "Step", place)
        assert step_s == pytest.approx(sum(float(str(row[-1])) for row in parts.rows if row[0] == name))
        assert of(study, "Throughput", place) == pytest.approx(1024 / step_s)
        cost = of(study, "Time to train", place) / 3600 * (3.0, 5.0)[place]
        assert of(study, "Cost to train", place) == pytest.approx(cost)
    assert of(study, "Step") == 2 * of(study, "Step", 1)
    steps = 0.7528 * 960
    assert of(study, "Time to train") == pytest.approx(steps * of(study, "Step"), rel=0.1)
    assert "samples/s (modelled), a run takes" in study.findings[0] and "and costs " in study.findings[0]
    noted = [each for each in study.parameters if each.name.startswith(("slow", "fast"))]
    assert len(noted) == 2 * len(KINDS) and {(each.source, each.note) for each in noted} == {("file", "a test")}
    assert "Measured step" not in [column.name for column in whole.columns]


def test_where_no_run_fits_nothing_is_said_of_one(tmp_path: Path) -> None:
    systems = {"small": made_system(memory=1e6), "large": made_system(memory=1e12)}
    prices = dict.fromkeys(systems, 2.0)
    study = system_study(resolve("dlrm_tiny", []), systems, prices, tmp_path, measure=False, is_ranked=True)
    names = [column.name for column in study.tables[0].columns]
    rows = [dict(zip(names, row, strict=True)) for row in study.tables[0].rows]
    assert [row["System"] for row in rows] == ["large", "small"]
    assert [row["Cost to train"] is None for row in rows] == [row["Time to train"] is None for row in rows]
    assert rows[0]["Cost to train"] is not None and rows[1]["Cost to train"] is None
    assert study.findings[0] == (
        "By modelled cost to train, the least first: large. Not ranked, since no run fits there: small."
    )
    assert "(modelled), but no run fits: it needs" in study.findings[2] and "costs" not in study.findings[2]


def test_a_measured_step_is_said_beside_the_modelled_one(tmp_path: Path) -> None:
    parts = {
        THIS: (0.5, "2.00 times too fast"),
        "a": (1.25, "1.25 times too slow"),
        "b": (1.0, "less than 0.5 % off"),
    }
    config, systems = resolve("dlrm_tiny", []), {name: made_system(memory=1e12) for name in (*parts, "c")}
    modelled = system_study(config, systems, {}, tmp_path, measure=False)
    known_s = {name: of(modelled, "Step") / part for name, (part, _) in parts.items()}
    study = system_study(config, systems, {}, tmp_path, measure=False, known_s=known_s)
    for finding, alone, (name, (_, said)) in zip(study.findings, modelled.findings, parts.items(), strict=False):
        step = f"a step takes {duration(known_s[name])}: the model is {said}."
        assert finding == f"{alone.removesuffix('.')}; measured {'here' if name == THIS else 'there'}, {step}"
    assert study.findings[3:] == modelled.findings[3:] and "measured" not in study.findings[3]


def test_several_ranks_are_refused() -> None:
    workload = load_entry("dlrm_tiny").workload
    ranks = replace(workload, runtime=replace(workload.runtime, implementation="torchrec", ranks=2))
    with pytest.raises(ConfigError, match=r"runtime.ranks is 2"):
        count_costs(ranks, (10,) * 8, 5)


@pytest.mark.slow
def test_the_system_at_hand_is_measured_and_its_step_beside_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("_BUDGET_S", "_SHAPE_BUDGET_S"):
        monkeypatch.setattr(measure_ceilings, name, 0.0)
    monkeypatch.setattr(measure_ceilings, "COPY_BYTES", (1 << 18, 1 << 20))
    monkeypatch.setattr(rates, "_TABLE_BYTES", (1 << 16, 1 << 20))
    monkeypatch.setattr(rates, "_BUDGET_S", 0.0)
    said: list[str] = []
    system = rates.measure_rates(said.append)
    assert len(said) == 3
    assert {each.of for each in system.numbers} >= {*KINDS, "cores"}
    assert all(each.source.startswith(("measured ", "what this")) for each in system.numbers)
    (tmp_path / "here.toml").write_text(write_system(system))
    assert read_system(tmp_path / "here.toml") == system
    study = system_study(resolve("dlrm_tiny", []), {THIS: system}, {}, tmp_path, measure=True)
    assert of(study, "Modelled over measured") == of(study, "Step") / of(study, "Measured step")
    assert f"measured here, a step takes {duration(of(study, 'Measured step'))}: the model is" in study.findings[0]
