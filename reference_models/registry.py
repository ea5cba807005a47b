"""Which model and which implementation answers to which name. Nothing optional is imported before it is asked for."""

from collections.abc import Mapping
from importlib import import_module

from reference_models.config.sections import RuntimeConfig, TrainConfig
from reference_models.process.errors import ConfigError, did_you_mean
from reference_models.spec import Implementation, ModelSpec

MODELS: Mapping[str, str] = {"dlrm": "reference_models.dlrm.spec"}
"""Modules that hold a `SPEC`, by the name that a definition gives as benchmark.model."""


def is_model(name: str) -> bool:
    """Whether a model of that name can be trained here. Imports nothing."""
    return name in MODELS


def find_model(name: str) -> ModelSpec:
    """Raises ConfigError, with a suggestion, when there is none of that name."""
    if name not in MODELS:
        raise ConfigError(f"unknown model {name!r}.{did_you_mean(name, list(MODELS))}")
    spec = import_module(MODELS[name]).SPEC
    assert isinstance(spec, ModelSpec)
    return spec


def find_implementation(model: str, name: str) -> Implementation:
    """One implementation of a model, which may need what is not installed.

    Raises ConfigError, with a suggestion, when there is none of that name.
    """
    implementations = find_model(model).implementations
    if name not in implementations:
        raise ConfigError(f"unknown implementation {name!r}.{did_you_mean(name, list(implementations))}")
    return implementations[name]


def refuse_impossible_runtime(model: str, train: TrainConfig, runtime: RuntimeConfig) -> None:
    """Raise ConfigError for what the implementation that is asked for cannot do with ranks."""
    implementation = find_implementation(model, runtime.implementation)
    if implementation.refuse_ranks is not None:
        implementation.refuse_ranks(train, runtime)
        return
    for key in ("ranks", "sharding", "comm", "grad_comm"):
        value, default = getattr(runtime, key), RuntimeConfig.__dataclass_fields__[key].default
        if value != default:
            others = [name for name, other in find_model(model).implementations.items() if other.refuse_ranks]
            raise ConfigError(
                f"runtime.{key} is {value!r}, but implementation {runtime.implementation!r} trains in one process. "
                + (f"Several ranks need --implementation {' or '.join(others)}." if others else "")
            )
