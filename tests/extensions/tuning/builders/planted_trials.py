"""Searches whose trials have planted rates and memory."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripted_commands import Ended, run_scripted_command
from scripted_workers import Ending, Moment, ScriptedWorkers
from sweep_builder import throughput_answer

from rules.records.codec import decode
from rules.records.study import StudyRecord

BATCHES = "train.global_batch_size=128,256,512,1024,2048,4096"
TUNE = f"tune dlrm_tiny --axis runtime.implementation=reference,optimized --axis {BATCHES} --seed 3 -q"
FASTEST = "--maximize samples_per_s --throughput 10"


class PlantedWorkers(ScriptedWorkers):
    """Processes whose rate is highest at a batch of 1024, optimized, whose memory is its size in MiB."""

    gain = 1.5

    def _work(self, spec: Mapping[str, Any], folder: Path, *more: Any) -> None:
        super()._work(spec, folder, *more)
        if spec["kind"] != "throughput":
            return
        path, number = folder / "measured.json", int(folder.name.rpartition("_")[2])
        batch, runtime = spec["tables"]["train"]["global_batch_size"], spec["tables"]["runtime"]
        rate = (
            1e4 * self.gain ** -abs(math.log2(batch / 1024)) * (self.gain if "optimized" in runtime.values() else 1)
        )
        content = {**throughput_answer(spec, number), "code": json.loads(path.read_text())["code"]}
        (process,) = content["processes"]
        process["duration_s"] = process["num_samples"] / rate * (1 + spec["seed"] % 89 / 1e4)
        process |= {"samples_per_s": process["num_samples"] / process["duration_s"], "peak_rss_bytes": batch << 20}
        path.write_text(json.dumps(content), encoding="utf-8")


class StarvedWorkers(PlantedWorkers):
    """Processes that run out of memory at a batch of 2048."""

    def __call__(self, spec_path: Path, **options: Any) -> Any:
        spec = json.loads(spec_path.read_text(encoding="utf-8"))
        is_large = spec["kind"] == "throughput" and spec["tables"]["train"]["global_batch_size"] == 2048
        self.endings = {len(self.launches): Ending(words="out of memory.")} if is_large else {}
        return super().__call__(spec_path, **options)


class TimedWorkers(PlantedWorkers):
    """Processes that take least time on one thread at the batch of the default, on two at any other."""

    def _work(self, spec: Mapping[str, Any], folder: Path, *more: Any) -> None:
        super()._work(spec, folder, *more)
        if spec["kind"] == "choice" and spec["tables"]["train"]["global_batch_size"] == 512:
            path = folder / "measured.json"
            content = json.loads(path.read_text())
            for way in content["tried"]:
                way["step_s"] = 0.001 * way["num_threads"]
            path.write_text(json.dumps(content), encoding="utf-8")


class EvenWorkers(PlantedWorkers):
    """Processes that all take alike."""

    gain = 1.0


def tune(place: Path, words: str, workers: ScriptedWorkers | None = None) -> Ended:
    return run_scripted_command(f"{TUNE} {words}".split(), place, workers or PlantedWorkers(Moment()))


def found_in(place: Path) -> tuple[Path, StudyRecord]:
    (folder,) = [path for path in (place / "results").iterdir() if not path.is_symlink()]
    study = decode(folder / "study.json", StudyRecord)
    assert isinstance(study, StudyRecord), study
    return folder, study


def answer_of(ended: Ended) -> str:
    """What was found, as a terminal is told it below the title, in one line."""
    return " ".join(ended.out.split("\n\n")[1].split())


def rows_of(study: StudyRecord) -> list[dict[str, Any]]:
    return [
        dict(zip([column.name for column in study.tables[-1].columns], row, strict=True))
        for row in study.tables[-1].rows
    ]
