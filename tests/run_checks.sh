#!/usr/bin/env bash
# Format, lint, types, and the tests that pytest's marker expression $1 selects. Says what each took; fails if any did.
set -u
cd "$(dirname "$0")/.."
export OMP_NUM_THREADS=1
unset PYTHONDONTWRITEBYTECODE # which has every process compile the tests again
marker=$1
bin=${BIN:-.venv/bin}
failed=()

check() {
  local name=$1 started=$SECONDS
  shift
  printf '\n== %s ==\n' "$name"
  "$@"
  local code=$?
  printf -- '-- %s: %s s, exit code %s\n' "$name" "$((SECONDS - started))" "$code"
  if [ "$code" -ne 0 ]; then failed+=("$name"); fi
}

examples=repeatable
if [[ $marker == *"not long"* ]]; then
  check "format" "$bin/ruff" format --check .
  check "lint" "$bin/ruff" check .
  check "types" "$bin/mypy"
  spread=(--dist loadfile --no-loadscope-reorder) # files share costly fixtures; the longest come first
else
  spread=(--dist load) # the long counts are many tests of one file
  examples=random      # whatever Hypothesis finds here prints what repeats it
  # Triton is in the test extra there: a skip of the kernels' tests is a failure.
  if [[ $(uname -sm) == "Linux x86_64" ]]; then export NEEDS_TRITON=1; fi
fi
check "tests" "$bin/pytest" -q -n "${JOBS:-2}" "${spread[@]}" -m "$marker" --durations 15 \
  --hypothesis-profile "$examples"

printf '\n'
if [ ${#failed[@]} -ne 0 ]; then
  printf 'failed: %s\n' "${failed[*]}"
  exit 1
fi
printf 'all checks passed in %s s\n' "$SECONDS"
