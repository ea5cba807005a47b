"""Run benchmarks. This package connects the other packages of dlrmbench; none of the others imports it."""
