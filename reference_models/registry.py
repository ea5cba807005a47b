"""Registry of models and of implementations of their training, by name. Optional packages are imported when needed.

Other packages add models and implementations by entry points, which are read only for names that dlrmbench lacks. A
model is a `ModelSpec` in the group `dlrmbench.models`; the entry point's name is the model's. An implementation is an
`Implementation` in the group `dlrmbench.implementations`; the entry point's name is MODEL.IMPLEMENTATION.

A user may also name an object in a file, `path/file.py:object`. For a model the object is a `ModelSpec`. For an
implementation it is an `Implementation`, or a function or class that makes a workload from a specification and a
world (the run's processes). The file's digest is fixed before the file is used. The file may import only installed
packages.
"""

import hashlib
import re
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.abc import ExecutionLoader
from importlib.util import decode_source, module_from_spec, spec_from_loader
from inspect import ismodule
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from reference_models.config.precisions import refuse_precision
from reference_models.config.sections import RuntimeConfig, TrainConfig
from reference_models.process.errors import (
    OWN_CODE,
    ConfigError,
    DatasetError,
    did_you_mean,
    explain_second_file,
)
from reference_models.process.importing import import_with_torch
from reference_models.process.open_file import read_regular
from reference_models.serving import servable
from reference_models.serving.servable import Servable, Weights
from reference_models.spec import Implementation, ModelSpec
from reference_models.training.workload import WorkloadSpec

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

T = TypeVar("T")
MODELS: Mapping[str, str] = {
    "dlrm": "reference_models.dlrm.spec",
    "wukong": "reference_models.wukong.spec",
    "hstu": "reference_models.hstu.spec",
    "d2nn": "reference_models.d2nn.spec",
}
"""Modules that hold a model's ModelSpec as `SPEC`, by the model's name (benchmark.model in a definition)."""
MODEL_GROUP, IMPLEMENTATION_GROUP = "dlrmbench.models", "dlrmbench.implementations"
_PLACE = re.compile(r"(?P<path>.+\.py):(?P<name>[^\W\d]\w*)(@(?P<sha256>[0-9a-f]{64}))?", re.DOTALL)
_MAX_CODE_BYTES = 1 << 24


@dataclass(frozen=True, kw_only=True, slots=True)
class FilePlace:
    """Place of an object in a Python file, written `path.py:name`, with `@sha256` of the file once it is pinned."""

    path: Path
    name: str
    sha256: str | None

    def __str__(self) -> str:
        return f"{self.path}:{self.name}" + (f"@{self.sha256}" if self.sha256 else "")

    @property
    def label(self) -> str:
        """Name of the object in logs and tables: file without folder, object, and the first digits of the file's
        digest."""
        return f"{self.path.name}:{self.name}" + (f"@{self.sha256[:12]}" if self.sha256 else "")


def entry_points(group: str, name: str | None = None) -> "EntryPoints":
    """Return the entry points of installed packages in `group`. Imports importlib.metadata only when called, since
    that import is slow."""
    from importlib import metadata

    return metadata.entry_points(group=group) if name is None else metadata.entry_points(group=group, name=name)


def is_model(name: str) -> bool:
    """Return whether dlrmbench or an installed package has a model named `name`; False for a model in a file
    (path/file.py:object). Imports no model."""
    return name in MODELS or bool(entry_points(group=MODEL_GROUP, name=name))


def known_models() -> list[str]:
    """Return the names of all models, dlrmbench's first, then those of installed packages. Imports no model."""
    return [*MODELS, *sorted(entry_points(group=MODEL_GROUP).names)]


def parse_place(code: str) -> FilePlace | None:
    """Return the file and object that 'path/file.py:object' names; None for a plain name of a model or
    implementation."""
    match = _PLACE.fullmatch(code)
    return match and FilePlace(path=Path(match["path"]), name=match["name"], sha256=match["sha256"])


def label_of(code: str) -> str:
    """Return the name under which logs and tables show a model or implementation; that of an object in a file
    includes the first digits of the file's digest."""
    place = parse_place(code)
    return code if place is None else place.label


def without_digest(code: str) -> str:
    """Return the name of a model or implementation as a command line gives it, without the digest of its file."""
    place = parse_place(code)
    return code if place is None else str(replace(place, sha256=None))


