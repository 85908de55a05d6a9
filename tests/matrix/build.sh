# shellcheck shell=bash
# Builds the hash program, one directory for each build, and runs it. For
# run_matrix.sh.

readonly LIBRARY_FLAGS=(-std=c++17 -ffp-contract=off -fno-exceptions -fno-rtti
  -fno-math-errno -fno-threadsafe-statics -fvisibility=hidden -w)
# Warnings are for other builds: GCC's own headers cause some at link time.
readonly PROGRAM_FLAGS=(-std=c99 -static -w)

# "g++ 12.2.0 -O2": a C++ compiler, without the machine, and its options.
compiler_label() {
  local version name="${1##*/}"
  version="$("$1" -dumpfullversion 2> /dev/null || "$1" -dumpversion)"
  version="${version%-posix}"
  name="${name##*-gnu-}"
  name="${name##*-mingw32-}"
  name="${name%-posix}"
  echo "${name%-[0-9]*} $version $2"
}

# The C compiler that belongs to a C++ compiler.
c_compiler() {
  case "$1" in
    *clang++*) echo "${1/clang++/clang}" ;;
    *) echo "${1/g++/gcc}" ;;
  esac
}

# compile DIRECTORY CXX FLAG...: the library and the program.
compile() {
  local directory="$1" cxx="$2" source
  shift 2
  for source in kernels/*.cc; do
    "$cxx" "${LIBRARY_FLAGS[@]}" -I. -Iinclude "$@" \
      -c "$source" -o "$directory/$(basename "$source").o" || return 1
  done
  link "$directory" "$directory" "$(c_compiler "$cxx")" "$@"
}

# link FROM TO CC FLAG...: the program in TO, with the library in FROM. It is C
# and linked as C, since the library needs nothing of C++.
link() {
  local from="$1" to="$2" cc="$3"
  shift 3
  "$cc" "${PROGRAM_FLAGS[@]}" -I. -Iinclude "$@" tests/result_hash/*.c \
    "$from"/*.o -o "$to/result_hashes.exe"
}

# build NAME TARGET CXX OPTIONS FLAG...: into $work/NAME, with the headers in
# $highway. The options are shown, the flags are not. Prints a line only if it
# fails.
build() {
  local name="$1" target="$2" cxx="$3" options="$4" label
  local directory="$work/$name"
  shift 4
  missing "$target" "$cxx $options" build "$cxx" && return 1
  mkdir -p "$directory"
  label="$(compiler_label "$cxx" "$options"), Highway ${highway##*/}"
  echo "$label" > "$directory/label"
  # shellcheck disable=SC2086 # the options are separate flags
  if ! compile "$directory" "$cxx" -isystem "$highway" $options "$@" \
    > "$directory/log" 2>&1; then
    line FAILED "$target" "$label" build "$directory/log"
    return 1
  fi
}

# not_built NAME TARGET CHECK: skips the check, and succeeds, if that is so.
not_built() {
  [[ -e "$work/$1/result_hashes.exe" ]] && return 1
  line skipped "$2" '' "$3 (its program was not built)"
}

# run NAME RUNNER ARGUMENT...: what was built as NAME, by a function that knows
# how.
run() {
  local name="$1" runner="$2"
  shift 2
  (cd "$work" && "$runner" "./$name/result_hashes.exe" "$@") < /dev/null 2>&1 |
    tr -d '\r'
}

# hashes NAME TARGET EXPECTED CHECK RUNNER ARGUMENT...: compares what was built
# as NAME with the table. EXPECTED are the targets of the library that have to
# be there and to reproduce it: patterns of the name, each with the bytes of
# its vectors after a slash, separated by commas. Each is a line.
hashes() {
  local name="$1" target="$2" expected="$3" check="$4" runner="$5"
  local log label entry got failed=0 status=0 start=$SECONDS seconds
  local -a entries
  shift 5
  label="$(< "$work/$name/label")"
  log="$(mktemp -p "$work")"
  run "$name" "$runner" check table "$@" > "$log" || status=$?
  seconds=$((SECONDS - start))
  IFS=, read -ra entries <<< "$expected"
  for entry in "${entries[@]}"; do
    got="$(grep -m 1 \
      "^\\(${entry%/*}\\) with vectors of ${entry#*/} bytes: " "$log")"
    if [[ "$got" =~ :\ [1-9][0-9]*\ ok,\ 0\ wrong ]] &&
      grep -q '^packed blocks: [1-9][0-9]* ok, 0 wrong' "$log"; then
      got="${got/ with vectors of * bytes/}"
      line ok "$target" "$label" "$check, $got ($seconds s)"
    else
      failed=1
      line FAILED "$target" "$label" "$check, ${got:-no $entry}" "$log"
    fi
  done
  if [[ "$failed" == 0 && "$status" != 0 ]]; then
    line FAILED "$target" "$label" "$check, exit status $status" "$log"
  fi
}
