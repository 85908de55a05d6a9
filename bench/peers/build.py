"""Builds ffnorm and the C++ workers; a library that is not there is skipped
with a line that says why."""
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
COMPILER = os.environ.get("CXX", "g++")
DEBIAN_LIB = Path("/usr/lib/x86_64-linux-gnu")
DEBIAN_INCLUDE = Path("/usr/include/x86_64-linux-gnu")

# -ffast-math lets the plain loops around a BLAS vectorize; ffnorm and its
# worker are built without.
FAST_MATH = ["-ffast-math", "-fno-finite-math-only"]
OPENMP = ["-fopenmp"]


class Missing(Exception):
    """Why a peer cannot be built."""


def require(path, package):
    if not path.exists():
        raise Missing(f"{path.name} not found; it comes with {package}")
    return path


def rpath(folder):
    return [f"-Wl,-rpath,{folder}"]


# Each returns (flags to compile with, flags to link with), or raises Missing.

def find_mkl(work):
    lib = work / "venv" / "lib"
    include = require(work / "venv" / "include" / "mkl.h", "PyPI's mkl-devel")
    names = ["intel_lp64", "intel_thread", "core"]
    found = []
    for name in names:
        files = sorted(lib.glob(f"libmkl_{name}.so.*"))
        if not files:
            raise Missing(f"libmkl_{name} not found; it comes with PyPI's mkl")
        found.append(str(files[-1]))
    require(lib / "libiomp5.so", "PyPI's intel-openmp")
    # The loops around it run on the same OpenMP threads: libiomp5 has the
    # functions that g++ calls.
    return (["-isystem", str(include.parent), *FAST_MATH, *OPENMP],
            [*found, f"-L{lib}", "-liomp5", *rpath(lib), "-ldl"])


def find_onednn(work):
    base = work / "onednn"
    require(base / "include" / "dnnl.hpp", "PyPI's onednn-devel-cpu-gomp")
    lib = require(base / "lib" / "libdnnl.so.3", "PyPI's onednn-cpu-gomp")
    return (["-isystem", str(base / "include"), *OPENMP],
            [str(lib), *rpath(lib.parent), *OPENMP])


def find_openblas(work):
    found = list((work / "venv" / "lib").glob(
        "python3*/site-packages/scipy_openblas64/lib/libscipy_openblas64_.so"))
    if not found:
        raise Missing("libscipy_openblas64_.so not found; it comes with PyPI's "
                      "scipy-openblas64")
    return FAST_MATH, [str(found[0]), *rpath(found[0].parent)]


def find_blis(_):
    include = require(DEBIAN_INCLUDE / "blis-openmp" / "blis.h",
                      "Debian's libblis-openmp-dev")
    lib = require(DEBIAN_LIB / "blis-openmp" / "libblis.so.4",
                  "Debian's libblis4-openmp")
    return (["-isystem", str(include.parent), *FAST_MATH, *OPENMP],
            [str(lib), *rpath(lib.parent), *OPENMP])


def find_eigen(_):
    require(Path("/usr/include/eigen3/Eigen/Core"), "Debian's libeigen3-dev")
    return ["-isystem", "/usr/include/eigen3", *FAST_MATH, *OPENMP], OPENMP


def find_libxsmm(_):
    require(Path("/usr/include/libxsmm.h"), "Debian's libxsmm-dev")
    lib = require(Path("/usr/lib/libxsmm.a"), "Debian's libxsmm-dev")
    noblas = require(lib.parent / "libxsmmnoblas.a", "Debian's libxsmm-dev")
    return ([*FAST_MATH, *OPENMP],
            [str(lib), str(noblas), "-lpthread", "-ldl", "-lm", *OPENMP])


PEERS = {
    "mkl": find_mkl,
    "onednn": find_onednn,
    "openblas": find_openblas,
    "blis": find_blis,
    "eigen": find_eigen,
    "libxsmm": find_libxsmm,
}


def run(command, **options):
    """Runs a command and shows its output only when it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False,
                          **options)
    if done.returncode != 0:
        print(done.stdout[-4000:], file=sys.stderr)
        sys.exit("failed: " + " ".join(map(str, command)))


def build_ffnorm(work):
    """The project's own build, optimized, of only what is linked here."""
    build = work / "ffnorm"
    if not (build / "build.ninja").exists():
        run(["meson", "setup", str(build), str(ROOT), "-Dtests=disabled",
             "-Dcli=disabled", "-Dexamples=disabled", "-Dbench=enabled"])
    run(["ninja", "-C", str(build), "libffnorm.a",
         "bench/libffnorm_bench_loops.a"])
    return build


def machine_flags(isa):
    return ["-mavx2", "-mfma"] if isa == "avx2" else ["-march=native"]


def newer(target, sources):
    """Whether target exists and is newer than all sources."""
    return target.exists() and all(
        source.stat().st_mtime < target.stat().st_mtime for source in sources)


def link(target, sources, flags, libraries, archives=()):
    """Compiles the sources and links them, in steps of their own: flags to
    compile with, such as -fopenmp, would choose libraries when linking."""
    inputs = [*sources, *archives, *(HERE / "cpp").glob("*.h"),
              Path(__file__), *(ROOT / "bench").glob("*.h")]
    if newer(target, inputs):
        return
    objects = []
    for source in sources:
        objects.append(f"{target}-{source.stem}.o")
        run([COMPILER, "-std=c++17", "-O3", "-Wall", "-Wextra", *flags,
             f"-I{ROOT}", f"-I{ROOT / 'include'}", f"-I{HERE / 'cpp'}",
             "-c", str(source), "-o", objects[-1]])
    run([COMPILER, *objects, *map(str, archives), *libraries, "-pthread",
         "-o", str(target)])


def build_all(work, isa, wanted):
    """Builds what can be built. Returns {name: executable} and the reasons
    {name: why} of those that cannot."""
    if shutil.which(COMPILER) is None or shutil.which("meson") is None:
        sys.exit(f"{COMPILER} and meson are needed to build the peers")
    ffnorm = build_ffnorm(work)
    out = work / f"workers-{isa}"
    out.mkdir(exist_ok=True)
    cpp = HERE / "cpp"
    common = [cpp / "worker.cc", ROOT / "bench" / "memory.cc"]
    archive = [ffnorm / "libffnorm.a"]
    bench = [ROOT / "bench" / f for f in ("peak.cc", "pool.cc", "memory.cc")]

    link(out / "roof", [cpp / "roof.cc", *bench], [],
         ["-lbenchmark"], [ffnorm / "bench" / "libffnorm_bench_loops.a",
                           *archive])
    link(out / "ffnorm", [cpp / "ffnorm_peer.cc", *common,
                          ROOT / "bench" / "pool.cc"], [], [], archive)
    built = {"roof": out / "roof", "ffnorm": out / "ffnorm"}
    skipped = {}
    for name, find in PEERS.items():
        if name not in wanted:
            continue
        try:
            compile_flags, link_flags = find(work)
        except Missing as why:
            skipped[name] = str(why)
            continue
        link(out / name, [cpp / f"{name}_peer.cc", *common],
             [*machine_flags(isa), *compile_flags], link_flags)
        built[name] = out / name
    return built, skipped
