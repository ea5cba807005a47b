"""The harness: runs benchmarks and connects the other packages, none of which imports it."""
