"""Measurements made in several fresh processes: one record type per kind, written to extra/<kind>.json."""
