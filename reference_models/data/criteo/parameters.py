"""`[data.parameters]` of a benchmark on Criteo text: how rows become the dataset. Torch-free."""

from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from msgspec import Meta

from reference_models.config.records import PositiveCount, read_section, refuse
from reference_models.config.sections import DataConfig
from reference_models.process.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class PrepareParameters:
    """What makes a dataset of given rows. Changing any of it makes another dataset."""

    split: Literal["days", "last_file", "files"]
    """`days`: all rows are cut into `num_days` equal days (earlier ones take the remainder); the last day's first
    half is for evaluation, its second half unused, all other days train. `last_file`: the same with one file per day.
    `files`: --train and --eval as they are given."""
    num_days: Annotated[int, Meta(ge=2)] | None = None
    min_frequency: PositiveCount = 1
    """Values seen less often in training share id 0."""
    max_ind_range: PositiveCount | None = None
    """Values are taken modulo this before anything else."""

    def as_dict(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value is not None}


def parse_parameters(data: DataConfig) -> PrepareParameters:
    """Raises ConfigError naming the field, what was given and what is allowed."""
    if data.kind != "criteo":
        raise ConfigError(
            f"data.kind is {data.kind!r}: only 'criteo' datasets are prepared from text files. "
            + ("Use 'dlrmbench data generate'." if data.kind == "click_log" else "Its files are read as they are.")
        )
    if (data.num_dense, data.num_sparse) != (13, 26):
        raise ConfigError(
            f"data has {data.num_dense} dense and {data.num_sparse} sparse features, expected Criteo's 13 and 26."
        )
    parameters = read_section("data.parameters", data.parameters, PrepareParameters)
    if (parameters.split == "days") != (parameters.num_days is not None):
        is_missing = parameters.num_days is None
        expected = Annotated[int, Meta(ge=2)] if is_missing else "nothing, except with split = 'days'"
        raise refuse("data.parameters", data.parameters, "num_days", expected)
    return parameters
