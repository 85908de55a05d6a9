"""Damaged files and wrong command lines: each gets its exit status and one line
on stderr, and leaves all files as they were."""
import json
import struct
import subprocess
import unittest

from support import (DONE, FAILED, PROGRAM, TORCH, USAGE, Block, Case, float_bytes,
                     npy, safetensors)


class CommandLine(Case):
    def test_usage(self):
        for said, *arguments in (
                ("subcommand", ),
                ("sing", "sing"),
                ("--loud", "--loud"),
                ("model", "pack"),
                ("--loud", "pack", "m.safetensors", "--loud"),
                ("more", "pack", "m.safetensors", "more"),
                ("--output", "pack", "m.safetensors", "-o"),
                ("sandwich", "pack", "m.safetensors", "--order", "sandwich"),
                ("up_down", "pack", "m.safetensors", "--layout", "up_down"),
                ("x", "run", "b.pre.ffnorm"),
                ("sandwich", "run", "b.ffnorm", "x.npy", "--order", "sandwich"),
                ("--threads", "info", "--threads", "0"),
                ("--threads", "info", "--threads", "1025"),
                ("--threads", "info", "--threads", "-1"),
                ("--threads", "info", "--threads", "two"),
                ("--threads", "info", "--threads", "9" * 30),
                ("--rows", "bench", "--rows", "0"),
                ("--rows", "bench", "--rows", "1,x"),
                ("--rows", "bench", "--rows", "2000000"),
                ("--shape", "bench", "--shape", "12"),
                ("--shape", "bench", "--shape", "0x12"),
                ("--shape", "bench", "--shape", "12x"),
                ("--shape", "bench", "--shape", "12x13x14"),
                ("--shape", "bench", "--shape", "12x99999999999999999999")):
            with self.subTest(arguments):
                self.bad(USAGE, said, *arguments)

    def test_values(self):
        self.write("m.safetensors", safetensors(
            Block(8, 12, "out_in").tensors("l.0.", TORCH[0])))
        for epsilon in ("", "x", "-1", "nan", "inf", "1e-5x", "1e99"):
            if epsilon:
                self.bad(USAGE, "--epsilon", "pack", "m.safetensors",
                         "--epsilon", epsilon)

    def test_target(self):
        self.write("b.pre.ffnorm", b"")
        for command in (("info",), ("bench", "--quick"),
                        ("run", "b.pre.ffnorm", "x.npy")):
            self.bad(USAGE, "FFNORM_TARGET is PENTIUM, and here there is",
                     *command, FFNORM_TARGET="PENTIUM")


