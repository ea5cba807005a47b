"""A plan as blocks: what a run would do, need and break."""

import json

from harness.planning.plan import Plan
from reports.document.blocks import Block, Bullets, Heading, Prose, text_table
from reports.text.formatting import count, duration, num_bytes, si


def plan_blocks(made: Plan, num_runs: int) -> tuple[Block, ...]:
    """Show what follows from the configuration, its values with their sources, and the rules it would break."""
    benchmark = made.config.benchmark
    rows: list[tuple[str, str, str]] = [
        ("runs", str(num_runs), f"{benchmark.score.num_runs} make a score"),
        ("quality target", f"AUC {benchmark.quality.target:g}", "definition"),
        ("dataset", str(made.data_dir), "ready" if made.data_problem is None else "not there yet"),
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
