"""Define the relations between the configurations of an experiment: one alone, a pair, a sweep.

Each relation is a file. `harness.experiment.relation.Relation` defines how relations differ when experiments are
made, resumed and shown. Relations of an extension are named in its `extension.py`.
"""
