"""Read usage files: several models that one application requests, at a rate or one after another, each with a
deadline."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from harness.config.run_config import parse_value
from harness.extensions.serving.query_file import MAX_ITEMS
from reference_models.config.records import Counts, PositiveCount, read_section
from reference_models.process.errors import ConfigError, did_you_mean
from rules.benchmarks.toml_file import read_toml

RETRIEVAL, STAND_IN = "retrieval", "stand_in"
USAGE = "usage"
"""Name of the table in a usage file (several models that one application requests) whose keys concern all models."""
MAX_REQUESTS = 100_000
_Rate = Annotated[float, Meta(gt=0, le=1e6)]
CURVE = (1, 2, 5, 10, 20)
"""Numbers of subgraphs (starting nodes of a retrieval's second stage) that are tried in addition to the retrieval's
own. If --axis varies the number, only the values of --axis are tried."""
_OF_ONE = {
    "widths": STAND_IN,
    "graph": RETRIEVAL,
    "num_subgraphs": RETRIEVAL,
    "wanted_precision": RETRIEVAL,
    "query_nodes": RETRIEVAL,
}
"""Keys of a model in a usage file (the models of one application) that apply only to models of one source, as a dict
from the key to that source."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedModel:
    """A model of a usage (several models that one application requests). In a request it ranks items, or retrieves
    candidates near a graph node."""

    source: str
    """Source of the model: a benchmark that can be served, by name or file; `retrieval`, which finds candidates near
    a graph node by PageRank; or `stand_in`, an MLP of given widths."""
    rate: _Rate | None = None
    """Requests per second. A model that comes `after` another model has the rate of that model."""
    arrivals: Literal["periodic", "poisson"] = "periodic"
    deadline_ms: Annotated[float, Meta(gt=0, le=1e9)] | None = None
    """Milliseconds from the release of a request to its deadline; for a request that follows another, from the
    release of the first request of the chain. The default is the time until the next request."""
    after: str | None = None
    """Name of the model whose request must be done before a request of this model begins. Each request of the named
    model is followed by a request of this model, with the probability `probability`."""
    probability: Annotated[float, Meta(ge=0, le=1)] = 1.0
    items: Annotated[int, Meta(ge=1, le=MAX_ITEMS)] | None = None
    """Number of items ranked in a request. If left out, it is the number of items that the model named in `after`
    keeps, or 1 if that model keeps none."""
    top_k: PositiveCount | None = None
    """Number of items of highest score that are handed on to the next model. Left out: all; for a retrieval, 100."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Changes to the benchmark definition for this model: a dict from a key, such as "model.top_mlp", to its new
    value."""
    widths: Counts | None = None
    graph: str = "small_world"
    """Graph of a retrieval: `small_world`, `power_law` or `communities`, generated from the seed; or a file of edges,
    two nodes a line."""
    num_subgraphs: PositiveCount | Literal["all"] = 10
    wanted_precision: Annotated[float, Meta(gt=0, le=1)] = 0.8
    """Wanted precision of a retrieval, the share of exact candidates that are found: the study recommends the
    smallest number of subgraphs that reaches it."""
    query_nodes: tuple[int, ...] = ()
    """Graph nodes whose candidates are retrieved, one after another. Left out: 200 nodes drawn from the seed."""

    @property
    def subgraphs(self) -> int | None:
        """Number of subgraphs (starting nodes of a retrieval's second stage); None for all nodes that the first stage
        found."""
        return None if self.num_subgraphs == "all" else self.num_subgraphs

    def curve(self) -> tuple[int | None, ...]:
        """Return the numbers of subgraphs at which a retrieval is tried, rising; None, which means all, comes
        last."""
        numbers = sorted({*CURVE, self.subgraphs or CURVE[0]})
        return (*numbers, *([None] if self.subgraphs is None else []))


@dataclass(frozen=True, kw_only=True, slots=True)
class UsageHead:
    """Settings of a usage (several models that one application requests) that concern all its models."""

    title: str
    source: str
    """Words on the source of the usage's numbers, such as its rates and deadlines."""
    duration_s: Annotated[float, Meta(gt=0, le=3600)] = 10.0
    workers: Annotated[int, Meta(ge=1, le=256)] = 2
    """Number of worker processes, each of which takes one request at a time."""
    factor: _Rate = 1.0
    """Factor by which the request rates of all models are multiplied."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage(UsageHead):
    """A checked usage (several models that one application requests): its settings, and its models by name, each
    after the model that it follows.

    Keys that a model leaves out have their default values here, except deadlines.
    """

    models: Mapping[str, AskedModel]

    def within_s(self, name: str) -> float:
        """Return the seconds from the release of a request to its deadline."""
        model = self.models[name]
        return (model.deadline_ms or 1e3 / ((model.rate or 0.0) * self.factor)) / 1e3


def shipped_usages() -> dict[str, Path]:
    """Return the paths of the usage files (the models of one application) that are shipped with the harness, by
    name."""
    return {path.stem: path for path in sorted((Path(__file__).parent / "usages").glob("*.toml"))}


def read_usage(name: str) -> tuple[str, dict[str, Any]]:
    """Read a usage file (the models of one application), given by its shipped name or its path; return the path and
    the tables. Raises ConfigError or DefinitionError if the file cannot be read."""
    shipped = shipped_usages()
    if name not in shipped and not name.endswith(".toml"):
        raise ConfigError(f"{name}: neither a usage scenario nor a FILE.toml.{did_you_mean(name, [*shipped])}")
    path = shipped.get(name, Path(name))
    return str(path), read_toml(path)


def with_value(tables: Mapping[str, Any], text: str, option: str = "--set") -> dict[str, Any]:
    """Return the tables of a usage file (the models of one application) with one value changed, given as
    MODEL.KEY=VALUE or usage.KEY=VALUE. Raises ConfigError if the change is malformed."""
    key, equals, value = text.partition("=")
    table, _, name = key.strip().partition(".")
    if not equals or not name:
        raise ConfigError(f"{option} {text!r}: expected MODEL.KEY=VALUE, such as retrieval.num_subgraphs=10.")
    if not isinstance(tables.get(table), dict):
        raise ConfigError(f"{option} {text!r}: unknown model {table!r}.{did_you_mean(table, [*tables])}")
    return {**tables, table: {**tables[table], name: parse_value(value)}}


def parse_usage(tables: Mapping[str, Any], path: str) -> Usage:
    """Check the tables of a usage file (the models of one application), and return the usage. Raises ConfigError if a
    key or value is wrong; the message says where, and what is expected."""
    try:
        return _parse(tables)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _parse(tables: Mapping[str, Any]) -> Usage:
    if wrong := next((name for name, table in tables.items() if not isinstance(table, dict)), None):
        raise ConfigError(f"{wrong} is {tables[wrong]!r:.80}, expected [usage] and a table for each model.")
    models = {name: read_section(name, table, AskedModel) for name, table in tables.items() if name != USAGE}
    if not models:
        raise ConfigError("no model, expected a table for each, with its source and rate.")
    ordered: dict[str, AskedModel] = {}
    for name, model in [*models.items()] * len(models):
        if model.after is not None and model.after not in models:
            raise ConfigError(
                f"{name}.after is {model.after!r}: no such model.{did_you_mean(model.after, [*models])}"
            )
        if name not in ordered and (model.after is None or model.after in ordered):
            ordered[name] = _complete(name, model, ordered.get(model.after or ""))
    if circle := [name for name in models if name not in ordered]:
        raise ConfigError(f"{', '.join(circle)}: each comes after another of them, in a circle. Break it.")
    usage = Usage(**asdict(read_section(USAGE, tables.get(USAGE, {}), UsageHead)), models=ordered)
    if (num := sum(usage.duration_s * (model.rate or 0.0) for model in ordered.values())) > MAX_REQUESTS:
        raise ConfigError(f"usage.duration_s asks for {num:,.0f} requests, expected {MAX_REQUESTS:,} at most.")
    return usage


def _complete(name: str, model: AskedModel, before: AskedModel | None) -> AskedModel:
    """Return a model of a usage file with rate, arrivals, items and top_k filled in. Raises ConfigError for keys that
    do not go together."""
    for key, source in _OF_ONE.items():
        if source != model.source and getattr(model, key) != AskedModel.__dataclass_fields__[key].default:
            raise ConfigError(f"{name}.{key} is for source = {source!r} alone. Leave it out.")
    if model.settings and model.source in (RETRIEVAL, STAND_IN):
        raise ConfigError(f"{name}.settings is for benchmarks, source is {model.source!r}. Leave it out.")
    if (model.rate is None) == (before is None):
        raise ConfigError(f"{name}: expected one of rate and after: a model after another has the rate of the other.")
    rate, arrivals, items = model.rate, model.arrivals, model.items or 1
    if before is not None:
        rate, arrivals, items = before.rate, before.arrivals, model.items or before.top_k or 1
    if arrivals == "poisson" and model.deadline_ms is None:
        raise ConfigError(
            f"{name}.deadline_ms is missing: with random arrivals the next request is not a deadline. Give one."
        )
    if model.source == STAND_IN and len(model.widths or ()) < 2:
        raise ConfigError(f"{name}.widths: expected two or more, such as [256, 256], of an MLP.")
    if items > MAX_ITEMS:
        raise ConfigError(f"{name}: {items:,} items a request, expected {MAX_ITEMS:,} at most. Give items.")
    top_k = model.top_k or (100 if model.source == RETRIEVAL else items)
    return replace(model, rate=rate, arrivals=arrivals, items=items, top_k=top_k)