def pin_code(code: str) -> str:
    """Return 'path/file.py:object' with the file's full path and digest; plain names stay as they are.

    Raises ConfigError if the file cannot be read.
    """
    place = parse_place(code)
    if place is None:
        return code
    path = place.path.absolute()
    return str(FilePlace(path=path, name=place.name, sha256=_read_pinned(path, place.sha256)[1]))


def find_model(name: str) -> ModelSpec:
    """Return the ModelSpec of a model, by its name or its pinned file. Raises ConfigError, with a suggestion, if
    there is none."""
    if (place := parse_place(name)) is not None:
        spec = _load_object(place)
        if not isinstance(spec, ModelSpec):
            raise ConfigError(
                f"{place.label} is a {type(spec).__name__}, expected a ModelSpec, such as SPEC of the file that "
                "'dlrmbench init --model my.py' writes."
            )
        return spec
    if name in MODELS:
        spec = import_module(MODELS[name]).SPEC
        assert isinstance(spec, ModelSpec)
        return spec
    points = entry_points(group=MODEL_GROUP, name=name)
    if not points:
        raise ConfigError(f"unknown model {name!r}.{did_you_mean(name, known_models())}")
    return _load(points, f"model {name!r}", ModelSpec)


def find_implementation(model: str, name: str) -> Implementation:
    """Return an implementation of a model's training, by name. Packages that the implementation needs may be missing.

    Raises ConfigError, with a suggestion, if there is no implementation of that name, or if its file cannot be used.
    """
    implementations = find_model(model).implementations
    if name in implementations:
        return implementations[name]
    if (place := parse_place(name)) is not None:
        return _load_implementation(place)
    points = entry_points(group=IMPLEMENTATION_GROUP, name=f"{model}.{name}")
    if not points:
        others = entry_points(group=IMPLEMENTATION_GROUP).names
        known = [*implementations, *(n.removeprefix(f"{model}.") for n in others if n.startswith(f"{model}."))]
        own = " A file needs its object's name, as in FILE.py:OBJECT." if name.endswith(".py") else ""
        raise ConfigError(f"unknown implementation {name!r}.{own or did_you_mean(name, known)}")
    return _load(points, f"implementation {name!r} of model {model!r}", Implementation)


def _load(points: "EntryPoints", what: str, kind: type[T]) -> T:
    places = sorted({f"{point.value} of {point.dist.name if point.dist else 'no package'}" for point in points})
    if len(places) > 1:
        raise ConfigError(f"{what} is in several packages: {', '.join(places)}. Uninstall all but one.")
    try:
        found = next(iter(points)).load()
    except Exception as error:  # any error of another package's module while it is imported
        raise ConfigError(f"{what} ({places[0]}) cannot be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(found, kind):
        raise ConfigError(f"{what} ({places[0]}) is a {type(found).__name__}, expected a {kind.__name__}.")
    return found


class _SourceLoader(ExecutionLoader):
    """Loader of a Python module from source that was already read, so that exactly the bytes that were hashed are
    run."""

    def __init__(self, path: Path, source: bytes) -> None:
        self._path, self._source = path, source

    def get_filename(self, fullname: str) -> str:
        return str(self._path)

    def get_source(self, fullname: str) -> str:
        return decode_source(self._source)


def _load_implementation(place: FilePlace) -> Implementation:
    found = _load_object(place)
    if isinstance(found, Implementation):
        return found
    if not callable(found):
        raise ConfigError(
            f"{place.label} is a {type(found).__name__}, expected an Implementation, or a function or class that "
            "makes a workload of a WorkloadSpec and a World."
        )
    return Implementation(load=found)


def _load_object(place: FilePlace) -> Any:
    """Return an object from a user's Python file. Files of equal content are run once in a process."""
    source, digest = _read_pinned(place.path, place.sha256)
    name = f"{OWN_CODE}{digest}"
    if name not in sys.modules:
        spec = spec_from_loader(name, _SourceLoader(place.path, source))
        assert spec is not None and spec.loader is not None
        sys.modules[name] = module_from_spec(spec)
        try:
            with redirect_stdout(sys.stderr):  # standard output is for the command's own output, such as JSON
                spec.loader.exec_module(sys.modules[name])
        except (Exception, SystemExit) as error:
            del sys.modules[name]
            hint = explain_second_file(place.path, error)
            raise ConfigError(f"{place.path} cannot be loaded: {type(error).__name__}: {error}{hint}") from error
    module = sys.modules[name]
    if not hasattr(module, place.name):
        known = [found for found, value in vars(module).items() if not (found.startswith("_") or ismodule(value))]
        raise ConfigError(f"{place.path} has no {place.name!r}.{did_you_mean(place.name, known)}")
    return getattr(module, place.name)


def _read_pinned(path: Path, sha256: str | None) -> tuple[bytes, str]:
    """Return a Python file's source and digest. Raises ConfigError if it cannot be read, or its digest is not
    `sha256`."""
    try:
        source = read_regular(path, _MAX_CODE_BYTES, follows=True)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file. Give PATH.py:OBJECT of a file that is there.") from None
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read: {error.strerror}. Give PATH.py:OBJECT of a file that is there."
        ) from None
    except DatasetError as error:
        raise ConfigError(f"{error} Give PATH.py:OBJECT of Python's source.") from None
    digest = hashlib.sha256(source).hexdigest()
    if sha256 not in (None, digest):
        raise ConfigError(
            f"{path} has changed: its sha256 is {digest}, that of the runs {sha256}. All runs of a set need "
            "the same code: put the file back, or start anew."
        )
    return source, digest


