"""One launch of several ranks for the tests of torchrec: every case in turn, so that imports are paid once.

Run by every rank: `torchrec_ranks.py CASES.json OUT.json`. Rank 0 writes what it and the reference said in each case.
"""

import gc
import json
import logging
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from waiting import HANG_S  # noqa: E402

from harness.config.catalog import load_entry  # noqa: E402
from harness.foundation.errors import end_process  # noqa: E402
from reference_models.distributed.process_group import join  # noqa: E402
from reference_models.distributed.rendezvous import rendezvous  # noqa: E402
from reference_models.process.world import SingleProcess  # noqa: E402
from reference_models.registry import find_implementation  # noqa: E402
from reference_models.training.workload import WorkloadSpec  # noqa: E402


def make_spec(case: dict[str, Any], **runtime: Any) -> WorkloadSpec:
    spec = load_entry(case["benchmark"]).workload.spec(Path(case["data_dir"]), seed=7)
    train = replace(spec.train, **case.get("train", {}))
    return replace(spec, train=train, runtime=replace(spec.runtime, threads=1, **runtime))


def losses_of(workload: Any, num_steps: int, *, num_ranks: int) -> list[float]:
    """Global losses of the first steps."""
    losses: list[float] = []
    step = workload.train_step

    def noting(*args: Any) -> torch.Tensor:
        loss: torch.Tensor = step(*args)
        mean = loss.clone()
        if num_ranks:
            dist.all_reduce(mean)
            mean /= num_ranks
        losses.append(mean.item())
        return loss

    workload.build()
    workload.train_step = noting
    workload.train(num_steps)
    workload.train_step = step
    return losses


def largest_difference(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> float:
    """Of the weights, which must be the same by names and shapes."""
    assert found.keys() == expected.keys()
    return max(float((found[name] - weight).abs().max()) for name, weight in expected.items())


def main(cases_path: str, out_path: str) -> None:
    world = join(rendezvous(), torch.device("cpu"), HANG_S)
    reference: dict[str, Any] = {}
    results = []
    for index, case in enumerate(json.loads(Path(cases_path).read_text())):
        if index == 1:
            gc.freeze()  # every build looks for garbage, and what is imported by now is none
        key = json.dumps([case["benchmark"], case.get("train", {}), case["num_steps"]])
        if world.rank == 0 and key not in reference:
            workload = find_implementation("dlrm", "reference").load(make_spec(case), SingleProcess())
            losses = losses_of(workload, case["num_steps"], num_ranks=0)
            weights = {name: weight.clone() for name, weight in (workload.weights() or {}).items()}
            reference[key] = losses, workload.evaluate(), weights
        runtime = {"implementation": "torchrec", "ranks": world.size, **case.get("runtime", {})}
        try:
            sharded: Any = find_implementation("dlrm", "torchrec").load(make_spec(case, **runtime), world)
            if case.get("as_on_gpus"):
                sharded.__class__ = type(
                    "OnGPUs", (type(sharded),), {"_id_type": torch.int32, "sorts_on_device": True}
                )
            if case.get("ahead"):
                sharded._sends_ahead = lambda: True  # as between GPUs
            losses = losses_of(sharded, case["num_steps"], num_ranks=world.size)
            result = {
                "losses": losses,
                "quality": sharded.evaluate(),
                "hyperparameters": dict(sharded.hyperparameters()),
                "types": dict(sharded.sharding_types),
                "is_ahead": sharded._ahead is not None,
            }
            weights = {name: weight.clone() for name, weight in (sharded.weights() or {}).items()}
            if case.get("exchange"):
                result["exchange"] = sharded.measure_traffic(2, with_evaluation=case["exchange"] == "all")
        except ValueError as error:
            result = {"error": str(error)}
        if world.rank == 0:
            result["reference_losses"], result["reference_quality"], expected = reference[key]
            result["weights_difference"] = None if "error" in result else largest_difference(weights, expected)
            results.append({**case, **result})
    if world.rank == 0:
        Path(out_path).write_text(json.dumps(results))
    world.barrier()
    world.leave()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
    end_process(0)  # as the ranks of a run do
