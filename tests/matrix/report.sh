# shellcheck shell=bash
# The lines of the matrix, and the jobs that make them. For run_matrix.sh.

readonly JOBS="${MATRIX_JOBS:-$(nproc)}"

# line STATE TARGET COMPILER CHECK [DETAIL]: prints a line and counts it. A
# file of the output may follow, whose end is shown.
line() {
  local state="$1" target="$2" compiler="$3" check="$4" log="${5:-}" text
  printf -v text '%-8s%-25s %-40s %s' "$state" "$target" "$compiler" "$check"
  if [[ -n "$log" ]]; then
    text+=$'\n'"$(tail -n 25 "$log" | sed 's/^/    /')"
  fi
  printf '%s\n' "$text"
  echo "$state" >> "$work/lines"
}

# check TARGET COMPILER CHECK COMMAND...: a line for the command's exit status.
check() {
  local target="$1" compiler="$2" check="$3" log start=$SECONDS
  shift 3
  log="$(mktemp -p "$work")"
  if "$@" > "$log" 2>&1 < /dev/null; then
    line ok "$target" "$compiler" "$check ($((SECONDS - start)) s)"
  else
    line FAILED "$target" "$compiler" "$check ($((SECONDS - start)) s)" "$log"
  fi
}

# missing TARGET COMPILER CHECK COMMAND...: skips the check, and succeeds, if
# this machine has not all of the commands.
missing() {
  local target="$1" compiler="$2" check="$3" command
  shift 3
  for command in "$@"; do
    if ! command -v "$command" > /dev/null; then
      line skipped "$target" "$compiler" "$check (there is no $command)"
      return 0
    fi
  done
  return 1
}

# start COMMAND...: runs it in the background once a processor is free, if it
# is wanted.
start() {
  [[ "$*" =~ $WANTED ]] || return 0
  while (($(jobs -rp | wc -l) >= JOBS)); do wait -n; done
  "$@" &
}

count() { grep -c "^$1\$" "$work/lines" || true; }

# The last line, and the exit status.
summary() {
  local failed
  failed="$(count FAILED)"
  echo "$(count ok) passed, $failed failed, $(count skipped) skipped"
  [[ "$failed" == 0 && "$(count ok)" != 0 ]]
}
