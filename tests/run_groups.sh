#!/usr/bin/env bash
# Run the checks group by group, print what each took, and fail if any failed. $1 is pytest's marker expression.
set -u
cd "$(dirname "$0")/.."
export OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1
marker=$1
bin=${BIN:-.venv/bin}
jobs=${JOBS:-2}
# Files share costly fixtures; the long counts are many tests of one file.
[ "$marker" = "long and not gpu" ] && dist=load || dist=loadfile
failed=()

group() {
  local name=$1 started=$SECONDS
  shift
  printf '\n== %s ==\n' "$name"
  "$@"
  local code=$?
  printf -- '-- %s: %s s, exit code %s\n' "$name" "$((SECONDS - started))" "$code"
  # 5 is pytest's "no test selected", which a marker expression may cause in one group.
  if [ "$code" -ne 0 ] && [ "$code" -ne 5 ]; then failed+=("$name"); fi
}

tests() {
  local name=$1
  shift
  group "$name" "$bin/pytest" -q -n "$jobs" --dist "$dist" -m "$marker" "$@"
}

if [ "$marker" != "long and not gpu" ]; then
  group "format" "$bin/ruff" format --check .
  group "lint" "$bin/ruff" check .
  group "types" "$bin/mypy"
fi
tests "rules" tests/test_rules_*.py tests/test_official_*.py
tests "reference models" tests/test_reference_models_*.py
tests "reports" tests/test_report*.py
tests "harness" tests/test_harness_*.py
tests "command line, documents, architecture" tests/test_cli_*.py tests/test_architecture.py tests/test_docs.py

printf '\n'
if [ ${#failed[@]} -ne 0 ]; then
  printf 'failed: %s\n' "${failed[*]}"
  exit 1
fi
printf 'all groups passed in %s s\n' "$SECONDS"
