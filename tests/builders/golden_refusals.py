"""What commands that drive runs refuse: impossible words, and folders that cannot be gone on with."""

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from golden_scenarios import TRAIN, Step, call, step

from harness import api
from harness.config.run_config import WORLD_SOURCE


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A command that writes nothing: what it is given, and what has been done to the folder before."""

    step: Step
    variables: Mapping[str, str] = field(default_factory=dict)
    before: Callable[[Path], object] = lambda folder: None
    within: Callable[[Path], AbstractContextManager[object]] = lambda folder: nullcontext()


MADE = (
    step(f"{TRAIN} -n 1 -q --name set"),
    step(f"{TRAIN} -n 1 -q --name twice"),
    step(f"{TRAIN} -n 1 -q --name twice"),
    step(f"{TRAIN} --throughput 10 -q --name speed"),
    step(f"{TRAIN} --quality 2000 -q --name good"),
    step("profile dlrm_tiny --threads 1 -q --name where"),
    step("sweep dlrm_tiny -n 1 -q --threads 1 --name matrix --axis train.opt_base_learning_rate=0.03,0.06"),
    step("run --beside set --threads 1 -n 1 -q --name both --seed 9"),
)
"""What is there when the refused commands come."""

RECORD = "extra/run_set.json"
IN_A_WORLD = {"RANK": "0", "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "x"}
SWEEP = "sweep dlrm_tiny --threads 1"
MANY = ",".join(map(str, range(1, 40)))
RATE = "--axis train.opt_base_learning_rate"


def refusals(*lines: str, **variables: str) -> tuple[Refusal, ...]:
    return tuple(Refusal(step=Step(words=line), variables=variables) for line in lines)


def after(change: Callable[[Path], object], *lines: str) -> tuple[Refusal, ...]:
    """Refusals of the first line after a change, and of the others."""
    first, *others = lines
    return (Refusal(step=Step(words=first), before=change), *refusals(*others))


def copied(name: str, new: str, change: Callable[[Path], object]) -> Callable[[Path], None]:
    """Copy a set, sweep or pair under another name, and change the copy."""

    def before(folder: Path) -> None:
        found = folder / "results" / name
        (source,) = [found] if found.exists() else (folder / "results").glob(f"*{name}-2*")
        shutil.copytree(source, folder / new)
        change(folder / new)

    return before


def changed(path: str, **members: object) -> Callable[[Path], None]:
    """Change members of a record."""

    def change(folder: Path) -> None:
        file = folder / path
        file.write_text(json.dumps({**json.loads(file.read_text()), **members}))

    return change


def by_another_interpreter(folder: Path) -> None:
    """Have the base be measured by another interpreter."""
    path = folder / "experiment.json"
    content = json.loads(path.read_text())
    content["configurations"][0]["python"] = "/other/python"
    path.write_text(json.dumps(content))


def emptied(path: str) -> Callable[[Path], object]:
    """Leave half a record."""
    return lambda folder: (folder / path).write_text("{")


def other_system(folder: Path) -> None:
    path = folder / "extra" / "run_set.json"
    content = json.loads(path.read_text())
    content["system"]["name"] = "another"
    path.write_text(json.dumps(content))


def other_definition(folder: Path) -> None:
    path = folder / "extra" / "definition.toml"
    path.write_text(path.read_text().replace("target = 0.905", "target = 0.9"))


def other_model(folder: Path) -> None:
    path = folder / "extra" / "definition.toml"
    path.write_text(path.read_text().replace('model = "dlrm"', 'model = "theirs"'))


def other_data(folder: Path) -> None:
    path = folder / "extra" / "run_set.json"
    content = json.loads(path.read_text())
    content["dataset"]["dataset_sha256"] = "e" * 64
    path.write_text(json.dumps(content))


def started_by_srun(folder: Path) -> None:
    path = folder / "extra" / "run_set.json"
    content = json.loads(path.read_text())
    content["config"]["runtime.ranks"]["source"] = WORLD_SOURCE
    content["num_runs"], content["seeds"] = 2, [*content["seeds"], 3]
    path.write_text(json.dumps(content))


def official(folder: Path) -> None:
    path = folder / "extra" / "run_set.json"
    content = json.loads(path.read_text())
    content["benchmark"]["status"] = "official"
    path.write_text(json.dumps(content))


def locked(path: str) -> Callable[[Path], AbstractContextManager[object]]:
    """Hold a lock file, as another process would."""

    @contextmanager
    def hold(folder: Path) -> Iterator[None]:
        (file,) = folder.glob(path)
        with file.open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield

    return hold


def held(line: str, path: str) -> Refusal:
    return Refusal(step=Step(words=line), within=locked(path))


def write_files(folder: Path) -> None:
    """Write what some of the commands are given."""
    (folder / "file").write_text("not a folder")
    (folder / "broken.json").write_text("{")
    (folder / "empty.json").write_text("{}")


COMMANDS: dict[str, tuple[Refusal, ...]] = {
    "run": (
        *refusals(
            "run nothing_such",
            f"{TRAIN} -n 0",
            f"{TRAIN} --throughput 10 --quality 100",
            f"{TRAIN} --throughput 10 --timeout 5",
            f"{TRAIN} --throughput 10 -n 3",
            f"{TRAIN} --quality 100 -n 2",
            f"{TRAIN} --quality 99999999",
            f"{TRAIN} --throughput 10 --keep-weights",
            f"{TRAIN} --python other/bin/python",
            f"{TRAIN} --max-runs 9",
            f"{TRAIN} --until 0",
            f"{TRAIN} --until much",
            f"{TRAIN} --until 5% --throughput 10",
            f"{TRAIN} --until 5% -n 3",
            f"{TRAIN} --until 5% -n 8 --max-runs 6",
            f"{TRAIN} --run-index 0",
            f"{TRAIN} --run-index 0 --throughput 10",
            f"{TRAIN} --run-index 0 --matmul empty.json",
            f"{TRAIN} --set model.top_mlp=[16,1]",
            f"{TRAIN} --set model.top_mlp=[16,1] --name dlrm_small",
            f"{TRAIN} --set train.nothing=1",
            f"{TRAIN} --set train.global_batch_size=99999999",
            f"{TRAIN} --device nothing",
            f"{TRAIN} --ranks 2",
            f"{TRAIN} --implementation nothing",
            f"{TRAIN} --strict-env",
            f"{TRAIN} -c nothing.toml",
            f"{TRAIN} --data nothing/there --set data.kind=criteo --name mine",
            "run dlrm_tiny --threads 99",
            "run dlrm_dcnv2 --device cpu -n 99",
            "run dlrm_dcnv2 --device cpu --until 5%",
            "run dlrm_tiny --threads 1 --format csv",
        ),
        *refusals(f"{TRAIN} -n 1", f"{TRAIN} --run-index 0 --ranks 3", **IN_A_WORLD),
        *refusals(f"{TRAIN} --run-index 0", f"{TRAIN} --until 5% --run-index 0", WORLD_SIZE="many"),
        *refusals(f"{TRAIN} --until 5% --run-index 0", WORLD_SIZE="1"),
        *refusals(f"{TRAIN} -o file", f"{TRAIN} -o file/below"),
        *refusals(*(f"{TRAIN} --matmul {name}.json" for name in ("nothing", "broken", "empty"))),
    ),
    "pair": (
        *refusals(
            "run --beside nothing",
            "run --beside data",
            "run --beside twice",
            "run --beside matrix",
            "run --beside both",
            "run --beside where",
            "run --beside set --until 5%",
            "run --beside set --max-runs 7",
            "run --beside set --run-index 0",
            "run --beside set --keep-weights",
            "run --beside set --throughput 10",
            "run --beside speed --quality 100",
            "run --beside speed --timeout 9",
            "run --beside speed -n 3",
            "run --beside set --division open",
            "run --beside set --set model.top_mlp=[16,1]",
            "run --beside set --set model.top_mlp=[16,1] --name other",
            "run dlrm_small --beside set",
            "run --beside set --strict-env",
            "run --beside set --threads 99",
            "run --beside set --device nothing",
        ),
        *refusals("run --beside set", **IN_A_WORLD),
        *after(copied("set", "other_definition", other_definition), "run --beside other_definition"),
        *after(copied("set", "other_model", other_model), "run --beside other_model"),
        *after(copied("set", "other_data", other_data), "run --beside other_data --threads 1"),
        *after(copied("set", "by_srun", started_by_srun), "run --beside by_srun"),
        *refusals("run --beside set -o file"),
    ),
    "resume": (
        *refusals(
            "resume nothing",
            "resume data",
            "resume twice",
            "resume set --python other/bin/python",
            "resume matrix --python other/bin/python",
            "resume speed -n 4",
            "resume where -n 2",
            "resume where",
            "resume both/base",
            "resume both --python other/bin/python",
        ),
        *after(copied("set", "long", changed(RECORD, num_runs=5, seeds=[1, 2, 3, 4, 5])), "resume long -n 3"),
        *after(copied("set", "foreign", other_system), "resume foreign"),
        *after(copied("set", "of_srun", started_by_srun), "resume of_srun"),
        *after(copied("set", "theirs", other_model), "resume theirs", "resume theirs --model theirs"),
        *after(copied("set", "official", official), "resume official -n 9"),
        *after(copied("set", "strict", changed(RECORD, command="dlrmbench run --strict-env")), "resume strict"),
        *after(copied("set", "broken", emptied(RECORD)), "resume broken"),
        *after(copied("both", "pair", lambda folder: None), "resume pair/new", "resume pair -n 1 --format csv"),
        *after(copied("both", "newer", changed("base/extra/run_set.json", code_sha256="d" * 64)), "resume newer"),
        *after(copied("both", "elsewhere", by_another_interpreter), "resume elsewhere"),
        *after(copied("both", "bad_pair", emptied("experiment.json")), "resume bad_pair"),
        *after(copied("matrix", "bad_sweep", emptied("experiment.json")), "resume bad_sweep"),
        held("resume set", "results/dlrm_tiny-set-*/extra/lock"),
        held("resume speed", "results/dlrm_tiny-speed-*/extra/lock"),
        held("resume matrix", "results/sweep-matrix-*/lock"),
        held("resume both -n 2", "results/beside-both-*/lock"),
        held("resume set -n 2", "results/dlrm_tiny-set-*/extra/lock"),
    ),
    "sweep": refusals(
        "sweep dlrm_tiny",
        f"{SWEEP} --axis nothing",
        f"{SWEEP} {RATE}=0.03,0.03",
        f"{SWEEP} {RATE}=0.03 {RATE}=0.04",
        f"{SWEEP} {RATE}=0.03 --set train.opt_base_learning_rate=0.04",
        f"{SWEEP} --axis runtime.threads=1,2",
        f"{SWEEP} --axis model.embedding_dim=4,8",
        f"{SWEEP} --axis model.mlp=wide --throughput 10",
        f"{SWEEP} --axis train.eval_batch_size={MANY} --axis train.global_batch_size={MANY}",
        f"{SWEEP} {RATE}=0.03 --throughput 10 --timeout 3",
        f"{SWEEP} {RATE}=0.03 --throughput 10 -n 2",
        f"{SWEEP} {RATE}=0.03 --throughput 10 --keep-weights",
        f"{SWEEP} {RATE}=0.03 --fit",
        f"{SWEEP} {RATE}=0.03,0.06 --fit --quality 2000",
        f"{SWEEP} --axis model.embedding_dim=4,8 --fit --quality 2000",
        f"{SWEEP} {RATE}=0.03 --strict-env",
        f"{SWEEP} {RATE}=0.03 -o file",
        f"{SWEEP} {RATE}=0.03 --quality 99999999",
        f"{SWEEP} {RATE}=0.03 --device nothing",
        f"{SWEEP} {RATE}=0.03 --matmul nothing.json",
        f"{SWEEP} --axis runtime.implementation=reference,nothing",
        "sweep dlrm_tiny --axis runtime.threads=1,99",
        "sweep nothing_such --axis runtime.threads=1",
    ),
    "profile": refusals(
        "profile nothing_such",
        "profile dlrm_tiny --batch-sizes 1,2",
        "profile dlrm_tiny --also dlrm_small",
        "profile dlrm_tiny --forward --steps 4",
        "profile dlrm_tiny --forward --trace x.json",
        "profile dlrm_tiny --forward --batch-sizes 0",
        "profile dlrm_tiny --trace nothing/x.json",
        "profile dlrm_tiny --threads 99",
        "profile dlrm_tiny --device nothing",
        "profile dlrm_tiny -o file",
        "profile dlrm_tiny --threads 2 -o results/latest/base",
        "profile dlrm_tiny --threads 1 --set train.opt_base_learning_rate=0.04 -o results/latest/base",
    ),
    "api": tuple(
        Refusal(step=each)
        for each in (
            call("run('dlrm_tiny', throughput=1, quality=1)", api.run, "dlrm_tiny", throughput=1, quality=1),
            call("run('dlrm_tiny', throughput=0)", api.run, "dlrm_tiny", throughput=0),
            call("run('dlrm_tiny', max_runs=3)", api.run, "dlrm_tiny", max_runs=3),
            call("run('dlrm_tiny', until=1.5)", api.run, "dlrm_tiny", until=1.5),
            call("run('dlrm_tiny', until=0.1, throughput=1)", api.run, "dlrm_tiny", until=0.1, throughput=1),
            call("run(beside='set', keep_weights=True)", api.run, beside="set", keep_weights=True),
            call("run(beside='set', until=0.1)", api.run, beside="set", until=0.1),
            call("run(beside='nothing')", api.run, beside="nothing"),
            call("run('dlrm_tiny', python='x')", api.run, "dlrm_tiny", python="x"),
            call("run('nothing')", api.run, "nothing"),
            call("sweep('dlrm_tiny', {})", api.sweep, "dlrm_tiny", {}),
            call(
                "sweep('dlrm_tiny', {'train.opt_base_learning_rate': [1]}, quality=1, keep_weights=True)",
                api.sweep,
                "dlrm_tiny",
                {"train.opt_base_learning_rate": [1]},
                quality=1,
                keep_weights=True,
            ),
            call("resume('nothing')", api.resume, "nothing"),
            call("resume('results/latest/base')", api.resume, "results/latest/base"),
            call("resume('results/latest', python='x')", api.resume, "results/latest", python="x"),
        )
    ),
}


def listing(folder: Path) -> dict[str, int]:
    """Every file, folder and link, with its size; what only keeps others away is no file."""
    return {
        os.path.relpath(path, folder): path.lstat().st_size if path.is_file() else 0
        for path in folder.rglob("*")
        if path.name not in ("lock", ".lock")
    }
