"""`tune --parallel-trials`: trials at a time, measured alike, and alone in the end; kills, and what is refused."""

import os
import re
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from goldens import lay_data
from planted_trials import FASTEST, TUNE, PlantedWorkers, StarvedWorkers, answer_of, found_in, rows_of, tune
from scripted_commands import acting, run_scripted_command
from scripted_workers import Ending, Moment
from waiting import HANG_S, has_ended, needs_two_cpus, wait_until

from harness.cli import main
from harness.experiment.store import parts_of, read
from harness.extensions.tuning.parallel import plan_trials
from harness.extensions.tuning.space import read_space
from harness.foundation.errors import HarnessError
from harness.launch.timekeeper import list_processes
from rules.records.codec import decode
from rules.records.measured.throughput import ThroughputRecord

SMALL = f"{FASTEST} --sampler random --trials 4"


@pytest.fixture
def place(data_root: Path, tmp_path: Path) -> Path:
    return lay_data(data_root, tmp_path / "work")


@dataclass
class PlacedWorkers(PlantedWorkers):
    """Processes that note where they are measured: the CPUs of their slot, None where they are alone."""

    cpus: list[tuple[int, ...] | None] = field(default_factory=list)

    def __call__(self, spec_path: Path, **options: Any) -> Any:
        if "/throughput_" in str(spec_path):
            self.cpus.append(None if options["slot"] is None else options["slot"].cpus)
        return super().__call__(spec_path, **options)


def points_of(place: Path) -> list[dict[str, str]]:
    return [dict(member.values) for member in read(found_in(place)[0]).configurations]


def test_trials_have_cores_of_their_own_and_the_best_and_the_default_are_measured_again_alone(place: Path) -> None:
    workers = PlacedWorkers(Moment())
    words = f"{TUNE} {SMALL} --parallel-trials 2".replace(" -q", "")
    ended = run_scripted_command(words.split(), place, workers, {"COLUMNS": "80"})
    assert ended.code == 0, ended.err
    assert workers.cpus == [(0,), (1,), (0,), (1,), *[None] * 10]
    folder, study = found_in(place)
    assert len(rows_of(study)) == 4 and "in 5 pairs with new seeds" in study.findings[0]
    assert "2 trials were measured at a time" in study.findings[1] and "All trials have 1 thread" in study.findings[1]
    assert "2 at a time" in study.tables[-1].title
    assert [each.value for each in study.parameters if each.name == "parallel trials"] == [2]
    for part in parts_of(folder).values():
        record = decode(part / "extra" / "throughput.json", ThroughputRecord)
        assert isinstance(record, ThroughputRecord) and record.loads[0] is not None
        assert record.loads[0].beside == 0.0, "scripted workers are one after another"
    lines = [line for line in ended.err.splitlines() if line.startswith("[") and "/4]" in line]
    assert [line[:5] for line in lines] == [f"[{number}/4]" for number in range(1, 5)]
    assert all(len(line) <= 80 for line in lines) and " left" in lines[2] and " left" not in lines[1]


@pytest.mark.slow
def test_a_random_search_tries_the_same_points_however_many_are_at_a_time(place: Path, tmp_path: Path) -> None:
    found = []
    for number in (1, 2):
        where = place if number == 1 else lay_data(place / "data", tmp_path / "other")
        assert tune(where, f"{SMALL} --threads 1 --parallel-trials {number}").code == 0
        found.append(points_of(where))
    assert found[0] == found[1]


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2])
def test_the_planted_setting_is_found_with_several_at_a_time_as_with_one(number: int, place: Path) -> None:
    ended = tune(place, f"{FASTEST} --constraint memory<=3GB --trials 11 --threads 1 --parallel-trials {number}")
    assert ended.code == 0, ended.err
    assert "(implementation=optimized global_batch_size=1024) was compared with the default" in answer_of(ended)
    _, study = found_in(place)
    assert len(rows_of(study)) == 11 and study.findings[0].endswith("2.25× faster.")


@pytest.mark.slow
def test_what_fails_beside_others_is_infeasible_and_all_others_are_measured(place: Path) -> None:
    ended = tune(place, f"{FASTEST} --trials 12 --threads 1 --parallel-trials 2", StarvedWorkers(Moment()))
    assert ended.code == 0, ended.err
    reasons = [row["Infeasible because"] for row in rows_of(found_in(place)[1])]
    assert [reason for reason in reasons if reason] == ["process 0 measured nothing: out of memory."] * 2


class KilledWhenBothAreOpen(PlantedWorkers):
    """Processes of which the second batch kills the command once both of it are open."""

    def __call__(self, spec_path: Path, **options: Any) -> Any:
        number = spec_path.parents[2].name[:2]
        if options.get("slot") is not None and number in ("03", "04"):
            both.wait(HANG_S)
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(spec_path, **options)


both = threading.Barrier(2)


@pytest.mark.slow
def test_a_search_that_was_killed_with_two_trials_open_goes_on_as_if_it_had_not(place: Path, tmp_path: Path) -> None:
    words = f"{TUNE} {FASTEST} --threads 1 --trials 6 --parallel-trials 2".split()
    child = os.fork()
    if child == 0:
        try:
            from concurrent.futures import ThreadPoolExecutor

            with acting(place, words, {}, KilledWhenBothAreOpen(Moment())):
                import harness.experiment.side_by_side as module

                module.ThreadPoolExecutor = ThreadPoolExecutor  # type: ignore[misc]
                main(words)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    (folder,) = [path for path in (place / "results").iterdir() if not path.is_symlink()]
    assert len(read(folder).configurations) == 4 and not [*folder.glob("0[34]*/extra/throughput.json")]
    ended = run_scripted_command(["resume", str(folder), "-q"], place, PlantedWorkers(Moment(3600)))
    assert ended.code == 0, ended.err
    whole = lay_data(place / "data", tmp_path / "whole")
    assert run_scripted_command(words, whole, PlantedWorkers(Moment())).code == 0
    assert points_of(place) == points_of(whole) and rows_of(found_in(place)[1]) == rows_of(found_in(whole)[1])


