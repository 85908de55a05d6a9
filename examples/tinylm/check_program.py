"""Runs tinylm on bad command lines and damaged files, and watches it write.

    check_program.py TINYLM MODEL.safetensors TEXT_FILE

Each bad input must end with its exit status and one line on stderr that says
what is wrong.
"""
import json
import socket
import struct
import subprocess
import sys
import tempfile

tinylm, model, text = sys.argv[1:4]
failures = []
cases = 0


def expect(what, status, said, *arguments):
    """`said`: what stderr must contain."""
    global cases
    cases += 1
    run = subprocess.run([tinylm, *arguments], capture_output=True, text=True)
    lines = run.stderr.splitlines()
    if (run.returncode != status or len(lines) != 1 or run.stdout
            or not lines[0].startswith("tinylm: ") or said not in lines[0]):
        failures.append(what)
        print(f"FAILED {what}: status {run.returncode}, {run.stderr!r}")


def commands():
    expect("no command", 2, "--help")
    expect("unknown command", 2, "--help", "sing", model)
    expect("no model", 2, "--help", "generate")
    expect("unknown option", 2, "--loud", "generate", model, "--loud", "1")
    expect("missing value", 2, "--length", "generate", model, "--length")
    for value in ("0", "-1", "7x", "", "1000001", "99999999999999999999999"):
        expect(f"length {value!r}", 2, "--length", "generate", model,
               "--length", value)
    for value in ("nan", "-1", "hot", ""):
        expect(f"temperature {value!r}", 2, "--temperature", "generate", model,
               "--temperature", value)
    expect("order", 2, "--order", "generate", model, "--order", "sandwich")
    expect("empty prompt", 2, "prompt", "generate", model, "--prompt", "")
    expect("strange prompt", 2, "'@'", "generate", model, "--prompt", "a@b")
    expect("no text file", 3, "no/such", "loss", model, "no/such")


def files():
    with open(model, "rb") as file:
        whole = file.read()
    (length,) = struct.unpack("<Q", whole[:8])
    header, data = json.loads(whole[8:8 + length]), whole[8 + length:]

    def bad(what, said, content):
        with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
            file.write(content)
            file.flush()
            expect(what, 3, said, "generate", file.name)
            expect(what + ", named", 3, file.name, "loss", file.name, text)

    def changed(change):
        """The file with change(header) made."""
        copy = json.loads(json.dumps(header))
        change(copy)
        return with_header(json.dumps(copy).encode())

    def with_header(text):
        return struct.pack("<Q", len(text)) + text + data

    def set_field(name, field, value):
        return changed(lambda h: h[name].__setitem__(field, value))

    expect("no model file", 3, "no/such", "generate", "no/such")
    bad("empty file", "shorter than 8 bytes", b"")
    bad("a few bytes", "shorter than 8 bytes", whole[:7])
    bad("cut in the header", "cut off", whole[:8 + length // 2])
    bad("cut in the data", "cut off", whole[:-1])
    bad("trailing byte", "after the last", whole + b"\0")
    bad("huge header", "header of", struct.pack("<Q", 2**63) + whole[8:])
    bad("no JSON", "no JSON object", with_header(b"{" + b"x" * 80))
    bad("a JSON list", "no JSON object", with_header(b"[1, 2]"))
    bad("deep JSON", "no JSON object", with_header(b"[" * 100000))
    bad("a tensor that is a number", "tensor head_b: bad entry",
        changed(lambda h: h.__setitem__("head_b", 3)))
    bad("no place", "tensor head_b: bad entry",
        changed(lambda h: h["head_b"].pop("data_offsets")))
    bad("negative extent", "tensor head_b: bad entry",
        set_field("head_b", "shape", [-69]))
    bad("fractional extent", "tensor head_b: bad entry",
        set_field("head_b", "shape", [69.0]))
    bad("overflow", "overflows", set_field("head_b", "shape", [2**40, 2**40]))
    bad("other shape", "does not fit", set_field("head_b", "shape", [70]))
    bad("unknown type", "unknown type F33", set_field("head_b", "dtype", "F33"))
    bad("integers", "head_b is I32, not F32",
        set_field("head_b", "dtype", "I32"))
    bad("turned weights", "ffn0.w1 is (512, 128), expected (128, 512)",
        set_field("ffn0.w1", "shape", [512, 128]))
    begin, end = header["head_b"]["data_offsets"]
    bad("backwards", "cut off",
        set_field("head_b", "data_offsets", [end, begin]))
    bad("overlap", "overlap or leave gaps",
        set_field("head_b", "data_offsets", [begin + 4, end + 4]))
    bad("a missing tensor", "bytes after" if end == len(data) else "gaps",
        changed(lambda h: h.pop("head_b")))
    bad("a renamed tensor", "tensor head_b is missing",
        changed(lambda h: h.__setitem__("other", h.pop("head_b"))))
    bad("no metadata", "metadata \"order\" is missing",
        changed(lambda h: h.pop("__metadata__")))
    for key, value, said in (("order", "sandwich", "order"),
                             ("heads", "0", "heads"), ("heads", "3", "heads"),
                             ("heads", "x", "heads"),
                             ("epsilon", "small", "epsilon"),
                             ("epsilon", "-1", "ffn0"),
                             ("characters", "abc", "tok_emb")):
        bad(f"{key} {value}", said, set_field("__metadata__", key, value))


def stream():
    """On a socket that keeps writes apart: the prompt, then each character in
    a write of its own, far past the context."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with subprocess.Popen([tinylm, "generate", model, "--prompt", "My lord",
                           "--length", "300"], stdout=theirs,
                          stderr=subprocess.DEVNULL) as run:
        theirs.close()
        writes = []
        while piece := ours.recv(4096):
            writes.append(piece)
    if (run.returncode != 0 or writes[0] != b"My lord" or len(writes) != 302
            or any(len(piece) != 1 for piece in writes[1:])):
        failures.append("stream")
        print("FAILED stream:", run.returncode, writes)


commands()
files()
stream()
print(f"{cases} bad inputs and a stream, {len(failures)} not as they should be")
sys.exit(1 if failures else 0)
