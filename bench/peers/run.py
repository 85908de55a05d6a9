#!/usr/bin/env python3
"""Compares ffnorm with what users would pick instead, in one command: installs,
builds, checks, measures, writes. README.md says how and what."""
import argparse
import json
import os
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True  # nothing is written beside the sources

import build  # noqa: E402
import install  # noqa: E402

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent

CPP_PEERS = ["mkl", "onednn", "libxsmm", "openblas", "blis", "eigen"]
PYTHON_PEERS = ["onnxruntime", "openvino", "torch", "jax"]
SHAPES = "256x1024,256x2048,384x1536,512x2048,768x3072,1024x4096,4096x16384"
ROWS = "1,2,4,8,16,32,64,128,256,512,2048"

# What holds each library to AVX2. On a CPU with AVX-512 those without a switch
# are left out.
AVX2 = {
    "FFNORM_TARGET": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "OPENBLAS_CORETYPE": "Haswell",
    "BLIS_ARCH_TYPE": "3",  # haswell, in the numbers of BLIS 0.9
    "LIBXSMM_TARGET": "hsw",
    "ATEN_CPU_CAPABILITY": "avx2",
    "XLA_FLAGS": "--xla_cpu_max_isa=AVX2",
}
NO_AVX2_SWITCH = ["onnxruntime", "openvino"]


def options():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    words = {"type": lambda text: text.split(",")}
    parser.add_argument("--work", type=Path, default=ROOT / "build-peers",
                        help="packages, builds and data go here")
    parser.add_argument("--out", type=Path,
                        help="results and pictures; WORK/results without it")
    parser.add_argument("--quick", action="store_true",
                        help="a few points against the best C++ peers, within "
                        "a minute once all is installed")
    parser.add_argument("--budget", type=float, default=15.0,
                        help="minutes of measuring")
    parser.add_argument("--shapes", default=SHAPES.split(","), **words)
    parser.add_argument("--rows", default=ROWS.split(","), **words)
    parser.add_argument("--orders", default=["pre", "post"], **words)
    parser.add_argument("--threads", default=["1", "2"], **words)
    parser.add_argument("--data", default=["random", "trained", "density",
                                                    "norm"], **words)
    parser.add_argument("--peers", default=CPP_PEERS + PYTHON_PEERS, **words)
    parser.add_argument("--isa", choices=["best", "avx2"], default="best")
    parser.add_argument("--cpus", help="CPUs to run on, the first for one "
                        "thread; the last of this process without it")
    parser.add_argument("--longest", type=float, default=0.5,
                        help="leave out points whose call would take more "
                        "seconds at the FMA peak")
    parser.add_argument("--no-install", action="store_true",
                        help="take what is there")
    parser.add_argument("--redraw", action="store_true",
                        help="only write the table and the pictures again from "
                        "OUT/results.json")
    args = parser.parse_args()
    args.work = args.work.resolve()
    args.out = (args.out or args.work / "results").resolve()
    unknown = set(args.peers) - set(CPP_PEERS + PYTHON_PEERS)
    if unknown:
        parser.error("no such peers: " + ", ".join(sorted(unknown)))
    if args.quick:
        args.peers = [p for p in args.peers if p in CPP_PEERS]
    return args


def in_venv(args):
    """Goes on in the Python of the work directory, which has numpy."""
    python = args.work / "venv" / "bin" / "python"
    if not args.no_install and not args.redraw:
        args.work.mkdir(parents=True, exist_ok=True)
        python = install.install(args.work, args.peers, say)
    if not python.exists():
        sys.exit(f"nothing is installed in {args.work}")
    if Path(sys.prefix) != args.work / "venv":
        os.execv(python, [python, __file__, *sys.argv[1:], "--no-install"])


def say(text):
    print(text, flush=True)


def environment(threads, isa):
    """For every worker. Waiting threads may spin: whoever is not being timed
    is stopped."""
    values = {"PYTHONDONTWRITEBYTECODE": "1",
              "OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "active",
              "MKL_NUM_THREADS": str(threads),
              "OPENBLAS_NUM_THREADS": str(threads),
              "BLIS_NUM_THREADS": str(threads), "JAX_PLATFORMS": "cpu",
              "KMP_BLOCKTIME": "infinite"}
    if isa == "avx2":
        values.update(AVX2)
    if threads == 1:
        values["XLA_FLAGS"] = " ".join([
            values.get("XLA_FLAGS", ""), "--xla_cpu_multi_thread_eigen=false",
            "intra_op_parallelism_threads=1"]).strip()
    return values


def find_workers(args):
    """{name: command} of all workers that can be started, and the reasons
    {name: why} of those that cannot."""
    built, skipped = build.build_all(args.work, args.isa, args.peers)
    commands = {name: [path] for name, path in built.items()}
    python = args.work / "venv" / "bin" / "python"
    for peer in PYTHON_PEERS:
        if peer in args.peers:
            commands[peer] = [python, HERE / "python" / "worker.py", peer]
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        has_avx512 = "avx512f" in file.read()
    if args.isa == "avx2" and has_avx512:
        for peer in NO_AVX2_SWITCH:
            if commands.pop(peer, None):
                skipped[peer] = "has no switch that holds it to AVX2"
    for name, why in skipped.items():
        say(f"{name}: skipped, {why}")
    return commands, skipped


def cpus_for(args, threads):
    if args.cpus:
        cpus = [int(cpu) for cpu in args.cpus.split(",")]
    else:
        cpus = sorted(os.sched_getaffinity(0), reverse=True)
    if threads > len(cpus):
        sys.exit(f"{threads} threads need as many CPUs")
    return cpus[:threads]


def main():
    args = options()
    in_venv(args)
    # What needs numpy comes after that.
    import compare
    import machine
    import plots
    import report

    if args.redraw:
        results = json.loads((args.out / "results.json").read_text())
    else:
        # Old work-arounds that some machines set, and that make OpenBLAS slow.
        for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
            os.environ.pop(name, None)
        started = time.monotonic()
        commands, skipped = find_workers(args)
        if args.quick:
            sys.exit(compare.quick(args, commands, environment, cpus_for, say))
        args.out.mkdir(parents=True, exist_ok=True)
        results = {"machine": machine.describe(ROOT, build.COMPILER, args.isa),
                   "skipped": skipped}
        say(f"set up in {time.monotonic() - started:.0f} s; measuring for "
            f"about {args.budget:g} minutes")
        compare.full(args, commands, environment, cpus_for, results, say)
    (args.out / "table.md").write_text(report.markdown(results))
    plots.draw_all(results, args.out)
    say(report.summary(results))
    say(f"written: {args.out}")


if __name__ == "__main__":
    main()
