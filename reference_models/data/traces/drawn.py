"""Draw random lookups of embedding tables that a file describes, for models whose lookups were not logged."""

from collections.abc import Sequence

import numpy as np

from reference_models.data.synthetic.config import ZIPF_EXPONENT
from reference_models.data.synthetic.dataset import scatter, zipf_ranks
from reference_models.data.table_file import TableEntry
from reference_models.data.traces.trace import AccessTrace, Ids


def count_lookups(tables: Sequence[TableEntry], items: int) -> float:
    """Return the mean number of embedding lookups of a query that ranks `items` candidate items for a user: tables
    looked up for the user count once, all others for each item."""
    return sum((table.pooling or 0.0) * (1 if table.side == "user" else items) for table in tables)


def draw_lookups(tables: Sequence[TableEntry], num_queries: int, items: int, seed: int) -> AccessTrace:
    """Draw the embedding lookups of `num_queries` queries. A query has `items` samples: the candidate items that the
    query ranks for a user. Tables that are looked up for the user are looked up by a query's first sample only.

    A bag (a sample's lookups in one table) has as many lookups as the table's pooling factor. A fractional pooling
    factor is rounded up or down at random, so that the mean is right. Rows are drawn independently by a power law and
    scattered over the table. The exponent is the table's own, or the default exponent of synthetic data if the table
    has none.
    """
    generator, num_samples = np.random.default_rng(seed), num_queries * items
    indices, lengths = list[Ids](), list[Ids]()
    for table in tables:
        pooling, exponent = table.pooling or 0.0, table.zipf_exponent
        whole = int(pooling)
        length = whole + (generator.random(num_samples) < pooling - whole)
        if table.side == "user":
            length[np.arange(num_samples) % items > 0] = 0
        ranks = zipf_ranks(
            generator.random(int(length.sum())), table.rows, ZIPF_EXPONENT if exponent is None else exponent
        )
        indices.append(scatter(ranks, table.rows))
        lengths.append(length.astype(np.int64))
    return AccessTrace(
        num_rows=tuple(table.rows for table in tables),
        num_bags=num_samples,
        indices=np.concatenate(indices),
        offsets=np.concatenate(([0], np.cumsum(np.concatenate(lengths)))).astype(np.int64),
    )
