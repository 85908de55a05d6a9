"""One block on several processes: the same bits, bytes moved, and times.

    python two_processes.py [--processes 2] [--d-model 512] [--d-ff 2048]
                            [--rows 64 512] [--repeats 100]

Starts the processes on this machine; they talk over the loopback device, as
they would over a network (jax.distributed, XLA's gloo collectives). Each uses
one thread, and so does the one process that they are compared with. Ends with
status 1 when a bit differs.
"""
import argparse
import functools
import json
import math
import re
import socket
import subprocess
import sys
import tempfile
import time


def main():
    arguments = parse()
    sys.exit(start(arguments) if arguments.process is None
             else run(arguments))


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--d-model", type=int, default=512)
    parser.add_argument("--d-ff", type=int, default=2048)
    parser.add_argument("--rows", type=int, nargs="+", default=[64, 512],
                        help="numbers that the processes divide")
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--process", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


# ---- The parent -------------------------------------------------------------


def start(arguments):
    """Runs this file once for each process; 0 when all ended well."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryFile("w+") as out:
        children = [
            subprocess.Popen([sys.executable, __file__, *sys.argv[1:],
                              "--process", str(i), "--port", str(port)],
                             stdout=out)
            for i in range(arguments.processes)]
        # One that fails leaves the others waiting for it.
        while (any(child.poll() is None for child in children)
               and not any(child.poll() for child in children)):
            time.sleep(0.1)
        for child in children:
            child.kill()
        failed = any([child.wait() for child in children])
        out.seek(0)
        # Gloo prints lines of its own.
        print_table([json.loads(line) for line in out if line[0] == "{"])
    return int(failed)


def print_table(results):
    print(f"{'block':8} {'rows':>5} {'shared':8} {'bits':6} {'KiB moved':>9} "
          f"{'best time':>9}   all-gathers in the HLO")
    for r in results:
        print(f"{r['block']:8} {r['rows']:5} {r['shared']:8} "
              f"{'same' if r['same'] else 'DIFFER':6} {r['bytes'] / 1024:9.1f} "
              f"{r['milliseconds']:6.2f} ms   {', '.join(r['gathers'])}".rstrip())


# ---- Each process -----------------------------------------------------------


def run(arguments):
    """0 when all bits were the same."""
    import jax
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
    import numpy as np

    import ffnorm_jax
    from ffnorm_jax import columns

    jax.distributed.initialize(f"127.0.0.1:{arguments.port}",
                               num_processes=arguments.processes,
                               process_id=arguments.process)
    mesh = Mesh(jax.devices(), ("devices",))

    def spread(array, spec):
        """A global array of which this process makes its own part only."""
        return jax.make_array_from_callback(
            array.shape, NamedSharding(mesh, spec), lambda i: array[i])

    random = np.random.default_rng(1)
    params = random_params(random, arguments.d_model, arguments.d_ff)
    here = ffnorm_jax.pack(params)
    everywhere = jax.tree.map(lambda a: spread(np.asarray(a), P()), here)
    in_columns = columns.pack(
        jax.tree.map(lambda a: spread(a, P() if a.ndim == 1 else
                                      P(None, "devices")), params),
        mesh, "devices")

    all_same = True
    for rows in arguments.rows:
        x = random.standard_normal((rows, arguments.d_model), np.float32)
        for block in ("pre_ln", "post_ln"):
            by_one = functools.partial(getattr(ffnorm_jax, block), threads=1)
            by_rows = jax.shard_map(by_one, mesh=mesh, out_specs=P("devices"),
                                    in_specs=(P("devices"), P()))
            by_columns = functools.partial(getattr(columns, block), threads=1)
            expected = np.asarray(by_one(x, here))
            for shared, function, x_there, weights in (
                    ("no", by_one, x, here),
                    ("rows", by_rows, spread(x, P("devices")), everywhere),
                    ("columns", by_columns, spread(x, P()), in_columns)):
                compiled = jax.jit(function).lower(x_there, weights).compile()
                # By itself, process 0 is the one process; the others wait.
                idle = shared == "no" and arguments.process != 0
                same, milliseconds = measure(
                    functools.partial(compiled, x_there, weights), expected,
                    0 if idle else arguments.repeats)
                all_same &= same
                if arguments.process == 0:
                    print(json.dumps({
                        "block": block, "rows": rows, "shared": shared,
                        "same": same, "milliseconds": milliseconds,
                        **traffic(compiled.as_text(), arguments.processes),
                    }), flush=True)
    jax.distributed.shutdown()
    return 0 if all_same else 1


def random_params(random, d_model, d_ff):
    """As Linen has them; the same in each process."""
    def normal(*shape, scale=0.1):
        return scale * random.standard_normal(shape, "float32")

    return {
        "LayerNorm_0": {"scale": 1 + normal(d_model), "bias": normal(d_model)},
        "Dense_0": {"kernel": normal(d_model, d_ff, scale=d_model ** -0.5),
                    "bias": normal(d_ff)},
        "Dense_1": {"kernel": normal(d_ff, d_model, scale=d_ff ** -0.5),
                    "bias": normal(d_model)}}


def measure(call, expected, repeats):
    """Whether all processes have their part of `expected`, bit for bit, and the
    milliseconds of the best call: machines are shared, and what disturbs a call
    only adds. Each process has its best one; the slowest of these counts."""
    from jax.experimental import multihost_utils
    import numpy as np

    same = all(np.array_equal(np.asarray(part.data).view(np.uint32),
                              expected[part.index].view(np.uint32))
               for part in call().addressable_shards)
    multihost_utils.sync_global_devices("before")
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call().block_until_ready()
        times.append(time.perf_counter() - start)
    everyone = multihost_utils.process_allgather(
        np.array([same, 1000 * min(times, default=0.0)]))
    return bool(everyone[:, 0].all()), float(everyone[:, 1].max())


def traffic(hlo, processes):
    """Bytes that each process receives, counted from a compiled program.

    In an all-gather each process has one part of the result and receives the
    others; it sends as much. Another collective would be an error.
    """
    collective = (r"= (\S+) ((?:all-gather|all-reduce|all-to-all|reduce-scatter"
                  r"|collective-\w+)(?:-start)?)\(")
    gathers = []
    received = 0
    for shape, operation in re.findall(collective, hlo):
        match = re.match(r"f32\[([\d,]+)\]", shape)
        if operation != "all-gather" or match is None:
            raise ValueError(f"{operation} of {shape} is not counted here")
        size = 4 * math.prod(map(int, match[1].split(",")))
        received += size - size // processes
        gathers.append(match[0])
    return {"bytes": received, "gathers": gathers}


if __name__ == "__main__":
    main()
