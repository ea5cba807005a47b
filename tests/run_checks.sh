#!/usr/bin/env bash
# The checks of one tier: `test`, `test-all` or `test-long`, as CONTRIBUTING.md has them. Says what each took; fails if
# any did. TEST_COSTS=assert has `test` fail by what tests cost, too, in processor time.
set -u
cd "$(dirname "$0")/.."
export OMP_NUM_THREADS=1
unset PYTHONDONTWRITEBYTECODE # which has every process compile the tests again
tier=$1
bin=${BIN:-.venv/bin}
failed=()

check() {
  local name=$1 started=$SECONDS
  shift
  printf '\n== %s ==\n' "$name"
  "$@" </dev/null
  local code=$?
  printf -- '-- %s: %s s, exit code %s\n' "$name" "$((SECONDS - started))" "$code"
  if [ "$code" -ne 0 ]; then failed+=("$name"); fi
}

run_tests() { # MARKS PROFILE [OPTION...]
  local marks=$1 profile=$2
  shift 2
  # A test that hangs ends its worker, with where it hung; the others go on.
  "$bin/pytest" -q -n "${JOBS:-2}" --dist worksteal -m "$marks" --hypothesis-profile "$profile" \
    -o faulthandler_timeout="$hangs_s" -o faulthandler_exit_on_timeout=true "$@"
}

run_numbers() { # VARIABLES
  local variable
  (
    for variable in $1; do export "${variable?}"; done
    run_tests "numeric and $quick" quick
  )
}

hangs_s=1800
quick="not slow and not long and not gpu"
case $tier in
test)
  check "format" "$bin/ruff" format --check .
  check "lint" "$bin/ruff" check .
  check "quick tests" run_tests "$quick" quick --costs 250
  ;;
test-all)
  check "types" "$bin/mypy"
  check "slow tests" run_tests "slow and not long and not gpu" repeatable
  # `make test` draws a tenth of these examples. Another order each day, which --randomly-seed repeats.
  check "quick tests, all examples, shuffled" run_tests "hypothesis and $quick" repeatable \
    -p randomly --randomly-seed="$(date +%Y%m%d)"
  # Other CPUs, as far as this one can be them: libraries choose their kernels by these variables.
  for variables in \
    "OMP_NUM_THREADS=1 ATEN_CPU_CAPABILITY=default DNNL_MAX_CPU_ISA=SSE41 MKL_CBWR=COMPATIBLE" \
    "OMP_NUM_THREADS=2 ATEN_CPU_CAPABILITY=avx2 DNNL_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2" \
    "OMP_NUM_THREADS=3 ATEN_CPU_CAPABILITY=default MKL_ENABLE_INSTRUCTIONS=SSE4_2"; do
    check "numbers, $variables" run_numbers "$variables"
  done
  ;;
test-long)
  hangs_s=14400
  # Triton is in the test extra there: a skip of the kernels' tests is a failure.
  if [[ $(uname -sm) == "Linux x86_64" ]]; then export NEEDS_TRITON=1; fi
  # Whatever Hypothesis finds here prints what repeats it.
  check "long tests" run_tests "(long or hypothesis) and not gpu" random
  ;;
*)
  printf 'no such tier: %s\n' "$tier" >&2
  exit 2
  ;;
esac

printf '\n'
if [ ${#failed[@]} -ne 0 ]; then
  printf 'failed: %s\n' "${failed[*]}"
  exit 1
fi
printf 'all checks of %s passed in %s s\n' "$tier" "$SECONDS"
