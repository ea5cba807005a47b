"""What the configurations of an experiment are to each other: one alone, two sides, a table.

Each relation is a file. `harness.experiment.relation.Relation` says what differs for whoever makes, resumes and shows
them. Those of an extension are named in its `extension.py`.
"""
