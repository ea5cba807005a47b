"""`[data.parameters]` of a benchmark on Criteo text: how rows become the dataset. Torch-free."""

from dataclasses import asdict, dataclass
from typing import Any

from reference_models.config.sections import DataConfig, Section
from reference_models.process.errors import ConfigError

SPLITS = ("days", "last_file", "files")


@dataclass(frozen=True, kw_only=True, slots=True)
class PrepareParameters:
    """What makes a dataset of given rows. Changing any of it makes another dataset."""

    split: str
    """`days`: all rows are cut into `num_days` equal days (earlier ones take the remainder); the last day's first
    half is for evaluation, its second half unused, all other days train. `last_file`: the same with one file per day.
    `files`: --train and --eval as they are given."""
    num_days: int | None
    min_frequency: int
    """Values seen less often in training share id 0."""
    max_ind_range: int | None
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
    section = Section("data.parameters", data.parameters, ("split", "num_days", "min_frequency", "max_ind_range"))
    split = section.text("split", allowed=SPLITS)
    if split != "days" and "num_days" in data.parameters:
        raise section.fail("num_days", "nothing, except with split = 'days'")
    return PrepareParameters(
        split=split,
        num_days=section.whole("num_days", low=2) if split == "days" else None,
        min_frequency=section.whole("min_frequency", low=1, default=1),
        max_ind_range=section.optional_whole("max_ind_range", low=1),
    )
