"""Decide between bf16 and fp32 on a CPU by timing, since no CPU flag tells which is faster.

A run set in bf16 gets a warning where bf16 is slower. `runtime.precision=auto` becomes bf16 only where bf16 is faster
and a calibration in bf16 met the target; otherwise it becomes fp32.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from harness.autotune.choices import FOLDER, find_candidates
from harness.autotune.tuning import KeptChoice, Preparation, find_choice
from harness.config.catalog import parse_recorded
from harness.config.run_config import RunConfig, command_name
from harness.system.hardware import read_processors
from harness.system.software import version_of
from reference_models.config.sections import RuntimeConfig
from reference_models.data.registry import DEFAULT_ROOT, locate_dataset
from reference_models.process.errors import ConfigError
from reference_models.serving.servable import explain_emulation
from reports.results.records import describe_times
from reports.text.formatting import printable
from rules.benchmarks.loader import parse_benchmark, shipped_twin
from rules.records.calibration import CalibrationRecord
from rules.records.codec import Damage, decode
from rules.records.run_set import ChoiceRecord
from rules.records.run_set import PreflightCheck as Check

_WHY = "Products in bf16 need not be faster than in fp32; a CPU that has no instructions for them emulates them."


def compare_precisions(choice: ChoiceRecord | None) -> str | None:
    """Return a sentence that says whether bf16 or fp32 steps are faster, with both times; None where not both were
    timed."""
    is_timed = choice is not None and choice.bf16_is is not None
    return f"bf16 is {choice.bf16_is} fp32 here: {describe_times(choice)}" if choice and is_timed else None


def check_precision(prepared: Preparation, runtime: RuntimeConfig) -> Check | None:
    """Return the environment check's result on a run set's precision. The result is a warning if bf16 is slower than
    fp32, or if bf16 is emulated and was not timed against fp32 (as on several ranks).

    Return None if there is nothing to report: the precision was not `auto`, bf16 was not timed against fp32, and bf16
    is not emulated.
    """
    timed = prepared.precision or compare_precisions(prepared.choice)
    value = timed or (explain_emulation(runtime) or "").rstrip(".")
    is_slower = timed is None or (prepared.choice is not None and prepared.choice.bf16_is == "slower than")
    remedy = "Use runtime.precision=fp32, which is also the more exact one." if is_slower else ""
    if not value:
        return None
    return Check(name="precision", value=value, status="warning" if is_slower else "ok", why=_WHY, remedy=remedy)


def check_kept_precision(data_root: Path | None) -> Check:
    """Return, as a result of the environment check, the step times in bf16 and fp32 that a folder of datasets keeps
    for this processor and this torch."""
    root, here, found = data_root or DEFAULT_ROOT, [read_processors().model_name, version_of("torch")], []
    for path in sorted((*root.glob(f"{FOLDER}/*.json"), *root.glob(f"*/{FOLDER}/*.json"))):
        kept = decode(path, KeptChoice)
        if not isinstance(kept, Damage) and [kept.chosen_for.get(key) for key in ("cpu", "torch")] == here:
            words = compare_precisions(kept.choice)
            found += [] if words is None else [f"{printable(path.parents[1].name, 60)}: {words}"]
    value = "; ".join(found[:8]) or "bf16 and fp32: not timed yet"
    remedy = "" if found else "runtime.precision=bf16 has both timed before the first run."
    return Check(name="precision", value=value, status="ok", why=_WHY, remedy=remedy)


def settle_precision(
    config: RunConfig, find_choice: Callable[[RunConfig], ChoiceRecord | None]
) -> tuple[RunConfig, str | None]:
    """Replace the configuration's precision `auto` by bf16 or fp32. Return the new configuration, and a sentence with
    the reason. If the precision is not `auto`, return the configuration unchanged, and None.

    `find_choice` is called with the configuration in bf16. It returns the choice by timing (threads, kernels, step
    times in bf16 and fp32), made now or earlier; None if there is no such choice.
    """
    if config.workload.runtime.precision != "auto":
        return config, None
    precision, why = "fp32", _why_not_bf16(config)
    if why is None:
        choice = find_choice(_in_precision(config, "bf16", ""))
        why = compare_precisions(choice) or "bf16 and fp32 are not both timed"
        if choice is not None and choice.bf16_is == "faster than":
            precision, why = "bf16", f"{why}, and met the target in a calibration"
    return _in_precision(config, precision, why), f"{precision}, by runtime.precision=auto: {why}"


def tell_of_bf16(config: RunConfig, data_dir: Path) -> str | None:
    """Return a sentence that says how many times as fast a training step is in bf16 as in fp32, by earlier timing.
    Return None where bf16 is not known to be faster, or the configuration is not fp32 on a CPU. Nothing is timed."""
    runtime = config.workload.runtime
    if runtime.device != "cpu" or runtime.precision != "fp32":
        return None
    try:
        choice = find_choice(_in_precision(config, "bf16", ""), data_dir)
    except ConfigError:  # a model that has no bf16
        return None
    if choice is None or choice.bf16_is != "faster than" or choice.chosen_way is None or choice.in_fp32 is None:
        return None
    times = choice.in_fp32.step_s / choice.chosen_way.step_s
    noisy = ", on a noisy machine" if choice.was_busy else ""
    return (
        f"bf16 would be {times:.2g} times as fast here: {describe_times(choice)}, as timed on "
        f"{choice.chosen_utc[:10]}{noisy}; --set runtime.precision=auto takes it where a calibration in it met the "
        "target"
    )


def read_precision(config: RunConfig, data_root: Path | None) -> tuple[RunConfig, str | None]:
    """Return the configuration with precision `auto` replaced according to the step times remembered in the dataset's
    folder, and a sentence that compares bf16 with fp32 (None where there is nothing to compare). Nothing is timed."""
    data_dir = locate_dataset(config.workload.data, data_root)
    config, why = settle_precision(config, lambda in_bf16: find_choice(in_bf16, data_dir))
    candidates = find_candidates(config, data_dir)
    if why is None and candidates is not None and candidates.compares_fp32:
        why = compare_precisions(find_choice(config, data_dir)) or "bf16 and fp32: not timed yet"
    return config, why


def _in_precision(config: RunConfig, precision: str, why: str) -> RunConfig:
    tables = {**config.tables, "runtime": {**config.tables.get("runtime", {}), "precision": precision}}
    benchmark = parse_benchmark(tables, config.benchmark.path)
    source = f"{config.sources.get('runtime.precision', 'definition')}, auto: {why}"
    sources = {**config.sources, "runtime.precision": source}
    return replace(config, benchmark=benchmark, workload=parse_recorded(benchmark), tables=tables, sources=sources)


def _why_not_bf16(config: RunConfig) -> str | None:
    """Return the reason why precision `auto` cannot become bf16, whatever timing says; None where nothing prevents
    it."""
    runtime, train, benchmark = config.workload.runtime, config.workload.train, config.benchmark
    if runtime.device != "cpu" or runtime.ranks != 1:
        return "steps are timed beforehand on a CPU and one rank alone"
    size, rate, problem = train.global_batch_size, train.opt_base_learning_rate, benchmark.definition_sha256
    for path in (benchmark.path, *([] if (twin := shipped_twin(benchmark)) is None else [twin.path])):
        for end in (".bf16.calibration.json", ".calibration.json"):
            kept = decode(path.with_suffix(end), CalibrationRecord)
            if not isinstance(kept, Damage) and kept.definition_sha256 == problem and kept.is_met("bf16", size, rate):
                return None
    return (
        f"no calibration in bf16 beside {benchmark.path.name} met the target at batch size {size} and learning rate "
        f"{rate:g}; 'dlrmbench calibrate {command_name(benchmark)} --precision bf16' looks whether one does"
    )
