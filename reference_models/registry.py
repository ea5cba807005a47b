"""Which model and which implementation answers to which name. Nothing optional is imported before it is asked for.

Other packages add theirs by entry points, which are looked at only for names that are not ours: a `ModelSpec` in
the group `dlrmbench.models` by the model's name, an `Implementation` in `dlrmbench.implementations` by
MODEL.IMPLEMENTATION.
"""

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import EntryPoints, entry_points
from typing import TypeVar

from reference_models.config.sections import RuntimeConfig, TrainConfig
from reference_models.process.errors import ConfigError, did_you_mean
from reference_models.spec import Implementation, ModelSpec

T = TypeVar("T")
MODELS: Mapping[str, str] = {
    "dlrm": "reference_models.dlrm.spec",
}
"""Modules that hold a `SPEC`, by the name that a definition gives as benchmark.model."""
MODEL_GROUP, IMPLEMENTATION_GROUP = "dlrmbench.models", "dlrmbench.implementations"


def is_model(name: str) -> bool:
    """Return whether a model of that name can be trained here. Imports nothing."""
    return name in MODELS or bool(entry_points(group=MODEL_GROUP, name=name))


def find_model(name: str) -> ModelSpec:
    """Find a model. Raises ConfigError, with a suggestion, when there is none of that name."""
    if name in MODELS:
        spec = import_module(MODELS[name]).SPEC
        assert isinstance(spec, ModelSpec)
        return spec
    points = entry_points(group=MODEL_GROUP, name=name)
    if not points:
        known = [*MODELS, *entry_points(group=MODEL_GROUP).names]
        raise ConfigError(f"unknown model {name!r}.{did_you_mean(name, known)}")
    return _load(points, f"model {name!r}", ModelSpec)


def find_implementation(model: str, name: str) -> Implementation:
    """Find an implementation of a model, which may need what is not installed.

    Raises ConfigError, with a suggestion, when there is none of that name.
    """
    implementations = find_model(model).implementations
    if name in implementations:
        return implementations[name]
    points = entry_points(group=IMPLEMENTATION_GROUP, name=f"{model}.{name}")
    if not points:
        others = entry_points(group=IMPLEMENTATION_GROUP).names
        known = [*implementations, *(n.removeprefix(f"{model}.") for n in others if n.startswith(f"{model}."))]
        raise ConfigError(f"unknown implementation {name!r}.{did_you_mean(name, known)}")
    return _load(points, f"implementation {name!r} of model {model!r}", Implementation)


def _load(points: EntryPoints, what: str, kind: type[T]) -> T:
    places = sorted({f"{point.value} of {point.dist.name if point.dist else 'no package'}" for point in points})
    if len(places) > 1:
        raise ConfigError(f"{what} is in several packages: {', '.join(places)}. Uninstall all but one.")
    try:
        found = next(iter(points)).load()
    except Exception as error:  # whatever another package's module raises while it is imported
        raise ConfigError(f"{what} ({places[0]}) cannot be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(found, kind):
        raise ConfigError(f"{what} ({places[0]}) is a {type(found).__name__}, expected a {kind.__name__}.")
    return found


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


def outside_names(model: str, implementation: str) -> dict[str, str]:
    """Return option and name of each that is not ours, as "model" and "implementation". Imports no other package."""
    if model not in MODELS:
        return {"model": model, "implementation": implementation}
    is_ours = implementation in find_model(model).implementations
    return {} if is_ours else {"implementation": implementation}
