"""Options that several verbs share."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict, TypeVar

import click

from harness.config.run_config import WORLD_SOURCE, Override, read_config_file, read_environment, read_set_option

F = TypeVar("F", bound=Callable[..., Any])

BENCHMARK = click.argument("benchmark", default="dlrm_small")
DATA = click.option(
    "--data", "data_root", type=click.Path(path_type=Path), envvar="DLRMBENCH_DATA",
    help="Folder of datasets, or one dataset.  [default: ./data]",
)  # fmt: skip
STRICT_ENV = click.option("--strict-env", is_flag=True, help="Do not run (exit 6) where the environment check warns.")
QUIET = click.option("-q", "--quiet", is_flag=True, help="No progress.")
TIMEOUT = click.option(
    "--timeout", "timeout_s", type=click.FloatRange(min=0, min_open=True), help="Seconds a run may take."
)

_CONFIGURATION = (
    click.option("-c", "--config", "config_file", type=click.Path(path_type=Path), help="TOML file of values."),
    click.option("--set", "assignments", multiple=True, metavar="SECTION.KEY=VALUE", help="One value; repeatable."),
    click.option("--name", help="Label of this configuration, or name of the benchmark that --set makes."),
    DATA,
    click.option("--device", help="cpu, cuda or cuda:N."),
    click.option("--threads", type=click.IntRange(min=1), help="CPU threads.  [default: the cores allowed]"),
    click.option("--implementation", help="Which implementation trains.  [default: reference]"),
    click.option("--ranks", type=click.IntRange(min=1), help="Processes of one run (torchrec).  [default: 1]"),
    click.option("--sharding", help="How tables are sharded over ranks (torchrec).  [default: auto]"),
    click.option("--comm", help="Precision in which embeddings are sent (torchrec).  [default: fp32]"),
    click.option("--grad-comm", help="Compression of dense gradients (torchrec).  [default: dense]"),
    click.option(
        "--division",
        type=click.Choice(["closed", "open"]),
        help="Rules to run by.  [default: closed for own benchmarks, open for official names]",
    ),
    click.option("--submitter", help="Organisation named in log and system description."),
)


def output_option(text: str) -> Callable[[F], F]:
    """-o, a folder in which results are made: ./results by default."""
    return click.option(
        "-o", "--output", type=click.Path(path_type=Path), default=Path("results"), show_default=True,
        envvar="DLRMBENCH_OUTPUT", help=text,
    )  # fmt: skip


def configuration(command: F) -> F:
    """-c, --set, --name and the options that stand for one configuration key."""
    for option in reversed(_CONFIGURATION):
        command = option(command)
    return command


class Configured(TypedDict):
    """What the options of `configuration` hand to a verb."""

    config_file: Path | None
    assignments: tuple[str, ...]
    name: str | None
    data_root: Path | None
    device: str | None
    threads: int | None
    implementation: str | None
    ranks: int | None
    sharding: str | None
    comm: str | None
    grad_comm: str | None
    division: str | None
    submitter: str | None


def collect_overrides(configured: Configured, launched_ranks: int | None = None) -> list[Override]:
    """Collect all overrides, weakest first: file, environment, --set, option, an external launcher's ranks."""
    config_file = configured["config_file"]
    overrides = read_config_file(config_file) if config_file is not None else []
    overrides += read_environment(os.environ)
    overrides += [read_set_option(text) for text in configured["assignments"]]
    options = {
        "runtime.device": configured["device"],
        "runtime.threads": configured["threads"],
        "runtime.implementation": configured["implementation"],
        "runtime.ranks": configured["ranks"],
        "runtime.sharding": configured["sharding"],
        "runtime.comm": configured["comm"],
        "runtime.grad_comm": configured["grad_comm"],
        "submission.submitter": configured["submitter"],
    }
    overrides += [
        Override(key=key, value=value, source=f"option --{key.partition('.')[2].replace('_', '-')}")
        for key, value in options.items()
        if value is not None
    ]
    if launched_ranks is not None:
        overrides.append(Override(key="runtime.ranks", value=launched_ranks, source=WORLD_SOURCE))
    return overrides
