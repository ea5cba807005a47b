"""Define the results of measurements made in several fresh processes: one record type per kind of measurement,
written to extra/<kind>.json."""
