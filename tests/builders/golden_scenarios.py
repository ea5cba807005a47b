"""What the goldens show: short stories of commands that drive runs, each in a folder of its own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripted_workers import Ending

from harness import api

STARVED = Ending()
KILLED = Ending(exit_code=-9, words="")
CTRL_C = Ending(raises=KeyboardInterrupt)
CTRL_C_HALFWAY = Ending(raises=KeyboardInterrupt, leaves="half a log")
CTRL_C_AT_THE_END = Ending(raises=KeyboardInterrupt, leaves="log")
REFUSED = Ending(exit_code=2, words="train.opt_name: not here.")


@dataclass(frozen=True, kw_only=True)
class Step:
    """One command line, or one call of the Python interface, and what goes wrong with its jobs."""

    words: str
    """The command line; or how the call is written."""
    call: Callable[[], Path] | None = None
    endings: Mapping[int, Ending] = field(default_factory=dict)
    missing: frozenset[int] = frozenset()


def step(words: str, endings: Mapping[int, Ending] | None = None, missing: tuple[int, ...] = ()) -> Step:
    return Step(words=words, endings=endings or {}, missing=frozenset(missing))


def call(words: str, function: Callable[..., Path], *values: Any, **options: Any) -> Step:
    return Step(words=words, call=lambda: function(*values, **options))


LATEST = "results/latest"
TRAIN = "run dlrm_tiny --threads 1"
RATES = "--axis train.opt_base_learning_rate=0.03,0.06"
SWEEP = f"sweep dlrm_tiny --threads 1 {RATES}"
ONE = {"runtime.threads": 1}
TWO_RATES = {"train.opt_base_learning_rate": [0.03, 0.06]}
PARTS = "--axis model.mlp=8,64,512,2048"

TRAINING: dict[str, tuple[Step, ...]] = {
    "train": (step(f"{TRAIN} --seed 5"), step("resume latest --format json")),
    "train_options": (
        step(f"{TRAIN} -n 2 --format json -q --name mine --submitter me --division open --timeout 900"),
        step("resume mine -n 3 -q"),
    ),
    "train_tuned": (step("run dlrm_tiny -n 1"), step("run dlrm_tiny -n 2 --set train.opt_base_learning_rate=0.04")),
    "train_not_tuned": (step("run dlrm_tiny -n 1", {0: STARVED}),),
    "train_not_converged": (step(f"{TRAIN} -n 3", missing=(1, 2)), step("resume latest -n 4 -q", missing=(3,))),
    "train_timeout": (step(f"{TRAIN} -n 2 --timeout 0.5"),),
    "train_starved": (step(f"{TRAIN} -n 3", {1: STARVED}), step("resume latest")),
    "train_refused_by_worker": (step(f"{TRAIN} -n 2", {0: REFUSED}), step("resume latest --format json -q")),
    "train_killed_worker": (step(f"{TRAIN} -n 2", {1: KILLED}), step("resume latest", {0: KILLED})),
    "train_interrupted": (step(f"{TRAIN} -n 3", {1: CTRL_C}), step("resume latest", {0: CTRL_C_HALFWAY})),
    "train_interrupted_at_the_end": (step(f"{TRAIN} -n 2", {0: CTRL_C_AT_THE_END}), step("resume latest")),
    "until": (step(f"{TRAIN} --until 8% --max-runs 12 --seed 5"), step("resume latest -n 8")),
    "until_json": (step(f"{TRAIN} --until 8% -n 6 --seed 1 --max-runs 7 --format json -q"),),
    "until_interrupted": (step(f"{TRAIN} --until 8% --seed 5", {5: CTRL_C}), step("resume latest")),
    "until_not_converged": (step(f"{TRAIN} --until 1%", missing=(5,)), step("resume latest")),
    "keep_weights": (step(f"{TRAIN} -n 2 --keep-weights", {1: STARVED}), step("resume latest")),
    "grown": (step(f"{TRAIN} -n 2"), step("resume latest -n 6"), step("resume latest --format json")),
}

MEASURING: dict[str, tuple[Step, ...]] = {
    "throughput": (step(f"{TRAIN} --throughput 10 --seed 5"), step("resume latest --format json")),
    "throughput_changed": (step(f"{TRAIN} --throughput 10 --set model.embedding_dim=8 -n 6 -q --format json"),),
    "throughput_starved": (step(f"{TRAIN} --throughput 10", {2: STARVED}), step("resume latest")),
    "throughput_interrupted": (step(f"{TRAIN} --throughput 10", {0: CTRL_C}), step("resume latest", {4: CTRL_C})),
    "throughput_grown": (step(f"{TRAIN} --throughput 10"), step("resume latest -n 7 --format json")),
    "throughput_tuned": (step("run dlrm_tiny --throughput 10"),),
    "quality": (step(f"{TRAIN} --quality 2000 --seed 5"), step("resume latest -n 6 --format json")),
    "quality_starved": (step(f"{TRAIN} --quality 2000", {0: STARVED}), step("resume latest -q")),
    "profile": (step("profile dlrm_tiny --threads 1"),),
    "profile_into_a_set": (
        step(f"{TRAIN} -n 1 -q"),
        step(f"profile dlrm_tiny --threads 1 -o {LATEST} --trace trace.json"),
        step(f"profile dlrm_tiny --threads 1 -o {LATEST}", {0: STARVED}),
        step(f"profile dlrm_tiny --threads 2 -o {LATEST}"),
        step(f"profile dlrm_tiny --threads 1 --set train.opt_base_learning_rate=0.04 -o {LATEST}"),
    ),
    "profile_tuned": (step("profile dlrm_tiny -q --format md --steps 5"),),
}

BESIDE = "--threads 1 --seed 9"
PAIRS: dict[str, tuple[Step, ...]] = {
    "pair": (
        step(f"{TRAIN} -n 1 -q"),
        step(f"run --beside latest {BESIDE} --set train.opt_base_learning_rate=0.04"),
        step("resume latest -n 6 -q"),
    ),
    "pair_json": (
        step(f"{TRAIN} -n 1 -q"),
        step("run --beside latest --threads 2 -n 2 -q --format json --name both"),
    ),
    "pair_starved": (
        step(f"{TRAIN} -n 1 -q"),
        step(f"run --beside latest {BESIDE} -n 2", {1: STARVED}),
        step("resume latest", {0: CTRL_C}),
        step("resume latest"),
    ),
    "pair_not_converged": (step(f"{TRAIN} -n 1 -q"), step(f"run --beside latest {BESIDE} -n 2", missing=(1,))),
    "pair_of_benchmark": (step(f"{TRAIN} -n 1 -q"), step(f"run dlrm_tiny --beside latest {BESIDE} -n 1")),
    "pair_throughput": (
        step(f"{TRAIN} --throughput 10 -q"),
        step(f"run --beside latest {BESIDE} --set model.embedding_dim=8", {3: STARVED}),
        step("resume latest"),
        step("resume latest -n 6 --format json -q"),
    ),
    "pair_quality": (step(f"{TRAIN} --quality 2000 -q"), step(f"run --beside latest {BESIDE} --quality 4000 -q")),
    "pair_of_interpreters": (
        step(f"{TRAIN} -n 1 -q"),
        step(f"run --beside latest {BESIDE} -n 2 --python other/bin/python", {2: STARVED}),
        step("resume latest"),
        step("resume latest --python other/bin/python"),
    ),
    "pair_tuned": (step("run dlrm_tiny -n 1 -q"), step("run --beside latest --seed 9 -n 1")),
}

SWEEPS: dict[str, tuple[Step, ...]] = {
    "sweep": (step(f"{SWEEP} --seed 5"), step("resume latest --format json"), step("resume latest -n 6 -q")),
    "sweep_failure": (step(f"{SWEEP} -n 2", {1: STARVED}), step("resume latest --format csv"), step("resume latest")),
    "sweep_unprepared": (step("sweep dlrm_tiny --threads 1 -n 1 --axis train.global_batch_size=1024,99999999"),),
    "sweep_interrupted": (step(f"{SWEEP} -n 2", {2: CTRL_C}), step("resume latest -q --format md")),
    "sweep_not_converged": (step(f"{SWEEP} -n 2 -q", missing=(1,)),),
    "sweep_tuned": (step(f"sweep dlrm_tiny -n 1 {RATES}"),),
    "sweep_threads": (step("sweep dlrm_tiny -n 1 --axis runtime.threads=1,2 --format json --name threads"),),
    "sweep_keep_weights": (step(f"{SWEEP} -n 1 -q --keep-weights"),),
    "sweep_throughput": (
        step(f"{SWEEP} --throughput 10", {7: STARVED}),
        step("resume latest"),
        step("resume latest -n 6"),
    ),
    "sweep_quality": (step(f"sweep dlrm_tiny --threads 1 --quality 2000 --fit {PARTS} -q"),),
    "sweep_quality_csv": (step(f"{SWEEP} --quality 2000 --format csv -q"),),
    "sweep_profile": (
        step(f"{SWEEP} -n 1 --profile", {3: STARVED}),
        step("resume latest --format json"),
        step("resume latest"),
    ),
    "sweep_throughput_profile": (step(f"{SWEEP} --throughput 10 --profile -q --format md"),),
    "sweep_dry": (
        step(f"{SWEEP} --dry-run --throughput 10 --format json"),
        step(f"{SWEEP} --dry-run"),
    ),
}

API: dict[str, tuple[Step, ...]] = {
    "api_run": (
        call("run('dlrm_tiny', runs=2, seed=5, settings=ONE)", api.run, "dlrm_tiny", runs=2, seed=5, settings=ONE),
        call("resume(LATEST, runs=3)", api.resume, LATEST, runs=3),
        call("run(beside=LATEST, seed=9, runs=1)", api.run, beside=LATEST, seed=9, runs=1, settings=ONE),
        call("resume(LATEST, runs=2, quiet=False)", api.resume, LATEST, runs=2, quiet=False),
    ),
    "api_run_options": (
        call(
            "run('dlrm_tiny', until=0.08, max_runs=6, name='mine', keep_weights=True, quiet=False)",
            api.run, "dlrm_tiny", until=0.08, max_runs=6, name="mine", keep_weights=True, settings=ONE, quiet=False,
        ),
    ),
    "api_measure": (
        call("run('dlrm_tiny', throughput=10)", api.run, "dlrm_tiny", throughput=10, settings=ONE),
    ),
    "api_sweep": (
        call(
            "sweep('dlrm_tiny', TWO_RATES, runs=1, name='two')",
            api.sweep, "dlrm_tiny", TWO_RATES, runs=1, settings=ONE, name="two",
        ),
        call("resume(LATEST, runs=2)", api.resume, LATEST, runs=2),
    ),
}  # fmt: skip

SCENARIOS: dict[str, tuple[Step, ...]] = {**TRAINING, **MEASURING, **PAIRS, **SWEEPS, **API}
