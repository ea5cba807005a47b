"""The log's lines are those of mlperf_logging's own writer, name the code that spoke, and are written whole."""

import io
import json
import logging
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mlperf_logging.mllog import mllog

import harness
from harness.measure.clock import Clock
from harness.measure.run_log import RunLogWriter, TrainingBlock
from reference_models.process.errors import ConfigError

BLOCK = TrainingBlock(num_steps=4, first_sample=0, last_sample=512, train_samples=2048, first_epoch_num=0)


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line.removeprefix(":::MLLOG ")) for line in path.read_text(encoding="utf-8").splitlines()]


def speak(log: RunLogWriter) -> None:
    log.event("seed", 7)
    log.events({"opt_base_learning_rate": np.float32(0.5), "text": "a “quoted” line\n\udcff", "num": np.int64(3)})
    log.event("cache_clear", True, {"method": "none"})
    with log.init():
        pass
    with log.run() as run:
        with log.block(BLOCK, run):
            run.samples_count = 512
        with log.eval(BLOCK):
            log.accuracy(float("nan"), BLOCK)
        log.throughput(1234.5, BLOCK)
        run.succeed()


def test_lines_are_those_of_the_official_writer(tmp_path: Path) -> None:
    log = RunLogWriter(tmp_path / "log.txt", Clock())
    speak(log)
    log.close()
    content = (tmp_path / "log.txt").read_text(encoding="ascii")
    stream = io.StringIO()
    logger = logging.Logger("official")
    logger.addHandler(logging.StreamHandler(stream))
    official = mllog.MLLogger(logger=logger)
    for line in lines_of(tmp_path / "log.txt"):
        write = {"INTERVAL_START": official.start, "INTERVAL_END": official.end, "POINT_IN_TIME": official.event}
        value = np.float32(line["value"]) if isinstance(line["value"], float) else line["value"]
        rest = {name: entry for name, entry in line["metadata"].items() if name not in ("file", "lineno")}
        write[line["event_type"]](line["key"], value, rest, time_ms=line["time_ms"])

    def without_place(text: str) -> str:
        return re.sub(r'"file": "[^"]*", "lineno": \d+', "", text)

    assert without_place(stream.getvalue()) == without_place(content)


def test_a_line_names_the_code_that_had_something_to_say(tmp_path: Path) -> None:
    log = RunLogWriter(tmp_path / "log.txt", Clock())
    speak(log)
    log.close()
    places = {(line["key"], line["metadata"]["lineno"]) for line in lines_of(tmp_path / "log.txt")}
    first = speak.__code__.co_firstlineno
    expected = {"seed": 1, "cache_clear": 3, "init_start": 4, "block_start": 7, "eval_accuracy": 10, "run_stop": 6}
    assert {(key, first + offset) for key, offset in expected.items()} <= places
    here, product = Path(__file__), Path(harness.__file__).parents[1]
    assert {line["metadata"]["file"] for line in lines_of(tmp_path / "log.txt")} == {
        str(here.relative_to(product) if here.is_relative_to(product) else here)
    }


def test_a_line_is_written_to_its_end_or_the_failure_is_raised(tmp_path: Path) -> None:
    class Slow:
        def __init__(self, room: int) -> None:
            self.content, self.room = b"", room

        def write(self, content: bytes) -> int:
            if len(self.content) >= self.room:
                raise OSError(28, "No space left on device")
            self.content += content[:5]
            return len(content[:5])

    for room in (10_000, 50):
        log = RunLogWriter(None, Clock())
        log._file = slow = Slow(room)  # type: ignore[assignment]
        if room == 50:
            with pytest.raises(OSError, match="No space left"):
                log.event("seed", 7)
        else:
            log.event("seed", 7)
            assert slow.content.endswith(b"}\n") and json.loads(slow.content[9:])["value"] == 7


def test_without_a_path_nothing_is_written_and_the_device_is_waited_for() -> None:
    waits: list[bool] = []
    log = RunLogWriter(None, Clock(synchronize=lambda: waits.append(True)))
    speak(log)
    log.close()
    assert len(waits) == 15, "once per line"


def test_a_value_that_no_line_can_hold_is_refused(tmp_path: Path) -> None:
    log = RunLogWriter(tmp_path / "log.txt", Clock())
    with pytest.raises(ConfigError, match=r"the log: found object .*, expected text or a number"):
        log.event("seed", object())
    log.close()
