"""The worker processes, one for each library. They live as long as the run and
take turns: all but the one that is being timed are stopped by a signal, so that
no thread pool of theirs spins beside it."""
import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import time

ANSWER_SECONDS = 300  # the longest that anything may take


PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


class Failed(Exception):
    """A worker answered with an error, or not at all."""


class Worker:
    def __init__(self, name, command, threads, cpus, environment, log):
        self.name = name
        self.buffer = b""
        self.log = open(log, "wb")

        def before_start():
            os.sched_setaffinity(0, cpus)
            # A stopped worker would outlive a run that is killed.
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

        # A session of its own is a scheduler group of its own: other work on
        # the machine then gets its share, not one for each of its threads.
        self.process = subprocess.Popen(
            [*map(str, command), str(threads)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self.log, start_new_session=True,
            env={**os.environ, **environment},
            preexec_fn=before_start)
        try:
            hello = json.loads(self.read())
        except (Failed, ValueError):
            self.close()
            raise Failed(f"did not start; see {log}") from None
        self.library = hello["library"]
        self.version = hello["version"]
        self.note = hello["note"]
        self.variants = hello["variants"]  # [name, most rows or 0]
        self.stop()

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)

    @contextlib.contextmanager
    def running(self):
        self.process.send_signal(signal.SIGCONT)
        try:
            yield self
        finally:
            if self.process.poll() is None:
                self.stop()

    def read(self):
        """The next line of its answers."""
        deadline = time.monotonic() + ANSWER_SECONDS
        while b"\n" not in self.buffer:
            left = deadline - time.monotonic()
            ready = select.select([self.process.stdout], [], [], max(left, 0))
            if not ready[0]:
                self.process.kill()
                raise Failed(f"no answer in {ANSWER_SECONDS} s")
            piece = os.read(self.process.stdout.fileno(), 65536)
            if not piece:
                raise Failed(f"ended (status {self.process.wait()})")
            self.buffer += piece
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line.decode()

    def ask(self, command):
        """Sends a command to the running worker; returns the numbers that it
        answers."""
        try:
            self.process.stdin.write(command.encode() + b"\n")
            self.process.stdin.flush()
        except (OSError, ValueError):  # ended, closed
            raise Failed("is gone") from None
        answer = self.read().split(" ", 1)
        if answer[0] != "ok":
            raise Failed(" ".join(answer[1:]))
        return [float(n) for n in answer[1].split()] if answer[1:] else []

    def call(self, command):
        with self.running():
            return self.ask(command)

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.log.close()


class Fleet:
    """The workers for one number of threads, with the roof among them."""

    def __init__(self, commands, threads, cpus, environment, work, say):
        self.workers = []
        self.failed = {}
        self.threads = threads
        for name, command in commands.items():
            try:
                worker = Worker(name, command, threads, cpus, environment,
                                work / f"{name}.log")
            except Failed as why:
                self.failed[name] = str(why)
                say(f"{name}: left out, {why}")
                continue
            if name == "roof":
                self.roof = worker
            else:
                self.workers.append(worker)

    def drop(self, worker, why, say):
        say(f"{worker.name}: left out from here on, {why}")
        self.failed[worker.name] = str(why)
        self.workers.remove(worker)
        worker.close()

    @contextlib.contextmanager
    def only(self, names):
        """Leaves all others aside."""
        others = [w for w in self.workers if w.name not in names]
        self.workers = [w for w in self.workers if w.name in names]
        try:
            yield
        finally:
            self.workers += others

    def close(self):
        for worker in [*self.workers, self.roof]:
            worker.close()
