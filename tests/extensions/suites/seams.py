"""What suites add to tests of the core."""

WORDS = {"suite": ((), "suite mine.toml -q --threads 1")}
FILES = {"mine.toml": 'benchmarks = ["dlrm_tiny"]\n[base.runtime]\nthreads = 1\n[new.runtime]\nthreads = 2\n'}
