"""Define the DataSpecs (functions that prepare or open the data) of Criteo's clicks: text to prepare, and MLPerf's
own files. Imports no numpy."""

from reference_models.data.spec import DataSpec, load

TEXT = DataSpec(
    example="dlrm_kaggle",
    parameters="reference_models.data.criteo.tsv:PrepareParameters",
    check=load("reference_models.data.criteo.tsv:parse_parameters"),
    takes_sizes_from_files=True,
    has_one_id_per_table=True,
    prepare=load("reference_models.data.criteo.tsv:prepare_tsv"),
)
_open = load("reference_models.data.criteo.mlperf_binary:open_mlperf_binary")
MLPERF_ONE_HOT = DataSpec(example="dlrm", has_one_id_per_table=True, open=_open)
MLPERF_MULTI_HOT = DataSpec(
    example="dlrm_dcnv2",
    open=_open,
    published=load("reference_models.data.criteo.published:published_multi_hot"),
)
