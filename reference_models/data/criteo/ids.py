"""Ids and the rows of their tables."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def wrap_ids(ids: NDArray[Any], num_rows: int) -> None:
    """Take `ids` modulo `num_rows` in place, as the references do. The look comes first: it is far cheaper."""
    if ids.size and (ids.max() >= num_rows or ids.min() < 0):
        np.remainder(ids, num_rows, out=ids)
