"""Plans as blocks: what a run would do, need and break, and where tables would lie on devices."""

import json
from typing import TYPE_CHECKING

from harness.config.run_config import RunConfig
from harness.planning.plan import Plan
from reports.document.blocks import Block, Bullets, Heading, Prose, text_table
from reports.text.formatting import count, duration, num_bytes, si, time_unit

if TYPE_CHECKING:
    from reference_models.distributed.placement import PlannerEstimate


def plan_blocks(made: Plan, num_runs: int) -> tuple[Block, ...]:
    """What follows from the configuration, every value of it with its source, and the rules that it would break."""
    benchmark = made.config.benchmark
    rows: list[tuple[str, str, str]] = [
        ("runs", str(num_runs), f"{benchmark.score.num_runs} make a score"),
        ("quality target", f"AUC {benchmark.quality.target:g}", "definition"),
        ("dataset", str(made.data_dir), "ready" if made.data_ready else "not there yet"),
    ]
    if made.schedule is not None:
        schedule = made.schedule
        rows += [
            ("samples", f"{count(schedule.train_samples)} train, {count(schedule.eval_samples)} eval", "per epoch"),
            (
                "steps",
                f"{count(schedule.steps_per_epoch)} per epoch of {count(schedule.global_batch_size)}",
                "computed",
            ),
            (
                "evaluations",
                f"every {count(schedule.steps_between_evals)} steps, at most {schedule.num_evals}",
                "rule",
            ),
        ]
    if made.counts is not None:
        flop = si(made.counts.training_flop_per_sample)
        rows += [
            ("parameters", count(made.counts.num_parameters), "computed"),
            ("work per sample", f"{flop}FLOP, {made.counts.num_lookups_per_sample} lookups", "computed"),
        ]
    if made.memory_bytes is not None:
        here = num_bytes(made.resources.available_memory_bytes)
        rows.append(("memory", f"{num_bytes(made.memory_bytes)} of {here} available", "modelled"))
    if made.time is not None:
        rows.append(("run, whole epoch(s)", duration(made.time.run_s), made.time.method))
    config = [(key, _short(value["value"]), value["source"]) for key, value in made.config.values().items()]
    blocks: list[Block] = [
        Heading(text=f"{benchmark.name} version {benchmark.version}: {benchmark.title}"),
        text_table(("What", "Value", "Source"), rows),
        text_table(("Key", "Value", "Source"), config),
    ]
    if made.data_problem is not None:
        blocks.append(Prose(text=f"Dataset: {made.data_problem}"))
    if made.problems:
        return (*blocks, Prose(text="Would break or keep from a score:"), Bullets(items=made.problems))
    return (*blocks, Prose(text="Breaks no rule that is known now."))


def _short(value: object, limit: int = 60) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def devices_plan_blocks(config: RunConfig, made: "PlannerEstimate") -> tuple[Block, ...]:
    """Placement, load and the parameters that all of it rests on; every number is modelled."""
    devices = made.devices
    head = (
        f"{config.benchmark.name}: tables over {devices.num_devices} {devices.device_type} devices, sharding "
        f"{made.sharding}, global batch {count(made.global_batch_size)}. All numbers are modelled by TorchRec's "
        "planner."
    )
    tables = [
        (
            table.table,
            count(table.num_embeddings),
            table.sharding,
            table.kernel,
            _shards(table.shard_shapes),
            _runs(table.devices),
        )
        for table in made.tables
    ]
    step_time = time_unit([load.step_s for load in made.loads]).text
    loads = [
        (
            load.device,
            num_bytes(load.memory_bytes),
            f"{load.memory_bytes / devices.memory_bytes:.0%}",
            num_bytes(load.host_memory_bytes),
            step_time(load.step_s),
        )
        for load in made.loads
    ]
    assumed = (
        f"Assumed: {si(devices.memory_bytes)}B per device at {si(devices.memory_bandwidth)}B/s, "
        f"{devices.devices_per_host} devices per host, {si(devices.intra_host_bandwidth)}B/s between them, "
        f"{si(devices.inter_host_bandwidth)}B/s between hosts."
    )
    modelled = (
        f"Modelled: the slowest device takes {step_time(made.step_s)} per step, {made.balance:.2f} times the mean, "
        "by bandwidths alone: no latency, no dense layers."
    )
    cut = "The search for the best plan was cut short; a better one may exist."
    return (
        Prose(text=head),
        text_table(("Table", "Rows", "Sharding", "Kernel", "Shards", "Devices"), tables, numbers=("Table", "Rows")),
        text_table(
            ("Device", "Memory", "Of it", "Host memory", "Embeddings per step"),
            loads,
            numbers=("Device", "Memory", "Of it", "Host memory", "Embeddings per step"),
        ),
        *((Prose(text=cut),) if made.is_search_cut else ()),
        Prose(text=modelled),
        Prose(text=assumed),
    )


def _shards(shapes: tuple[tuple[int, int], ...]) -> str:
    rows, columns = shapes[0]
    return f"{len(shapes)} of {rows} x {columns}"


def _runs(devices: tuple[int, ...]) -> str:
    """Device numbers with neighbours drawn together: 0-7, or 1, 4."""
    parts: list[list[int]] = []
    for device in sorted(set(devices)):
        if parts and device == parts[-1][-1] + 1:
            parts[-1].append(device)
        else:
            parts.append([device])
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)
