"""Experiments: what can be asked, what resolving it costs, and groups that strangers wrote."""

import inspect
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from golden_refusals import listing
from goldens import lay_data
from records_builder import experiment_content, run_set_content
from scripted_commands import acting, run_scripted_command
from scripted_workers import Ending, Moment, ScriptedWorkers
from small_set import begin_small_set

from harness import api
from harness.cli.run import run
from harness.cli.sweep import sweep
from harness.config.run_config import Override
from harness.experiment.attach import open_or_create
from harness.experiment.context import NO_CONTEXT
from harness.experiment.create import create
from harness.experiment.expand import expand
from harness.experiment.loop import complete, look_again
from harness.experiment.orders import ORDERS, OrderStep, find_order
from harness.experiment.prepare import prepare
from harness.experiment.request import OPTIONS, Request, RequestError, flags_of
from harness.experiment.stopping import State, find_stop_rule
from harness.experiment.store import parts_of, read
from harness.foundation.errors import ExitCode, HarnessError
from rules.records.experiment import StopRecord

UNTIL = {"width": 0.9, "min_runs": 5, "max_runs": 9}
KINDS = {"run": {"throughput", "quality"}, "sweep": {"throughput", "quality"}}
OF_THE_SHELL = {
    "run_index", "strict_env", "with_profile", "with_fit", "weights", "prepare", "cleanup", "power_command",
    "log_to",
}  # fmt: skip
"""What only a command line asks for."""


@pytest.mark.parametrize(("verb", "command"), [("run", run), ("sweep", sweep)])
def test_options_and_arguments_have_the_names_of_the_request(verb: str, command: object) -> None:
    options = {parameter.name: parameter.opts for parameter in command.params}  # type: ignore[attr-defined]
    of_request = [name for name in OPTIONS if name in options]
    assert {"runs", "output", "seed"} <= set(of_request)
    for name in of_request:
        assert tuple(options[name]) == flags_of(verb, name)
    arguments = set(inspect.signature(getattr(api, verb)).parameters)
    assert KINDS[verb] <= arguments
    assert arguments <= {*Request.__dataclass_fields__, *KINDS[verb]}
    assert set(of_request) - OF_THE_SHELL <= arguments


def test_what_is_asked_is_written_as_the_command_that_asks_it() -> None:
    asked = Request(
        verb="sweep", benchmark="dlrm_tiny", axes=["runtime.threads=1,2"], kinds={"throughput": 5}, seed=3,
        settings={"train.global_batch_size": 256, "runtime.device": "cpu"}, timeout_s=1.5, with_profile=True,
        output=Path("out"), quiet=True,
    )  # fmt: skip
    assert asked.command() == [
        "dlrmbench", "sweep", "dlrm_tiny", "--throughput", "5", "--axis", "runtime.threads=1,2", "--profile",
        "--seed", "3", "--set", "train.global_batch_size=256", "--set", "runtime.device=cpu", "--timeout", "1.5",
        "--output", "out",
    ]  # fmt: skip
    assert Request(typed=["dlrmbench", "run", "-q"], seed=3).command() == ["dlrmbench", "run", "-q"]


_EXPAND = """
import sys
from pathlib import Path
from harness.experiment.attach import open_or_create
from harness.experiment.expand import expand
from harness.experiment.request import Request
axes = ["train.global_batch_size=256,512"]
for request in (
    Request(benchmark="dlrm_tiny"),
    Request(verb="sweep", benchmark="dlrm_tiny", axes=axes),
    Request(verb="sweep", benchmark="dlrm_tiny", axes=axes, kinds={"throughput": 5}, with_profile=True),
    Request(verb="profile", benchmark="dlrm_tiny", kinds={"profile": None}),
):
    print(len(expand(request).configurations))
print("torch" in sys.modules, [path.name for path in Path().iterdir()])
"""


@pytest.mark.slow
def test_resolving_imports_no_torch_and_writes_nothing(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _EXPAND], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.split("\n")[:5] == ["1", "2", "2", "1", "False []"], done.stderr


