"""Hold workloads, one TOML file each: model shapes without a quality target, on which throughput is measured."""
