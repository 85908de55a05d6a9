#!/bin/bash
set -eu
# shellcheck source=examples/check_lib.sh
. "$EXAMPLES/check_lib.sh"
need_command meson meson
need_command ninja ninja-build
need_command pkg-config pkg-config
need_header nlohmann/json.hpp nlohmann-json3-dev
need_prefix
need_python numpy safetensors

cd "$(dirname "$0")"
flax=$SOURCE/tests/data/golden/trained
build=$WORK/build
meson setup "$build" . -Dwerror=true
ninja -C "$build"

for kind in pre post; do
  model=$WORK/$kind.safetensors
  "$PYTHON" convert.py "$flax/$kind" "$model"
  "$build/tinylm_check" "$model" "$flax/$kind" tempest.txt
  "$PYTHON" check_program.py "$build/tinylm" "$model" tempest.txt

  # The program itself says what Flax said.
  "$build/tinylm" generate "$model" --prompt "$(cat "$flax/$kind/prompt.txt")" \
    --length 64 >"$WORK/text"
  cat "$flax/$kind/prompt.txt" "$flax/$kind/continuation.txt" >"$WORK/expected"
  echo >>"$WORK/expected"
  cmp "$WORK/text" "$WORK/expected" || fail "$kind: the text is not Flax's"

  # Figures for the line that is shown.
  "$build/tinylm" loss "$model" tempest.txt | tee "$WORK/loss"
  "$build/tinylm" generate "$model" --length 2000 2>"$WORK/speed"
  cat "$WORK/speed"
  {
    printf '; %s: loss ' "$kind"
    awk '{ printf "%s%s", $2, NR == 1 ? ", in the other order " : "" }' \
      "$WORK/loss"
    sed -E 's/.*, ([0-9]+) per second$/, \1 tokens per s/' "$WORK/speed"
  } | tr -d '\n' >>"$WORK/figures"
done
echo "text as Flax$(cat "$WORK/figures")"
