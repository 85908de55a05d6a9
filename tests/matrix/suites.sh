# shellcheck shell=bash
# The whole test suite on other systems, built by Meson. For run_matrix.sh.

# suite NAME TARGET COMPILER CHECK: builds with the cross file $work/NAME.ini
# and tests.
suite() {
  local name="$1" target="$2" compiler="$3" check="$4" directory="$work/$1"
  local log="$work/$1.log" passed start=$SECONDS
  if meson setup "$directory" --cross-file "$work/$name.ini" \
    -Dtests=enabled -Dbench=disabled -Dcli=disabled -Dexamples=disabled \
    > "$log" 2>&1 &&
    ninja -C "$directory" -j "$JOBS" >> "$log" 2>&1 &&
    meson test -C "$directory" --no-rebuild --num-processes "$JOBS" \
      --timeout-multiplier 10 --print-errorlogs > "$log" 2>&1 < /dev/null &&
    passed="$(sed -n 's/^Ok: *//p' "$log")" && ((passed > 0)); then
    line ok "$target" "$compiler" \
      "$check: $passed suites ($((SECONDS - start)) s)"
  else
    line FAILED "$target" "$compiler" "$check" "$log"
  fi
}

# cross_file NAME SYSTEM CPU [LINK_ARGUMENT]: the cross file $work/NAME.ini, whose
# [binaries] come from standard input. Highway's and doctest's headers are those
# of this machine, where no cross compiler looks.
cross_file() {
  local link="${4:+'$4'}"
  mkdir -p "$work/suite_include"
  ln -sfn "$installed/hwy" "$work/suite_include/hwy"
  ln -sfn /usr/include/doctest "$work/suite_include/doctest"
  {
    echo '[binaries]'
    cat
    cat << END
[built-in options]
cpp_args = ['-isystem', '$work/suite_include']
c_link_args = [$link]
cpp_link_args = [$link]
[host_machine]
system = '$2'
cpu_family = '$3'
cpu = '$3'
endian = 'little'
END
  } > "$work/$1.ini"
}

# Not static: a test brings its own malloc, which glibc's archive does not allow.
neon_suite() {
  local cxx=aarch64-linux-gnu-g++
  missing 'AArch64 NEON' "$cxx" suite "$cxx" qemu-aarch64 meson && return
  cross_file neon_suite linux aarch64 << END
c = 'aarch64-linux-gnu-gcc'
cpp = '$cxx'
ar = 'aarch64-linux-gnu-ar'
exe_wrapper = ['qemu-aarch64', '-L', '/usr/aarch64-linux-gnu']
END
  suite neon_suite 'AArch64 NEON' "$(compiler_label "$cxx" -O3)" 'all tests'
}

windows_suite() {
  local cxx=x86_64-w64-mingw32-g++-posix
  missing 'x86-64 Windows' "$cxx" suite "$cxx" "$wine" meson && return
  cross_file windows_suite windows x86_64 -static << END
c = 'x86_64-w64-mingw32-gcc-posix'
cpp = '$cxx'
ar = 'x86_64-w64-mingw32-ar'
exe_wrapper = '$wine'
END
  suite windows_suite 'x86-64 Windows' "$(compiler_label "$cxx" -O3)" \
    'all tests in Wine'
}

# Debian's musl has no C++ library; Zig's compiler, which is clang, brings musl
# and libc++.
readonly ZIG_VERSION=0.17.1

musl_suite() {
  local zig="$CACHE/zig-$ZIG_VERSION/ziglang/zig" language
  missing 'x86-64 musl' 'zig c++' suite python3 meson && return
  if [[ ! -x "$zig" ]] && ! python3 -m pip install --quiet --no-deps \
    --target "$CACHE/zig-$ZIG_VERSION" "ziglang==$ZIG_VERSION" \
    > "$work/zig.log" 2>&1; then
    line skipped 'x86-64 musl' 'zig c++' \
      "suite (cannot install Zig: $(tail -n 1 "$work/zig.log"))"
    return
  fi
  export ZIG_GLOBAL_CACHE_DIR="$CACHE/zig-cache"
  for language in cc c++; do
    # Meson 1.0 asks for the linker's name and does not know Zig's.
    cat > "$work/zig-$language" << END
#!/bin/sh
case "\$*" in
  *-Wl,--version*) echo 'LLD (compatible with GNU linkers)'; exit ;;
esac
exec '$zig' $language -target x86_64-linux-musl "\$@"
END
    chmod +x "$work/zig-$language"
  done
  cross_file musl_suite linux x86_64 -static << END
c = '$work/zig-cc'
cpp = '$work/zig-c++'
ar = ['$zig', 'ar']
END
  suite musl_suite 'x86-64 musl' "zig $ZIG_VERSION c++ -O3" 'all tests, static'
}
