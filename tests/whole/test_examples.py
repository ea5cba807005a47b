"""Every example does what it says, as it lies there: a model, an optimizer, own columns, a notebook."""

import json
from pathlib import Path
from typing import Any

import pytest
from command import Command
from log_builder import make_runs
from places import ROOT
from report_builder import write_run_set

from harness import api
from harness.config.catalog import load_entry
from reference_models.data.store.layout import CLICKS
from reference_models.registry import find_model, pin_code
from reports import frames
from rules.benchmarks.loader import load_benchmark
from rules.errors import InputError

pytestmark = pytest.mark.numeric

EXAMPLES = ROOT / "reference_models" / "examples"
NOTEBOOK = ROOT / "reports" / "examples" / "paper.ipynb"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def opt_name(results: Path) -> str:
    (log,) = results.rglob("result_0.txt")
    (line,) = [line for line in log.read_text().splitlines() if '"opt_name"' in line]
    return str(json.loads(line.partition(":::MLLOG ")[2])["value"])


@pytest.mark.slow
@pytest.mark.usefixtures("workers_inside")
def test_a_model_that_init_began_trains_at_the_first_try(inside: Command, here: Path, data_root: Path) -> None:
    done = inside("init", "--model", "mine.py")
    assert done.returncode == 0, done.stderr
    given = "./mine.toml --model mine.py:SPEC"
    assert done.stdout == f"wrote mine.py and mine.toml.\nNext: dlrmbench plan {given}, dlrmbench run {given}\n"
    assert "dlrmbench run ./mine.toml --model mine.py:SPEC" in Path("mine.py").read_text()
    ran = inside("run", *given.split(), "-n", "1", "--threads", "1", "--data", data_root, "-q")
    assert ran.returncode == 0 and "1 of 1 reached the target" in ran.stdout, ran.stderr
    planned = json.loads(inside("plan", *given.split(), "--format", "json", "--no-measure").stdout)
    assert planned["counts"]["training_flop_per_sample"] > planned["counts"]["forward_flop_per_sample"] > 0


@pytest.mark.slow
def test_what_own_code_prints_is_in_no_answer_and_hides_no_event(
    dlrmbench: Command, inside: Command, here: Path, data_root: Path
) -> None:
    assert inside("init", "--model", "mine.py", "--target", "0.6").returncode == 0
    text = Path("mine.py").read_text().replace("SPEC = ", 'print("at import")\nSPEC = ')
    logits = "        return super().compute_logits(model, batch)"
    loud = '        print(\'{"event": "mine"}\')\n        print(".", end="")\n'
    Path("mine.py").write_text(text.replace(logits, loud + logits))
    given = ("./mine.toml", "--model", "mine.py:SPEC")
    planned = inside("plan", *given, "--format", "json", "--no-measure")
    assert planned.returncode == 0 and "at import" in planned.stderr
    assert json.loads(planned.stdout)["counts"]["forward_flop_per_sample"] > 0
    done = dlrmbench("run", *given, "-n", "1", "--seed", "1", "--threads", "1", "--data", data_root, "-q")
    assert done.returncode == 0 and "1 of 1 reached the target" in done.stdout, done.stderr
    (said,) = here.rglob("stdout.txt")
    assert said.read_text().startswith('{"event": "mine"}\n.') and "run_start" not in said.read_text()
    (record,) = here.rglob("run.json")
    assert json.loads(record.read_text())["observed_s"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--model", "mine.txt"), "mine.txt: expected a file name that ends in .py"),
        (("--model", "dlrm.py"), "dlrm is a benchmark of dlrm, which dlrmbench has"),
        (("--model", "there.py"), "there.py: exists already"),
        ((), "Missing argument 'FILE', such as mine.toml"),
    ],
)
def test_a_model_that_cannot_begin_leaves_no_file(
    inside: Command, here: Path, arguments: tuple[str, ...], message: str
) -> None:
    Path("there.py").touch()
    done = inside("init", *arguments)
    assert done.returncode == 2 and message in done.stderr, done.stderr
    assert [path.name for path in here.iterdir()] == ["there.py"]


