"""Register [serve] as a section of a benchmark definition: expand the values given by the user, and list the values
that a run set records."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from harness.config.sections import Section
from harness.extensions.serving.config import ServeConfig, parse_serve
from harness.extensions.serving.user_conf import take_mlperf_form, take_user_conf
from reference_models.process.errors import ConfigError

if TYPE_CHECKING:
    from harness.config.run_config import RunConfig


def take_serve(tables: dict[str, Any], sources: dict[str, str], model: str) -> None:
    """Add in place, to the definition's section [serve] in `tables`, the keys that a user.conf and --mlperf set, and
    check the section. Raises ConfigError."""
    table = tables["serve"] = dict(tables.get("serve", {}))
    take_user_conf(table, sources, model)
    take_mlperf_form(table, sources, model)
    try:
        parse_serve(table)
    except ConfigError as error:
        files = (source for key, source in sources.items() if key in str(error) and source.startswith("file "))
        raise ConfigError(": ".join((*list(files)[:1], str(error)))) from None


def list_serve_defaults(serve: ServeConfig) -> Mapping[str, Any]:
    """Return two dicts of keys of [serve] with their values: the keys that are set, and the keys whose values are
    chosen by timing or a search."""
    return {
        key: value
        for key, value in asdict(serve).items()
        if value is not None or key == "threads" or (key == "batch" and serve.is_batch_searched)
    }


def _find_ways(config: "RunConfig") -> Any:
    from harness.extensions.serving.choice import find_ways  # imported only where something is timed

    return find_ways(config)


SERVE = Section(
    name="serve",
    record=ServeConfig,
    parse=parse_serve,
    asked_by="'dlrmbench serve' and 'sweep --serve'",
    take=take_serve,
    find_ways=_find_ways,
    list_defaults=list_serve_defaults,
)
