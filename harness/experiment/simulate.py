"""`serve --simulate`: what the virtual clock says of a served model, as a study that leaves no run set."""

from harness.config.run_config import RunConfig
from harness.config.seeds import draw_base_seed
from harness.experiment.prepare import prepare_data
from harness.experiment.request import Request
from harness.measure.refusals import refuse_unservable
from harness.measure.serving.job import KIND, resolve_served
from harness.planning.queue import simulate_service as simulate
from harness.run_sets.environment import refuse_disturbed_environment
from harness.run_sets.output import refuse_output
from rules.records.study import StudyRecord


def simulate_service(request: Request) -> tuple[StudyRecord, RunConfig]:
    """Time a model's calls and simulate its queue; returns the study and the configuration that was resolved."""
    config = resolve_served(request.benchmark or "dlrm_small", request.overrides, request.name)
    refuse_unservable(config.workload)
    refuse_output(request.output)
    if request.strict_env:
        refuse_disturbed_environment(request.data, request.output)
    prepared = prepare_data(KIND, config, request.data, quiet=request.quiet)
    seed = draw_base_seed() if request.seed is None else request.seed
    return simulate(config, prepared.data_dir, seed), config