@pytest.mark.slow
def test_ctrl_c_ends_the_search_keeps_what_is_finished_and_says_how_to_go_on(place: Path) -> None:
    workers = PlantedWorkers(Moment(), {3: Ending(raises=KeyboardInterrupt)})
    ended = tune(place, f"{SMALL} --threads 1 --parallel-trials 2", workers)
    assert ended.code == 130 and "dlrmbench resume" in ended.err
    (folder,) = [path for path in (place / "results").iterdir() if not path.is_symlink()]
    again = PlantedWorkers(Moment(3600))
    assert run_scripted_command(["resume", str(folder), "-q"], place, again).code == 0
    assert not [launch for launch in again.launches if "/01-default/" in launch and "beside" not in launch]


@pytest.mark.slow
def test_a_search_is_refused_where_there_are_fewer_cores_than_it_began_with(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = PlantedWorkers(Moment(), {3: Ending(raises=KeyboardInterrupt)})
    tune(place, f"{SMALL} --threads 1 --parallel-trials 2", workers)
    (folder,) = [path for path in (place / "results").iterdir() if not path.is_symlink()]
    monkeypatch.setattr("harness.launch.slots.count_cores", lambda: 1)
    ended = run_scripted_command(["resume", str(folder), "-q"], place, PlantedWorkers(Moment()))
    assert ended.code == 2 and "takes 2 cores, and this process may use 1. Go on with" in " ".join(ended.err.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--parallel-trials 0", "0 is not in the range"),
        ("--parallel-trials 3", "--parallel-trials 3 of 1 thread each takes 3 cores, and this process may use 2."),
        ("--parallel-trials 2 --threads 2", "--parallel-trials 2 of 2 threads each takes 4 cores"),
        ("--parallel-trials 2 --axis runtime.threads=1..2", "--parallel-trials 2 of 2 threads each takes 4 cores"),
        ("--parallel-trials 2 --axis runtime.threads=auto,1", "chooses among all cores. Leave one of them out."),
        ("--parallel-trials 2 --prepare true", "--prepare would be run while other trials are measured."),
        ("--parallel-trials 2 --power-command true", "--power-command would be run while other trials"),
    ],
)
def test_trials_that_would_not_be_measured_alike_are_refused_before_anything_is_written(
    words: str, said: str, place: Path
) -> None:
    ended = tune(place, f"{FASTEST} {words}")
    assert (ended.code, said in " ".join(ended.err.split())) == (2, True), ended.err
    assert not (place / "results").exists()


@pytest.mark.parametrize(
    ("device", "gpus", "said"),
    [
        ("cuda", ("3", "5", "7"), "--parallel-trials 2 of 2 GPUs each takes 4 GPUs, and this process may use 3."),
        ("cuda:1", ("3", "5", "7", "8"), "trials on 'cuda:1' would share it. Give --device cuda."),
        ("cuda", ("3", "5", "7", "8"), None),
    ],
)
def test_trials_on_gpus_have_as_many_of_their_own_as_ranks(
    device: str, gpus: tuple[str, ...], said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reference_models.training.devices.list_gpus", lambda: gpus)
    monkeypatch.setattr("harness.launch.slots.list_cores", lambda: [(cpu,) for cpu in range(8)])
    monkeypatch.setattr("harness.launch.slots.count_cores", lambda: 8)
    values = {"runtime.device": device, "runtime.ranks": 1, "runtime.threads": 2}
    axes = read_space(["runtime.ranks=1,2"])
    if said is not None:
        with pytest.raises(HarnessError, match=re.escape(said)):
            plan_trials(2, axes, values)
    else:
        assert [slot.gpus for slot in plan_trials(2, axes, values)] == [("3", "5"), ("7", "8")]


@pytest.mark.slow
@needs_two_cpus
def test_processes_stay_on_their_cores_and_ctrl_c_ends_all_of_them(place: Path) -> None:
    """Real ones: two trials at a time on a core each, which nobody else of the search has."""
    words = f"{TUNE} --maximize samples_per_s --throughput 100000 --threads 1 --trials 4 --parallel-trials 2"
    process = subprocess.Popen([sys.executable, "-m", "harness", *words.split()], cwd=place, stderr=subprocess.PIPE)

    def pinned() -> dict[int, frozenset[int]]:
        assert process.poll() is None, "it has ended"
        found = {pid: cpus_of(pid) for pid in list_processes(process.pid) if "throughput_0" in command_of(pid)}
        return found if len({*found.values()}) == 2 else {}

    workers = wait_until(pinned, "two trials are measured")
    first, second = {*workers.values()}
    assert not first & second and first and second
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=HANG_S)
    assert process.returncode == 130 and b"dlrmbench resume" in stderr and b"Traceback" not in stderr
    assert all(map(has_ended, workers))


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def cpus_of(pid: int) -> frozenset[int]:
    try:
        return frozenset(os.sched_getaffinity(pid))
    except OSError:
        return frozenset()