class Safetensors(Case):
    def setUp(self):
        super().setUp()
        self.block = Block(8, 12, "out_in")
        self.tensors = self.block.tensors("l.0.", TORCH[0])
        self.whole = safetensors(self.tensors)
        (self.length,) = struct.unpack("<Q", self.whole[:8])
        self.header = json.loads(self.whole[8:8 + self.length])
        self.data = self.whole[8 + self.length:]

    def bad_file(self, said, content):
        self.write("m.safetensors", content)
        self.bad(FAILED, "m.safetensors: ", "pack", "m.safetensors", "-o", "o")
        self.bad(FAILED, said, "pack", "m.safetensors", "--list")

    def with_header(self, text):
        return struct.pack("<Q", len(text)) + text + self.data

    def changed(self, change):
        header = json.loads(json.dumps(self.header))
        change(header)
        return self.with_header(json.dumps(header).encode())

    def field(self, name, field, value):
        return self.changed(lambda h: h[name].__setitem__(field, value))

    def test_whole_file(self):
        self.bad(FAILED, "no/such: cannot be opened", "pack", "no/such")
        self.bad(FAILED, "cannot be read", "pack", ".")
        self.bad_file("shorter than 8 bytes", b"")
        self.bad_file("shorter than 8 bytes", self.whole[:7])
        self.bad_file("cut off", self.whole[:8 + self.length // 2])
        self.bad_file("cut off", self.whole[:-1])
        self.bad_file("after the last", self.whole + b"\0")
        for length in (2**63, 2**64 - 1, 2**40, len(self.whole) - 7):
            self.bad_file("header of",
                          struct.pack("<Q", length) + self.whole[8:])
        self.bad_file("no safetensors file", npy((2,), bytes(8)))

    def test_json(self):
        for text in (b"{" + b"x" * 80, b"[1, 2]", b"[" * 100000, b"", b"3",
                     b'{"a\xff": 1}', b"{}{}"):
            self.bad_file("no JSON object", self.with_header(text))
        self.write("m.safetensors", struct.pack("<Q", 2) + b"{}")
        self.bad(FAILED, "among 0 tensors", "pack", "m.safetensors")

    def test_entries(self):
        name = "l.0.linear1.bias"
        for value in (3, [], None, "x", {}):
            self.bad_file(f"tensor {name}: bad entry",
                          self.changed(lambda h: h.__setitem__(name, value)))
        for shape in ([-12], [12.0], ["12"], 12, None, [2**70]):
            self.bad_file("bad entry", self.field(name, "shape", shape))
        self.bad_file("overflows", self.field(name, "shape", [2**40, 2**40]))
        self.bad_file("does not fit", self.field(name, "shape", [13]))
        self.bad_file("unknown type F33", self.field(name, "dtype", "F33"))
        self.bad_file("bad entry", self.field(name, "dtype", 32))
        begin, end = self.header[name]["data_offsets"]
        self.bad_file("cut off", self.field(name, "data_offsets", [end, begin]))
        self.bad_file("cut off", self.field(name, "data_offsets",
                                            [2**63, 2**63 + 48]))
        self.bad_file("overlap", self.field(name, "data_offsets",
                                            [begin + 4, end + 4]))
        self.bad_file("overlap", self.field(name, "data_offsets",
                                            [begin - 4, end - 4]))
        self.bad_file("gaps", self.changed(lambda h: h.pop(name)))
        self.bad_file("not a string", self.changed(
            lambda h: h.__setitem__("__metadata__", {"a": 3})))
        self.bad_file("bad entry", self.changed(
            lambda h: h.__setitem__("__metadata__", [])))

    def test_names_cannot_write_to_the_terminal(self):
        self.bad_file("tensor ?[31mred??: bad entry", self.changed(
            lambda h: h.__setitem__("\x1b[31mred\n\x7f", 3)))

    def test_wide_open(self):
        """A folder that cannot be made."""
        self.write("m.safetensors", self.whole)
        self.bad(FAILED, "cannot be made", "pack", "m.safetensors", "-o",
                 "m.safetensors/o")
        self.bad(FAILED, "cannot be", "pack", "m.safetensors", "-o",
                 "m.safetensors")


class Packed(Case):
    def setUp(self):
        super().setUp()
        block = Block(8, 12, "out_in")
        self.write("m.safetensors",
                   safetensors(block.tensors("l.0.", TORCH[0])))
        self.ok("pack", "m.safetensors", "--order", "pre")
        self.whole = self.read("l.0.pre.ffnorm")
        self.write("x.npy", npy((2, 8), float_bytes(range(16))))

    def bad_file(self, said, content):
        self.write("b.pre.ffnorm", content)
        self.bad(FAILED, "b.pre.ffnorm: ", "run", "b.pre.ffnorm", "x.npy")
        self.bad(FAILED, said, "run", "b.pre.ffnorm", "x.npy")

    def test_files(self):
        self.bad(FAILED, "no/such.pre.ffnorm: cannot be opened", "run",
                 "no/such.pre.ffnorm", "x.npy")
        self.bad(FAILED, "cannot be read", "run", ".", "x.npy", "--order",
                 "pre")
        for content in (b"", b"FFNORM", self.read("x.npy"),
                        self.read("m.safetensors")):
            self.bad_file("no packed block", content)
        for length in (8, 127, 128, 129, len(self.whole) - 1):
            self.bad_file("cut off", self.whole[:length])
        self.bad_file("1 bytes after", self.whole + b"\0")

    def test_every_header_field(self):
        """Each is checked, and lengths that lie allocate nothing."""
        for offset in range(8, 128):
            for value in (0xff, 0x5a):
                content = bytearray(self.whole)
                content[offset] ^= value
                with self.subTest(offset=offset):
                    self.bad_file("", bytes(content))
        huge = bytearray(self.whole)
        huge[48:56] = struct.pack("<Q", 2**64 - 64)
        self.bad_file("cut off", bytes(huge))

    def test_a_changed_weight(self):
        for offset in (128, len(self.whole) // 2, len(self.whole) - 1):
            content = bytearray(self.whole)
            content[offset] ^= 1
            self.bad_file("", bytes(content))


class Npy(Case):
    def setUp(self):
        super().setUp()
        self.write("m.safetensors", safetensors(
            Block(8, 12, "out_in").tensors("l.0.", TORCH[0])))
        self.ok("pack", "m.safetensors", "--order", "pre")
        self.whole = npy((2, 8), float_bytes(range(16)))

    def bad_file(self, said, content):
        self.write("x.npy", content)
        self.bad(FAILED, "x.npy: ", "run", "l.0.pre.ffnorm", "x.npy")
        self.bad(FAILED, said, "run", "l.0.pre.ffnorm", "x.npy")

    def test_files(self):
        self.bad(FAILED, "no.npy: cannot be opened", "run", "l.0.pre.ffnorm",
                 "no.npy")
        self.bad(FAILED, "cannot be read", "run", "l.0.pre.ffnorm", ".")
        self.bad_file("truncated", b"")
        self.bad_file("truncated header", self.whole[:40])
        self.bad_file("truncated", self.whole[:-1])
        self.bad_file("trailing bytes", self.whole + b"\0")
        self.bad_file("bad magic", b"\x92" + self.whole[1:])
        self.bad_file("no .npy file", self.read("m.safetensors"))
        self.bad_file("not version 1.0",
                      self.whole[:6] + b"\2" + self.whole[7:])

    def test_types(self):
        for descr in ("<f8", ">f4", "<f2", "<i4", "|b1"):
            self.bad_file(f"type is {descr}",
                          npy((2, 8), bytes(64), descr=descr))
        self.bad_file("np.ascontiguousarray", npy((2, 8), bytes(128), "<f8"))
        self.bad_file("np.ascontiguousarray",
                      npy((2, 8), bytes(64), fortran=True))

    def test_shapes(self):
        for shape in ((2, 9), (16,), (8, 2), (), (0,), (8, 0)):
            count = 1
            for extent in shape:
                count *= extent
            self.bad_file("but the block takes rows of 8",
                          npy(shape, bytes(4 * count)))
        self.bad_file("overflows", npy((2**62, 8), b""))
        self.bad_file("overflows", npy((10**30, 8), b""))
        self.bad_file("truncated", npy((2**40, 8), bytes(64)))


class Help(Case):
    def test_help_and_version(self):
        for command in ("", "info", "pack", "run", "bench"):
            said = self.ok(*command.split(), "--help")
            self.assertIn("xample", said if command else said + "xample")
            self.assertIn(f"ffnorm {command}".strip(), said)
            self.assertLessEqual(max(map(len, said.splitlines())), 100)
        for command in ("info", "pack", "run", "bench"):
            self.assertIn(command, self.ok("--help"))
        self.assertIn("Exit status: 0", self.ok("--help"))
        self.assertRegex(self.ok("--version"), r"\Affnorm \d+\.\d+\.\d+\n\Z")

    def test_output_that_cannot_be_written(self):
        try:
            full = open("/dev/full", "w")
        except OSError:
            self.skipTest("no /dev/full")
        self.write("m.safetensors", safetensors(
            Block(8, 12, "out_in").tensors("l.0.", TORCH[0])))
        with full:
            done = subprocess.run([PROGRAM, "pack", "m.safetensors", "--list"],
                                  cwd=self.folder, stdout=full,
                                  stderr=subprocess.PIPE, text=True)
        self.assertNotEqual(done.returncode, DONE)
        self.assertIn("standard output cannot be written", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
