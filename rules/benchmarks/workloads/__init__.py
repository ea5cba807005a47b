"""Workloads: model shapes without a quality target, to measure throughput on. One TOML file each."""
