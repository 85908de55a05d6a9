"""Runs the forward example on bad command lines and damaged data.

    forward_test.py FORWARD DATA

Each case must end with its exit status and say what is wrong in one line on
stderr, which names the file or argument.
"""
import os
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile

forward, data = sys.argv[1:3]
command = shlex.split(os.environ.get("MESON_EXE_WRAPPER", "")) + [forward]
environment = {k: v for k, v in os.environ.items() if k != "FFNORM_TARGET"}
failures = []


def expect(what, status, said, *arguments, **variables):
    """`said`: what stderr must contain; None: stderr must be empty."""
    run = subprocess.run(command + list(arguments), capture_output=True,
                         text=True, env={**environment, **variables})
    wrong = []
    if run.returncode != status:
        wrong.append(f"exit status {run.returncode}, expected {status}")
    if said is None:
        if run.stderr:
            wrong.append("stderr is not empty")
    else:
        if said not in run.stderr:
            wrong.append(f"stderr does not say {said!r}")
        lines = run.stderr.splitlines()
        if len(lines) != 1 or not lines[0].startswith("forward: "):
            wrong.append("stderr is not one line of the program's")
    print("FAIL" if wrong else "ok  ", what)
    if wrong:
        failures.append(what)
        print(*("     " + w for w in wrong), run.stdout, run.stderr, sep="\n")


def commands():
    expect("help", 0, None, "--help")
    expect("unknown option", 2, "--frobnicate", "--frobnicate")
    expect("missing value", 2, "--rows", "--rows")
    for text in ("0", "-1", "1x", "", "99999999999999999999999"):
        expect(f"rows {text!r}", 2, "--rows", "--rows", text)
    expect("threads 0", 2, "--threads", "--threads", "0")
    expect("unknown target", 2, "PENTIUM", "--data", data, "--target",
           "PENTIUM")
    expect("unknown target in the environment", 2, "target", "--data", data,
           FFNORM_TARGET="PENTIUM")
    expect("missing folder", 3, "no/such/folder", "--data", "no/such/folder")


def files(root):
    """Damages one file at a time."""
    def damaged(what, status, name, said, change):
        path = os.path.join(root, name)
        with open(path, "rb") as file:
            original = file.read()
        bytes_now = change(bytearray(original))
        if bytes_now is None:
            os.remove(path)
        else:
            with open(path, "wb") as file:
                file.write(bytes_now)
        expect(what, status, said, "--data", root)
        with open(path, "wb") as file:
            file.write(original)

    def with_text(old, new):
        def change(content):
            assert content.count(old) == 1 and len(old) == len(new)
            return content.replace(old, new)
        return change

    def with_last(new_value):
        def change(content):
            (value,) = struct.unpack("<d", content[-8:])
            return content[:-8] + struct.pack("<d", new_value(value))
        return change

    w1 = "pre/ffn1/w1.npy"
    damaged("missing file", 3, "post/ffn2/y_f64.npy", "post/ffn2/y_f64.npy",
            lambda content: None)
    damaged("empty file", 3, w1, w1, lambda content: b"")
    damaged("truncated file", 3, w1, w1, lambda content: content[:-1])
    damaged("truncated header", 3, w1, w1, lambda content: content[:40])
    damaged("trailing byte", 3, w1, w1, lambda content: content + b"\0")
    damaged("bad magic", 3, w1, w1, lambda content: b"\x92" + content[1:])
    damaged("other type", 3, w1, w1, with_text(b"<f4", b"<i4"))
    damaged("other shape", 3, w1, w1, with_text(b"(128, 512)", b"(256, 256)"))
    damaged("no rows", 3, "pre/ffn0/x.npy", "pre/ffn0/x.npy",
            lambda content: with_text(b"(64, 128)", b"(00, 128)")(
                content[:128]))
    y = "post/ffn0/y_f64.npy"
    damaged("a value that is off by 0.01 %", 1, y,
            "post/ffn0: row 63, column 127", with_last(lambda v: v * 1.0001))
    damaged("a value that is no number", 1, y, "post/ffn0: row 63, column 127",
            with_last(lambda v: float("nan")))


commands()
with tempfile.TemporaryDirectory() as root:
    for kind in ("pre", "post"):
        for layer in range(3):
            folder = os.path.join(kind, f"ffn{layer}")
            os.makedirs(os.path.join(root, folder))
            for name in os.listdir(os.path.join(data, folder)):
                shutil.copyfile(os.path.join(data, folder, name),
                                os.path.join(root, folder, name))
    expect("the copy", 0, None, "--data", root)
    files(root)
sys.exit(f"{len(failures)} failed" if failures else 0)
