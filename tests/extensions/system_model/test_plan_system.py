"""`plan-system` and `measure-system`: what is asked goes together, or is refused before anything is measured."""

import json
from pathlib import Path

import pytest
from command import Command

from harness.extensions.system_model import rates
from harness.measure.profile import measure_ceilings
from harness.planning.hardware.system import read_system

NUMBERS = {
    "memory": 1e11,
    "fp32": 5e10,
    "copy": 1e10,
    "rows": 1e9,
    "other": 1e10,
    "operator": 5e-6,
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    numbers = "".join(f'{{ of = "{of}", value = {value}, source = "<b>ours</b>" }},' for of, value in NUMBERS.items())
    (tmp_path / "mine.toml").write_text(f'title = "mine"\nnumbers = [{numbers}]\n')
    (tmp_path / "other.toml").write_text(f'title = "other"\nnumbers = [{numbers.replace("5e-06", "1e-3")}]\n')
    return tmp_path / "mine.toml"


@pytest.mark.slow
def test_two_systems_are_compared_by_step_and_cost(inside: Command, file: Path) -> None:
    done = inside(
        "plan-system", "dlrm_small", "--system", "mine.toml", "--price-per-hour", 2, "--system", "other.toml",
        "--price-per-hour", 1, "--implementation", "optimized", "--format", "json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    study = json.loads(done.stdout)
    assert study["kind"] == "system" and [row[0] for row in study["tables"][0]["rows"]] == ["mine.toml", "other.toml"]
    mine, other = study["tables"][0]["rows"]
    operators = next(each["value"] for each in study["parameters"] if each["name"] == "operators per step")
    assert other[1] - mine[1] == pytest.approx(operators * (1e-3 - 5e-6))
    assert mine[7] == pytest.approx(mine[3] / 3600 * 2) and other[7] == pytest.approx(other[3] / 3600)
    printed = inside("plan-system", "dlrm_small", "--system", "mine.toml")
    words = " ".join(printed.stdout.split())
    assert printed.returncode == 0 and "(modelled)" in words and "Price" not in words
    assert "ours" not in words and "--verbose also shows 'Where a step's time would go' and the " in words
    printed = inside("plan-system", "dlrm_small", "--system", "mine.toml", "--verbose")
    assert "ours" in printed.stdout and "Where a step's time would go" in printed.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--system", "absent.toml"), "absent.toml"),
        (("--system", "mine.toml", "--system", "mine.toml"), "twice"),
        (("--system", "mine.toml", "--price-per-hour", 1, "--price-per-hour", 2), "--price-per-hour"),
        (("--system", "mine.toml", "--price-per-hour", 0), "--price-per-hour"),
        (("--system", "this", "--price-per-hour", "here=2"), "expected the name of a system, each once: this"),
        (("--system", "mine.toml", "--price-per-hour", "nan"), "--price-per-hour"),
        ((), "--system"),
        (("--system", "mine.toml", "--set", "runtime.precision=bf16"), "no number of 'bf16'"),
        (("--system", "unsourced.toml"), "source"),
    ],
)
def test_what_does_not_go_together_is_refused(
    words: tuple[object, ...], said: str, inside: Command, file: Path
) -> None:
    (file.parent / "unsourced.toml").write_text('title = "x"\nnumbers = [{ of = "copy", value = 1e9 }]\n')
    done = inside("plan-system", "dlrm_tiny", *words)
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_only_data_that_is_there_knows_the_tables_of_some(inside: Command, file: Path) -> None:
    done = inside("plan-system", "dlrm_kaggle", "--system", "mine.toml")
    assert done.returncode == 8 and "dlrm_kaggle" in done.stderr, done.stderr


@pytest.mark.slow
def test_rates_are_measured_and_written_as_a_file(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_BUDGET_S", "_SHAPE_BUDGET_S"):
        monkeypatch.setattr(measure_ceilings, name, 0.0)
    monkeypatch.setattr(measure_ceilings, "COPY_BYTES", (1 << 18,))
    monkeypatch.setattr(rates, "_TABLE_BYTES", (1 << 16,))
    monkeypatch.setattr(rates, "_BUDGET_S", 0.0)
    file = tmp_path / "here.toml"
    code, out, err = command("measure-system", "-o", file)  # type: ignore[misc]
    assert (code, out) == (0, "") and f"wrote {file}" in err
    assert {each.of for each in read_system(file).numbers} >= {"fp32", "copy", "rows", "other", "operator"}
    code, out, _ = command("plan-system", "dlrm_tiny", "--system", file, "--format", "json")  # type: ignore[misc]
    assert code == 0 and json.loads(out)["tables"][0]["rows"][0][1] > 0


def test_measured_rates_are_toml(inside: Command) -> None:
    done = inside("measure-system", "-o", "here.json")
    assert done.returncode == 2 and ".toml" in done.stderr, done.stderr