@pytest.mark.parametrize("data", ["data", "nowhere"])
def test_a_dry_run_writes_no_file(data: str, data_root: Path, tmp_path: Path) -> None:
    place = lay_data(data_root, tmp_path / "work")
    before, workers = listing(place), ScriptedWorkers(Moment())
    words = f"sweep dlrm_tiny --axis train.global_batch_size=256,512 --throughput 5 --data {data} --dry-run"
    done = run_scripted_command(words.split(), place, workers)
    assert (done.code, workers.launches) == (0, []), done.err
    assert listing(place) == before and "2 configurations" in done.out


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"kinds": {"throughput": 5, "quality": 5}}, "throughput and quality are two measurements"),
        ({"kinds": {"throughput": 5}, "timeout_s": 1.0}, "timeout_s is for runs to the target"),
        ({"kinds": {"throughput": 5}, "keep_weights": True}, "keep_weights is for runs to the target"),
        ({"max_runs": 5}, "max_runs limits until"),
        ({"python": Path("x")}, "python is the interpreter of the set that beside names"),
        ({"with_fit": True}, "with_fit is for --quality"),
        ({"stop": StopRecord(rule="until", values=UNTIL)}, "for a single set give until"),
        ({"kinds": {"throughput": 0}}, "throughput is 0, expected a whole number of at least 1"),
        ({"kinds": {"throughput": None}}, "throughput is None, expected a whole number of at least 1"),
        ({"kinds": {"profile": None}}, "profile is not a measurement of 'run'"),
        (
            {"kinds": {"training": 5}},
            "training is not a measurement of 'run', which has throughput, quality",
        ),
    ],
)
def test_what_does_not_go_together_is_refused_in_the_words_that_asked_it(asked: dict[str, object], said: str) -> None:
    with pytest.raises(RequestError, match=said):
        expand(Request(benchmark="dlrm_tiny", **asked))  # type: ignore[arg-type]


def test_turns_go_forwards_and_backwards() -> None:
    assert list(find_order("turns")([3, 5], 3)) == [
        OrderStep(3, 0),
        OrderStep(5, 0),
        OrderStep(5, 1),
        OrderStep(3, 1),
        OrderStep(3, 2),
        OrderStep(5, 2),
    ]
    three = [step.configuration for step in find_order("turns")([1, 2, 4], 6)]
    rounds = [three[at : at + 3] for at in range(0, 18, 3)]
    assert rounds[0] == [1, 2, 4] and all(rounds[at] == rounds[at + 1][::-1] for at in (0, 2, 4))
    assert len(set(map(tuple, rounds[::2]))) > 1, "no two configurations are always neighbours"
    for order in ORDERS.values():
        assert sorted(order([1, 2, 4], 2)) == [OrderStep(place, k) for place in (1, 2, 4) for k in range(2)]


def test_an_order_or_a_stop_rule_of_a_newer_version_is_named() -> None:
    never = StopRecord(rule="never", values={})
    for find in (
        lambda: find_order("spiral"),
        lambda: find_stop_rule(never),
        lambda: expand(Request(benchmark="dlrm_tiny", order="spiral")),
        lambda: expand(Request(verb="sweep", benchmark="dlrm_tiny", axes=["runtime.threads=1"], stop=never)),
    ):
        with pytest.raises(HarnessError, match="not known to this version, which has") as refused:
            find()
        assert refused.value.exit_code == ExitCode.INPUT


class AtLeast:
    """Add a repetition of every configuration until all have as many as the rule says."""

    def __init__(self, values: Mapping[str, float]) -> None:
        self._repetitions = values["repetitions"]

    def extend(self, state: State) -> int | None:
        num_runs = state.record.num_runs
        return num_runs + 1 if num_runs < self._repetitions else None


