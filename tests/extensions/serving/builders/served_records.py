"""A record of serving with every member."""

from typing import Any

from records_builder import serve_content, serve_process

_QUALITY = {
    "auc": 0.9,
    "log_loss": 0.5,
    "normalised_entropy": 0.8,
    "auc_ratio": 0.999,
    "entropy_ratio": 1.01,
    "mlperf_class": "99 %",
}


def make_content() -> dict[str, Any]:
    """Make serve.json of two copies, with the quality of what was served."""
    return serve_content([serve_process(alone_per_s=60.0, quality=_QUALITY)], num_copies=2)
