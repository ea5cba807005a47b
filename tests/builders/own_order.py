"""An order and a stop rule of one's own, as changes of the product, and a program that uses them."""

PLAN = """
import json, sys
from pathlib import Path
from scripted_commands import acting
from scripted_workers import Moment, ScriptedWorkers
from harness.config.run_config import Override
from harness.experiment.create import create
from harness.experiment.expand import expand
from harness.experiment.loop import complete
from harness.experiment.prepare import prepare
from harness.experiment.request import Request
from rules.records.experiment import StopRecord
workers = ScriptedWorkers(Moment(0.0), num_evals=1)
with acting(Path.cwd(), [], {{}}, workers):
    request = Request(
        verb="sweep", benchmark="dlrm_tiny", axes=["train.opt_base_learning_rate=0.03,0.06"], runs=1, seed=1,
        overrides=[Override(key="runtime.threads", value=1, source="test")], data=Path({data!r}), output=Path("out"),
        order="rounds", stop=StopRecord(rule="at_least", values={{"repetitions": 3}}), quiet=True,
    )
    folder = create(prepare(expand(request)))
    complete(folder)
stage = json.loads((folder / "experiment.json").read_text())["stages"][0]
print(stage["order"], stage["repetitions"])
print(*[launch.split("/")[2][:2] for launch in workers.launches])
"""


ORDER = '''\
+def rounds(configurations: Sequence[int], repetitions: int) -> Iterator[OrderStep]:
+    """Make repetition k of every configuration before k + 1 of any, always in the same order."""
+    for repetition in range(repetitions):
+        yield from (OrderStep(configuration, repetition) for configuration in configurations)
+
+
 ORDERS: Mapping[str, Order] = {
+    "rounds": rounds,
'''
STOP_RULE = '''\
+class AtLeast:
+    """Add repetitions until every configuration has as many as the rule says."""
+
+    def __init__(self, values: Mapping[str, float]) -> None:
+        self._repetitions = int(values["repetitions"])
+
+    def extend(self, state: State) -> int | None:
+        is_done = state.record.num_runs >= self._repetitions
+        return None if is_done else self._repetitions
+
+
 STOP_RULES: Mapping[str, type[StopRule]] = {
+    "at_least": AtLeast,
'''
