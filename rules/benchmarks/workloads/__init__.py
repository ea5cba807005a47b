"""Hold workloads, one TOML file each: model shapes without a quality target, on which throughput, or quality without
a target, is measured."""