def build_servable(model: str, spec: WorkloadSpec, weights: Weights | None = None) -> Servable:
    """Build the model that answers queries (batches to score), with `weights`; if they are None, with initial weights
    drawn with the seed.

    Raises ConfigError if the model cannot answer queries with the settings of [runtime], or if the weights are of
    another model.
    """
    refuse_impossible_serving(model, spec.runtime)
    if (serve := find_model(model).serve) is not None:
        return serve(spec, weights)
    forward, name = import_with_torch("reference_models.serving.forward"), spec.runtime.implementation
    built: Servable = forward.ServedForward(label_of(name), find_implementation(model, name).load, spec, weights)
    return built


def refuse_impossible_serving(model: str, runtime: RuntimeConfig) -> None:
    """Raise ConfigError if a model or implementation cannot answer queries with these settings of [runtime].

    Imports no torch.
    """
    known, name = find_model(model), runtime.implementation
    servable.refuse_impossible_serving(runtime, has_own=known.serve is not None)
    refuse_switches(None, runtime)
    if known.serve is None and not find_implementation(model, name).serves:
        others = [repr(other) for other, each in known.implementations.items() if each.serves]
        raise ConfigError(
            f"implementation {label_of(name)!r} of model {label_of(model)!r} cannot be served: its buffers hold one "
            f"batch at a time." + (f" Use {' or '.join(others)}." if others else "")
        )


def refuse_impossible_runtime(model: str, train: TrainConfig, runtime: RuntimeConfig) -> None:
    """Raise ConfigError if the chosen implementation cannot train with this number of ranks or this precision."""
    for key, value in (("precision", runtime.precision), ("table_precision", runtime.table_precision)):
        if value == "int8" or (key == "table_precision" and value != "fp32"):
            raise ConfigError(
                f"runtime.{key} {value!r} serves, and does not train: an update is smaller than its steps. "
                f"Train in fp32, and serve the trained model in {value}."
            )
    if runtime.precision != "auto":
        refuse_precision(runtime.device.partition(":")[0], runtime.precision)
    implementation = find_implementation(model, runtime.implementation)
    refuse_switches(implementation, runtime)
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


def refuse_switches(implementation: Implementation | None, runtime: RuntimeConfig) -> None:
    """Raise ConfigError if `runtime.graph` or `.kernels` switches off a part that the implementation does not have.

    `implementation` is None for serving.
    """
    what = "serving" if implementation is None else f"implementation {label_of(runtime.implementation)!r}"
    known = () if implementation is None else implementation.switches
    for key in ("graph", "kernels"):
        if (value := getattr(runtime, key)) == "auto" or (key in known and (key, runtime.device) != ("graph", "cpu")):
            continue
        on_cpu = " on a CPU" if key in known else ""
        raise ConfigError(f"runtime.{key} is {value!r}, but {what} has no {key} to switch off{on_cpu}. Leave it out.")


def outside_names(model: str, implementation: str) -> dict[str, str]:
    """Return the names of the model and the implementation under the keys "model" and "implementation", without those
    that are dlrmbench's own.

    Imports no other package.
    """
    if parse_place(model) is not None and parse_place(implementation) is None:
        return {"model": model}  # the implementation is in that file
    if model not in MODELS:
        return {"model": model, "implementation": implementation}
    is_ours = implementation in find_model(model).implementations
    return {} if is_ours else {"implementation": implementation}