@pytest.mark.slow
def test_the_flop_of_a_model_are_counted_where_nobody_says_them(tmp_path: Path) -> None:
    """Of DeepFM's layers by hand: two per weight and sample forward, as much for each gradient but the input's."""
    data = load_entry("dlrm_tiny").workload.data
    model = find_model(pin_code(str(EXAMPLES / "deepfm.py") + ":SPEC"))
    assert model.has_measured_costs and model.batch is CLICKS.batch
    counted = model.costs.model(model.parse({"embedding_dim": 4, "mlp": [8]}), data)
    inputs = data.num_dense + 4 * data.num_sparse
    forward = 2 * (data.num_dense + inputs * 8 + 8)
    assert counted.forward_flop_per_sample == forward
    assert counted.training_flop_per_sample == 3 * forward - 2 * data.num_dense
    assert counted.num_dense_parameters == (data.num_dense + 1) + (inputs + 1) * 8 + 8 + 1
    assert data.num_embeddings is not None
    assert counted.num_embedding_parameters == 5 * sum(data.num_embeddings)


@pytest.mark.slow
@pytest.mark.usefixtures("workers_inside")
def test_the_optimizer_trains_and_the_log_names_it(inside: Command, here: Path, data_root: Path) -> None:
    code = f"{EXAMPLES / 'momentum.py'}:MomentumWorkload"
    given = ("--implementation", code, "-n", "1", "--threads", "1", "--division", "open", "--data", data_root, "-q")
    done = inside("run", "dlrm_tiny", *given)
    assert done.returncode == 0 and "1 of 1 reached the target" in done.stdout, done.stderr
    assert opt_name(here / "results") == "adagrad and own MomentumAdagrad"


@pytest.mark.slow
@pytest.mark.usefixtures("workers_inside")
def test_the_columns_are_prepared_and_trained_on(inside: Command, here: Path) -> None:
    definition = EXAMPLES / "clicks.toml"
    prepared = inside("data", "prepare", definition, "--train", EXAMPLES / "clicks.csv", "--data", here / "data")
    assert prepared.returncode == 0 and "4,000 read, 0 malformed" in prepared.stdout, prepared.stderr
    done = inside("run", definition, "-n", "1", "--threads", "1", "--data", here / "data", "-q")
    assert done.returncode == 0 and "1 of 1 reached the target" in done.stdout, done.stderr


@pytest.mark.slow
def test_the_notebook_makes_two_figures_and_a_table(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import matplotlib

    for number in range(2):
        write_run_set(here / "results" / f"one_{number}")
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert [cell for cell in notebook["cells"] if cell.get("outputs") or cell.get("execution_count")] == []
    names: dict[str, Any] = {}
    with matplotlib.rc_context({"backend": "agg"}):
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                exec("".join(cell["source"]), names)
    assert {path.name for path in here.glob("*.pdf")} == {"time_to_train.pdf", "quality.pdf"}
    printed = capsys.readouterr().out
    assert printed.count(r"\\") == 1 + len(names["data"].sets) and r"one\_0" in printed


def test_python_takes_the_names_that_commands_take(here: Path) -> None:
    base, new = (
        write_run_set(
            here / "results" / f"dlrm_tiny-{name}-20260101T000000Z",
            runs=make_runs(load_benchmark("dlrm_tiny"), start_ms=start_ms),
        )
        for name, start_ms in (("base", 1_790_000_000_000), ("new", 1_790_100_000_000))
    )
    assert api.compare("base", "new").equals(frames.compare(base.relative_to(here), new.relative_to(here)))
    assert api.results("new").sets.equals(frames.read(new).sets)
    with pytest.raises(InputError, match=r"nwe: no such file or directory.*Did you mean 'new'\?"):
        api.results("nwe")