@pytest.fixture(params=["matrix", "sides"])
def growing(
    request: pytest.FixtureRequest, data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Path, ScriptedWorkers]]:
    """A group of two that grows to four repetitions by a rule of its own; it was interrupted in the second."""
    monkeypatch.setattr("harness.experiment.stopping.STOP_RULES", {"at_least": AtLeast})
    workers = ScriptedWorkers(Moment(), num_evals=1)
    threads = Override(key="runtime.threads", value=1, source="test")
    common = {"overrides": [threads], "runs": 1, "seed": 1, "data": data_root, "quiet": True}
    with acting(lay_data(data_root, tmp_path / "work"), [], {}, workers):
        asked: dict[str, Any] = {"verb": "sweep", "axes": ["train.opt_base_learning_rate=0.03,0.06"]}
        if request.param == "sides":
            asked = {"beside": create(prepare(expand(Request(benchmark="dlrm_tiny", **common))))}
        else:
            asked["benchmark"] = "dlrm_tiny"
        stop = StopRecord(rule="at_least", values={"repetitions": 4})
        folder = create(prepare(expand(Request(**asked, **common, stop=stop))))
        workers.endings = {3: Ending(raises=KeyboardInterrupt)}
        with pytest.raises(KeyboardInterrupt):
            complete(folder)
        workers.endings = {}
        yield folder, workers


def test_a_rule_without_its_values_is_refused_before_anything_is_run(growing: tuple[Path, ScriptedWorkers]) -> None:
    folder, workers = growing
    path, num_launches = folder / "experiment.json", len(workers.launches)
    path.write_text(json.dumps({**json.loads(path.read_text()), "stop": {"rule": "at_least", "values": {"runs": 4}}}))
    with pytest.raises(HarnessError, match="'at_least': expected a value 'repetitions', found runs") as refused:
        complete(folder)
    assert refused.value.exit_code == ExitCode.INPUT and len(workers.launches) == num_launches


def test_a_group_grows_until_every_mean_is_known(data_root: Path, tmp_path: Path) -> None:
    workers, rates = ScriptedWorkers(Moment()), ["train.opt_base_learning_rate=0.03,0.06"]
    with acting(lay_data(data_root, tmp_path / "work"), [], {}, workers):
        threads = Override(key="runtime.threads", value=1, source="test")
        asked = Request(
            verb="sweep", benchmark="dlrm_tiny", axes=rates, runs=4, seed=1, data=data_root, overrides=[threads],
            stop=StopRecord(rule="until", values=UNTIL), quiet=True,
        )  # fmt: skip
        folder = create(prepare(expand(asked)))
        complete(folder)
        assert kept(folder) == [5, 5], "runs that take alike are known as soon as there are enough"


def kept(folder: Path) -> list[int]:
    """How many runs each set of a group holds."""
    return [len(list(path.glob("results/*/*/result_*.txt"))) for path in parts_of(folder).values()]


def test_a_group_grows_by_its_rule_also_after_an_interruption(growing: tuple[Path, ScriptedWorkers]) -> None:
    folder, workers = growing
    assert read(folder).num_runs == 2, "what it grows to is on disk before it is run"
    complete(folder)
    assert kept(folder) == [4, 4] and len(workers.launches) == 9


def test_a_group_that_is_asked_for_runs_ends_there(growing: tuple[Path, ScriptedWorkers]) -> None:
    folder, _ = growing
    complete(folder, num_runs=3)
    complete(folder)
    assert kept(folder) == [3, 3] and read(folder).stop is None


@pytest.mark.parametrize("name", ["..", "../outside", "/tmp/outside", "a/b", "."])
def test_a_group_whose_set_is_elsewhere_is_refused(name: str, tmp_path: Path) -> None:
    content = experiment_content()
    content["configurations"][0]["folder"] = name
    (tmp_path / "experiment.json").write_text(json.dumps(content))
    for act in (lambda: parts_of(tmp_path), lambda: complete(tmp_path)):
        with pytest.raises(HarnessError, match="expected a name inside") as refused:
            act()
        assert refused.value.exit_code == ExitCode.INPUT


def test_a_set_with_fewer_seeds_than_runs_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = begin_small_set(tmp_path, monkeypatch)
    path = small.folder / "extra" / "run_set.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"seeds": []}))
    with pytest.raises(HarnessError, match=r"has 0 seeds, expected one for each of 3 runs") as refused:
        complete(small.folder)
    assert refused.value.exit_code == ExitCode.INPUT


