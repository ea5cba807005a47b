"""Share a machine among trials that are measured at the same time: refuse what would disturb others, and divide
threads, cores and GPUs."""

from collections.abc import Mapping, Sequence
from typing import Any

from harness.config.axes import Axis
from harness.config.run_config import Override
from harness.experiment.request import Request, RequestError
from harness.extensions.tuning.records import SearchRecord
from harness.extensions.tuning.trials import CORE_KINDS, columns_asked
from harness.launch.slots import Slot, count_cores, make_slots
from harness.measure.kinds import Kind
from rules.records.columns import ENERGY_DELAY
from rules.records.run_set import RunSetRecord

OPTION = "--parallel-trials"
_THREADS, _RANKS, _DEVICE = "runtime.threads", "runtime.ranks", "runtime.device"


def refuse_unlike(request: Request, search: SearchRecord, kind: Kind, axes: Sequence[Axis]) -> None:
    """Raise RequestError for settings and hooks that several trials measured at a time would share or disturb."""
    hooks = {"prepare": request.prepare, "cleanup": request.cleanup, "power_command": request.power_command}
    given = next((name for name, command in hooks.items() if command), None)
    varied = {axis.key: axis for axis in axes}
    if given is not None:
        why = f"--{given.replace('_', '-')} would be run while other trials are measured"
    elif ENERGY_DELAY.member in columns_asked(search):
        why = f"counters tell {ENERGY_DELAY.member} of all trials together"
    elif kind.name not in CORE_KINDS:
        why = f"processes of --{kind.name} are given all cores"
    elif _DEVICE in varied:
        why = f"trials of --axis {_DEVICE} would be beside others of another device"
    elif _THREADS in varied and not all(isinstance(value, int) for value in varied[_THREADS].values):
        why = f"'auto' of --axis {_THREADS} chooses among all cores"
    else:
        return
    raise RequestError(f"{OPTION} {search.parallel_trials}: {why}. Leave one of them out.")


def share_threads(num: int, axes: Sequence[Axis], values: Mapping[str, Any]) -> list[Override]:
    """Return the setting for the number of threads of each trial when `num` trials are measured at a time: an equal
    share of the cores. Empty if the user gave the number of threads, or if the search varies it.

    `values` is a dict from key to value of the default configuration.
    """
    if isinstance(values.get(_THREADS), int) or any(axis.key == _THREADS for axis in axes):
        return []
    num_threads = max(1, count_cores() // (num * _most(_RANKS, axes, values)))
    return [Override(key=_THREADS, value=num_threads, source=f"{OPTION} {num}")]


def shared_threads(record: RunSetRecord) -> int | None:
    """Return the number of threads of a search's default configuration if trials are measured side by side and this
    number is a trial's equal share of the cores. None if the number was given or varied, or if trials are measured
    one at a time."""
    entry = record.config.get(_THREADS)
    return entry.value if entry is not None and entry.source.startswith(OPTION) else None


def plan_trials(num: int, axes: Sequence[Axis], values: Mapping[str, Any], remedy: str = "") -> list[Slot]:
    """Return the cores and GPUs of each of the `num` trials that a search measures at the same time.

    `values` is a dict from key to value of the default configuration. Every trial gets the cores for the largest
    number of threads of any trial. It also gets GPUs if trials are measured on GPUs. Raises HarnessError (exit 2) if
    there are too few cores or GPUs. `remedy`, if given, is the advice at the end of the error's message; a search
    that has begun gives it, since `num` can then no longer be changed.
    """
    ranks, device = _most(_RANKS, axes, values), str(values.get(_DEVICE, "cpu"))
    if ":" in device:
        raise RequestError(f"{OPTION} {num}: trials on {device!r} would share it. Give --device cuda.")
    gpus = None
    if device != "cpu":
        from reference_models.training.devices import list_gpus  # needs torch

        gpus = list_gpus()
    num_threads = ranks * _most(_THREADS, axes, values)
    return make_slots(num, num_threads=num_threads, gpus=gpus, num_gpus=ranks, what=OPTION, remedy=remedy)


def _most(key: str, axes: Sequence[Axis], values: Mapping[str, Any]) -> int:
    """Return the largest whole number that the setting `key` has in any trial, at least 1."""
    found = [values.get(key), *(value for axis in axes if axis.key == key for value in axis.values)]
    return max((value for value in found if isinstance(value, int)), default=1)
