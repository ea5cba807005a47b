"""A model of another package, for tests: logistic regression on the dense features, with one implementation."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from reference_models.config.records import read_section
from reference_models.config.sections import DataConfig
from reference_models.costs import Linear, Step
from reference_models.process.world import World
from reference_models.spec import Costs, Implementation, ModelSpec
from reference_models.training.phases import Phase
from reference_models.training.workload import Workload, WorkloadSpec
from rules.benchmarks.loader import load_benchmark, read_definition

FORWARD = "logits_forward"


@dataclass(frozen=True)
class LogisticConfig:
    has_bias: bool = True


def parse_model(table: Mapping[str, Any]) -> LogisticConfig:
    return read_section("model", table, LogisticConfig)


def declare_step(model: LogisticConfig, data: DataConfig, batch_size: int) -> Step:
    logits = Linear(
        (FORWARD, Phase.LOSS),
        "logits",
        batch_size,
        data.num_dense,
        1,
        has_bias=model.has_bias,
        needs_input_gradient=False,
    )
    return Step(layers=[logits])


def load(spec: WorkloadSpec, world: World) -> Workload:
    import torch

    from reference_models.data.store.dataset import Batch
    from reference_models.training.loop import Built, TrainingLoop
    from reference_models.training.optimizers import build_dense_optimizer

    class Logistic(torch.nn.Linear):
        def forward(self, dense: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = super().forward(dense)
            return logits.squeeze(1)

    class LogisticWorkload(TrainingLoop):
        name = "plain"

        def build_model(self, num_embeddings: tuple[int, ...]) -> Built:
            with self.device:
                model = Logistic(self.data.train.num_dense, 1, bias=self.spec.model.has_bias)
            for parameter in model.parameters():
                torch.nn.init.zeros_(parameter)  # so that every seed learns alike
            return model, [build_dense_optimizer(self.spec.train, list(model.parameters()))]

        def compute_logits(self, model: Any, batch: Batch) -> torch.Tensor:
            self.enter(FORWARD)
            return super().compute_logits(model, batch)

    return LogisticWorkload(spec, world)


PLAIN = Implementation(load=load)
SPEC = ModelSpec(
    section=LogisticConfig,
    parse=parse_model,
    implementations={"plain": PLAIN},
    costs=Costs(step=declare_step),
    phases={
        Phase.DATA: "data",
        FORWARD: "logits fwd",
        Phase.LOSS: "loss",
        Phase.ZERO_GRAD: "zero gradients",
        Phase.DENSE_OPTIMIZER: "dense optimizer",
        Phase.OTHER: "other",
    },
)


def install(site: Path, *lines: str) -> Path:
    """What an installed package with entry points leaves in a folder of sys.path: its name, and these lines."""
    info = site / "dense_logistic-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: dense-logistic\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    (site / "dense_logistic.py").write_text(Path(__file__).read_text(encoding="utf-8"), encoding="utf-8")
    return site


def write_definition(folder: Path, *, target: float = 0.6) -> Path:
    """A benchmark of this model on clicks that depend on dense features alone."""
    tables = read_definition(load_benchmark("dlrm_tiny").path)
    sizes = {"train_samples": 40960, "eval_samples": 4096}
    tables["benchmark"] |= {"name": "logistic_tiny", "model": "dense_logistic"}
    tables["quality"] |= {"target": target}
    tables["closed"] |= sizes
    tables["model"] = {"has_bias": True}
    tables["data"] |= {"name": "dense_clicks", "num_embeddings": [10, 10], **sizes}
    without_ids = {"effect_scale": 0, "interaction_scale": 0, "num_interactions": 1}
    tables["data"]["parameters"] = {"zipf_exponent": 1.25, "bias": -1.2, "dense_scale": 2, **without_ids}
    del tables["data"]["sha256"]
    tables["runtime"] = {"implementation": "plain", "threads": 1}
    path = folder / "logistic_tiny.toml"
    path.write_text(tomli_w.dumps(tables), encoding="utf-8")
    return path
