"""An optical network of 16 x 16 and its patterns, as definitions have them: small enough to train in a test."""

from typing import Any

OPTICS: dict[str, Any] = {
    "grid": 16,
    "num_shared_masks": 2,
    "num_task_masks": 1,
    "wavelength_mm": 0.75,
    "pitch_mm": 0.6,
    "distance_mm": 20,
}
PATTERNS: dict[str, Any] = {
    "kind": "patterns",
    "name": "few",
    "train_samples": 512,
    "eval_samples": 96,
    "num_dense": 64,
    "num_embeddings": [4, 4],
    "seed": 3,
    "parameters": {"flip_share": 0.1},
}
ADAM: dict[str, Any] = {
    "global_batch_size": 32,
    "eval_batch_size": 64,
    "opt_name": "Adam",
    "opt_base_learning_rate": 0.02,
    "opt_adam_beta_1": 0.9,
    "opt_adam_beta_2": 0.999,
    "opt_adam_epsilon": 1e-8,
}
