"""Look up the published MD5 digests of MLPerf's preprocessed Criteo 1TB files.

`multi_hot_md5.csv` has the digests of three files for each day. Those of dense.npy and labels.npy are from
md5sums_preprocessed_criteo_click_logs_dataset.txt, those of sparse_multi_hot.npz from
md5sums_MLPerf_v2_synthetic_multi_hot_sparse_dataset.txt, both in torchrec_dlrm of
https://github.com/facebookresearch/dlrm at commit 090956ee. For the one-hot files no digests are known.
"""

import csv
from collections.abc import Mapping
from importlib import resources

from reference_models.config.sections import DataConfig

_TRAIN_SAMPLES = 4_195_197_692
"""Number of training samples of the whole Criteo 1TB data; published digests do not hold for parts of the data."""


def published_multi_hot(data: DataConfig) -> Mapping[str, str]:
    """Return a dict from the name of each of MLPerf's multi-hot Criteo files to its published MD5, in hexadecimal
    digits; an empty dict if `data` is only a part of these files."""
    if data.train_samples != _TRAIN_SAMPLES:
        return {}
    text = resources.files(__package__).joinpath("multi_hot_md5.csv").read_text(encoding="utf-8")
    return {row["file"]: row["md5"] for row in csv.DictReader(text.splitlines())}
