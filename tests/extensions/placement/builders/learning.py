"""Something that is learnt and kept."""

from pathlib import Path

import numpy as np

from harness.extensions.placement.learnt import LearntStore


def learn(data: Path) -> list[str]:
    """Keep two weights below `data`, or find them there; return the names of arrays."""
    learnt = LearntStore(data_root=data, seed=0, retrain=False, say=lambda text: None)
    return [
        *learnt.keep("cost_net", "0123456789abcdef" * 4, lambda: ({"weights": np.zeros(2, np.float32)}, {}), dict)
    ]
