"""Run benchmarks: the package that connects the other packages of dlrmbench, none of which imports it."""
