"""What is printed where: colours, bars and progress on a terminal, and plain
text in a pipe or with NO_COLOR."""
import os
import pty
import resource
import signal
import subprocess
import time
import unittest

from support import (DONE, FAILED, PROGRAM, TORCH, Block, Case, safetensors,
                     targets)

ESCAPE = "\x1b"
QUICK = ("bench", "--quick", "--shape", "64x128", "--rows", "2")


class Terminal(Case):
    def on_terminal(self, *arguments, **variables):
        """Runs it on a terminal of its own; returns all that it showed."""
        ours, theirs = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8",
                       **variables}
        environment = {k: v for k, v in environment.items()
                       if k != "FFNORM_TARGET" and v is not None}
        if "NO_COLOR" not in variables:
            environment.pop("NO_COLOR", None)
        run = subprocess.Popen([PROGRAM, *arguments], cwd=self.folder,
                               stdin=theirs, stdout=theirs, stderr=theirs,
                               env=environment)
        os.close(theirs)
        shown = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # Linux: the other end is closed
                break
            if not piece:
                break
            shown += piece
        os.close(ours)
        self.assertEqual(run.wait(), DONE, shown)
        return shown.decode()

    def test_bench(self):
        shown = self.on_terminal(*QUICK)
        for text in ("\x1b[", "\x1b[0m", "█", "Pre-LN", "Post-LN"):
            self.assertIn(text, shown)
        # Both results, each with its share.
        self.assertEqual(shown.count(" GFLOP/s\r\n"), 1 + 2, shown)

    def test_bench_plain(self):
        for shown in (self.ok(*QUICK), self.ok(*QUICK, LC_ALL="C.UTF-8"),
                      self.on_terminal(*QUICK, TERM="dumb")):
            self.assertNotIn(ESCAPE, shown)
            self.assertTrue(shown.isascii())
            self.assertIn("#", shown)
            self.assertIn("Post-LN", shown)

    def test_no_color(self):
        shown = self.on_terminal(*QUICK, NO_COLOR="1")
        self.assertNotIn(ESCAPE, shown)
        self.assertIn("█", shown)
        # Set but empty means nothing.
        self.assertIn(ESCAPE, self.on_terminal(*QUICK, NO_COLOR=""))

    def test_locale(self):
        shown = self.on_terminal(*QUICK, LC_ALL="C")
        self.assertTrue(shown.isascii())
        self.assertIn(ESCAPE, shown)

    def test_bench_options(self):
        shown = self.ok("bench", "--quick", "--shape", "32x64,48x96", "--shape",
                        "16x16", "--rows", "3", "--threads", "2")
        for text in ("2 threads", "d_model 32, d_ff 64", "d_model 48, d_ff 96",
                     "d_model 16, d_ff 16"):
            self.assertIn(text, shown)
        self.assertEqual(shown.count("    3  Pre-LN"), 3)

    def test_bench_on_every_target(self):
        for target, _ in targets():
            shown = self.ok(*QUICK, FFNORM_TARGET=target)
            self.assertIn(f" on {target}", shown)

    def test_quick_is_quick(self):
        start = time.monotonic()
        shown = self.ok("bench", "--quick")
        self.assertLess(time.monotonic() - start, 60)  # on a busy machine too
        self.assertEqual(shown.count("Post-LN"), 9)

    def test_info(self):
        plain = self.ok("info")
        self.assertNotIn(ESCAPE, plain)
        self.assertTrue(plain.isascii())
        for target, rounding in targets():
            self.assertRegex(plain, rf"(?m)^[* ] {target} .* {rounding} ")
        self.assertRegex(plain, rf"(?m)^\* {targets()[0][0]} .*in use$")
        self.assertEqual(plain.count(" GB/s"), 4)
        last = targets()[-1][0]
        self.assertRegex(self.ok("info", "--threads", "2", FFNORM_TARGET=last),
                         rf"(?m)^\* {last} .*in use$")
        self.assertIn("\x1b[1m* ", self.on_terminal("info"))

    def test_pack_shows_progress(self):
        block = Block(16, 24, "out_in")
        tensors = {}
        for layer in range(4):
            tensors.update(block.tensors(f"l.{layer}.", TORCH[0]))
        self.write("m.safetensors", safetensors(tensors))
        shown = self.on_terminal("pack", "m.safetensors")
        for part in ("\r\x1b[K", "█", "  0% l.0.post.ffnorm",
                     " 75% l.3.post.ffnorm"):
            self.assertIn(part, shown)
        # What is left standing are the lines that a pipe gets.
        left = [line.split("\r\x1b[K")[-1].rstrip("\r")
                for line in shown.split("\n")]
        self.assertEqual("\n".join(left), self.ok("pack", "m.safetensors"))
        self.assertNotIn("\r", self.ok("pack", "m.safetensors"))

    def test_interrupted_pack_leaves_whole_files_only(self):
        block = Block(256, 512, "out_in")
        tensors = {}
        for layer in range(60):
            tensors.update(block.tensors(f"l.{layer}.", TORCH[0]))
        self.write("m.safetensors", safetensors(tensors))
        with subprocess.Popen([PROGRAM, "pack", "m.safetensors"],
                              cwd=self.folder, stdout=subprocess.PIPE) as run:
            while b"wrote" not in run.stdout.readline():
                self.assertIsNone(run.poll())
            run.send_signal(signal.SIGINT)
        self.assertEqual(run.returncode, -signal.SIGINT)
        whole = len(self.read("l.0.post.ffnorm"))
        packed = [name for name in self.files() if name != "m.safetensors"]
        self.assertLess(len(packed), 60)
        for name in packed:
            self.assertTrue(name.endswith(".ffnorm"), name)
            self.assertEqual(len(self.read(name)), whole)

    def test_a_write_that_fails_leaves_nothing(self):
        """Files may not grow past 4096 bytes: a signal in the middle of a
        write, and an error where that signal is ignored."""
        self.write("m.safetensors", safetensors(
            Block(64, 128, "out_in").tensors("l.0.", TORCH[0])))

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        for restored in (True, False):  # Python itself ignores SIGXFSZ
            done = subprocess.run([PROGRAM, "pack", "m.safetensors"],
                                  cwd=self.folder, capture_output=True,
                                  text=True, preexec_fn=limit,
                                  restore_signals=restored)
            if restored:
                self.assertEqual(done.returncode, -signal.SIGXFSZ, done)
            else:
                self.assertEqual(done.returncode, FAILED, done)
                self.assertRegex(done.stderr, r"\Affnorm: l\.0\.post\.ffnorm: "
                                 r"cannot be written: [^\n]+\n\Z")
            self.assertEqual(self.files(), ["m.safetensors"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
