"""A definition of round numbers.

Pinned here, so that exact texts of exports and pages change only when the exports do.
"""

DEFINITION = """
schema_version = 1
[benchmark]
name = "pinned"
version = 1
title = "Round numbers"
model = "dlrm"
[quality]
metric = "roc_auc"
target = 0.75
evals_per_epoch = 20
max_epochs = 1.0
[score]
num_runs = 5
drop = 1
[closed]
global_batch_size = "free"
[model]
[data]
train_samples = 100000
eval_samples = 1000
[train]
global_batch_size = 500
opt_base_learning_rate = 0.1
"""
