"""Make a study (findings and tables, but no run set), such as of how long exchanges between ranks take, by a
measurement in a fresh process with a temporary folder."""

from collections.abc import Sequence
from typing import Any

from harness.autotune.choices import has_own_ways
from harness.autotune.tuning import autotune
from harness.config.run_config import RunConfig
from harness.experiment.prepare import prepare_data
from harness.experiment.request import Request
from harness.foundation.errors import HarnessError
from harness.launch.process import STDERR_FILE, explain_end, launch_worker
from harness.measure.job import write_job
from harness.measure.kinds import Kind, OnEvent
from harness.measure.refusals import refuse_id_map
from harness.run_sets.environment import Environment, refuse_disturbed_environment
from harness.run_sets.output import refuse_output
from rules.records.codec import Damage, decode
from rules.records.study import StudyRecord
from rules.temporary_folder import temporary_folder


def measure_study(
    kind: Kind, configs: Sequence[RunConfig], request: Request, on_event: OnEvent = lambda event: None, **asked: Any
) -> StudyRecord:
    """Measure one or more configurations, and return the study (findings and tables). The configurations are checked
    and their datasets made ready; the measurement's job then runs in one fresh process. The study records the
    environment check and the load during the job; warnings of the check also go to standard error.

    The job is made for the first configuration. Its field `others` has the definitions and datasets of the further
    configurations. `asked` are further fields of the job. Raises the errors of `kind.check` and `prepare_data`. If
    the job fails, raises HarnessError with the last line of the process's stderr, and with its exit code.
    """
    for config in configs:
        kind.check(config.workload)
        refuse_id_map(config.workload.data, kind.takes_id_maps)
    refuse_output(request.output)
    if request.strict_env:
        refuse_disturbed_environment(request.data, request.output)
    ready = [prepare_data(kind, config, request.data, quiet=request.quiet) for config in configs]
    if has_own_ways(configs[0]):
        ready[0] = autotune(configs[0], ready[0], known={}, quiet=request.quiet)
    num_threads, choice = ready[0].num_threads, ready[0].choice
    members: list[dict[str, Any]] = [
        {
            "tables": {**config.tables, "runtime": {**config.tables.get("runtime", {}), "threads": num_threads}},
            "definition_path": str(config.benchmark.path),
            "data_dir": str(prepared.data_dir),
        }
        for config, prepared in zip(configs, ready, strict=True)
    ]
    more = {"others": members[1:]} if members[1:] else {}
    environment = Environment.check(ready[0].data_dir, request.output)
    with temporary_folder(kind.name) as folder:
        if choice is not None:
            members[0]["tables"] = kind.with_choice(members[0]["tables"], choice)
        job = kind.job(**{"seed": 0, "folder": str(folder), **members[0], **more, **asked})
        with environment.measuring():
            end = launch_worker(write_job(kind, job), num_threads=num_threads, on_event=on_event)
        study = decode(folder / kind.file, StudyRecord)
        if isinstance(study, Damage):
            error = HarnessError(*explain_end(end))
            error.add_note((folder / STDERR_FILE).read_text(encoding="utf-8", errors="replace"))  # for --debug
            raise error
    return environment.put_on(study)
