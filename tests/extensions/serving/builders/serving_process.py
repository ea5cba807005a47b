"""A process in which LoadGen judges a system whose service takes a constant time: prints what was found as JSON.

    python serving_process.py FOLDER JSON

JSON has the keys of [serve], `service_s`, `fails` where the system raises an error, and in `shortened` keys that are
set after all have been checked.
"""

import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from harness.extensions.serving.bench import Bench
from harness.extensions.serving.config import parse_serve
from harness.extensions.serving.loadgen import Seeds, seeds_of_process
from harness.foundation.errors import HarnessError, end_process
from reference_models.process.world import SingleProcess


def measure(folder: Path, asked: dict[str, Any]) -> dict[str, Any]:
    service_s, fails = asked.pop("service_s"), asked.pop("fails", False)
    shortened = asked.pop("shortened", {})
    serve = replace(parse_serve(asked), **shortened)
    took_s: list[float] = []

    def answer(parts: Any) -> None:
        if fails:
            raise ValueError("the system is broken")
        start_s = time.perf_counter()
        time.sleep(service_s)
        took_s.append(time.perf_counter() - start_s)

    bench = Bench(
        answer=answer,
        sizes=(1,) * (serve.library or 8),
        serve=serve,
        seed=5,
        seeds=seeds_of_process(3, serve.mlperf_round) if serve.mlperf else Seeds(library=1, samples=2, schedule=3),
        folder=folder,
        on_event=lambda event: None,
    )
    try:
        found = bench.measure(SingleProcess(), "run", 0.0)
    except (HarnessError, ValueError) as error:
        return {"error": str(error), "exit_code": getattr(error, "exit_code", None)}
    assert found is not None
    return {
        "runs": msgspec.to_builtins(found.runs),
        "best": msgspec.to_builtins(found.best),
        "modelled": found.modelled.rate,
        "bounded": found.best.asked_per_s / (found.loadgen_share or 1.0),
        "doubtful": found.bracket.high is None or any(run.is_held_up for run in found.runs),
        "took_s": took_s,
        "files": sorted(str(path.relative_to(folder)) for path in folder.rglob("*.*")),
    }


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]), json.loads(sys.argv[2]))), flush=True)
    end_process(0)