Change = Callable[[dict[str, Any], dict[str, Any]], object]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda group, record: group.update(relation="one"), "relation is 'one'"),
        (lambda group, record: group.update(relation="sides", configurations=[]), "configurations"),
        (lambda group, record: group.update(axes=[]), "relation is 'matrix'"),
        (lambda group, record: group["configurations"][1].update(folder="a"), "two configurations have one folder"),
        (lambda group, record: group["stages"][1].update(repetitions=2), "more repetitions"),
        (lambda group, record: group["stages"][1].update(options={"folder": 1}), "options that its kind has not"),
        (lambda group, record: group["stages"][0].update(options={"num_steps": 9}), "as its group says"),
        (lambda group, record: group["stages"][0].update(kind="quality"), "as its group says"),
        (lambda group, record: group["stages"][0].update(repetitions=99), "expected at least 99"),
        (lambda group, record: record.update(num_runs=2**62), "has 5 seeds, expected one for each of"),
        (lambda group, record: record.update(config={}), "no runtime.device"),
        (lambda group, record: record["benchmark"].update(name="../../elsewhere"), "expected a name of a folder"),
        (lambda group, record: record["system"].update(name=".."), "expected a name of a folder"),
    ],
)
def test_a_group_that_no_command_makes_is_refused_before_anything_is_run(
    change: Change, said: str, tmp_path: Path
) -> None:
    record = run_set_content(
        kind="throughput",
        options={"num_steps": 10},
        num_runs=5,
        seeds=[1, 2, 3, 4, 5],
        config={"runtime.device": {"value": "cpu", "source": "default"}},
    )
    stage = {"kind": "throughput", "options": {"num_steps": 10}, "repetitions": 5}
    profile = {"kind": "profile", "options": {}, "repetitions": 1, "order": "after", "on_failure": "note"}
    member = {"values": {"runtime.threads": "1"}, "python": None, "failure": None, "notes": {}}
    group = experiment_content() | {
        "relation": "matrix",
        "axes": [{"key": "runtime.threads", "values": ["1", "2"]}],
        "stages": [{**stage, "order": "turns", "on_failure": "leave_out"}, profile],
        "configurations": [{**member, "label": name, "folder": name} for name in "ab"],
    }
    change(group, record)
    (tmp_path / "experiment.json").write_text(json.dumps(group))
    for name in "ab":
        (tmp_path / name / "extra").mkdir(parents=True)
        (tmp_path / name / "extra" / "run_set.json").write_text(json.dumps(record))
    before = {path.name for path in tmp_path.rglob("*")}
    with pytest.raises(HarnessError, match=said) as refused:
        complete(tmp_path)
    assert refused.value.exit_code == ExitCode.INPUT
    assert {path.name for path in tmp_path.rglob("*")} <= before | {"lock"}


def test_a_sweep_of_which_nothing_could_be_prepared_is_resumed_without_a_word(tmp_path: Path) -> None:
    content = experiment_content()
    failure = {"reason": "too large a batch", "exit_code": 2, "run_index": None}
    content["configurations"] = [{**content["configurations"][0], "folder": None, "failure": failure}]
    (tmp_path / "experiment.json").write_text(json.dumps(content))
    assert look_again(tmp_path, NO_CONTEXT) == ((), None)
    assert complete(tmp_path).configurations[0].failure is not None


def test_a_set_beside_a_damaged_file_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = begin_small_set(tmp_path, monkeypatch)
    (small.folder.parent / "experiment.json").write_text("{")
    look_again(small.folder, NO_CONTEXT)


def test_a_profile_into_a_set_runs_no_code_that_the_set_alone_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = begin_small_set(tmp_path, monkeypatch)
    (tmp_path / "theirs.py").write_text("raise SystemExit('it ran')\n")
    definition = small.folder / "extra" / "definition.toml"
    digest = "0" * 64
    text = definition.read_text().replace(
        "[runtime]", f'[runtime]\nimplementation = "{tmp_path}/theirs.py:X@{digest}"'
    )
    definition.write_text(text)
    asked = Request(
        verb="profile",
        benchmark=str(small.definition),
        kinds={"profile": None},
        data=small.data_dir,
        output=small.folder,
        quiet=True,
    )
    with pytest.raises(HarnessError, match="which runs only if you name it"):
        open_or_create(asked)
