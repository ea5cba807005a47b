"""Define the command `plan-devices`: it shows the plan of TorchRec's planner for a benchmark's tables on given
devices."""

from typing import Any

from harness.cli.shared.help import verb
from harness.cli.shared.options import BENCHMARK, collect_overrides, configuration
from harness.cli.shared.output import form_option
from harness.extensions.placement.options import HEADINGS, device_options, read_question


@verb(
    "dlrmbench plan-devices dlrm_dcnv2 --devices 8",
    "dlrmbench plan-devices dlrm_dcnv2 --devices 16 --device-memory 140GiB",
    name="plan-devices",
    headings=HEADINGS,
)
@BENCHMARK
@configuration
@device_options()
@form_option("table", "json")
def plan_devices(benchmark: str, form: str, **given: Any) -> None:
    """Show TorchRec's plan of BENCHMARK's tables on devices that need not exist, with memory and time of each device.

    TorchRec's planner chooses the plan by costs that it models from the memory and bandwidths given; for hundreds of
    devices, planning takes minutes. 'place' compares TorchRec's plan with the plans of other searches.
    """
    from harness.cli.shared.studies import show_study
    from harness.config.run_config import resolve
    from harness.extensions.placement.plans import search_plans, task_of_benchmark
    from reference_models.distributed.search.registry import TORCHREC

    config = resolve(benchmark, collect_overrides(given), given["name"])
    config.workload.implementation.require_installed()
    question = read_question(given, by=(TORCHREC,), has_baselines=False)
    show_study(search_plans(question, [task_of_benchmark(config, question, None)], config).study, form)
