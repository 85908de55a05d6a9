"""Installs what the comparison needs: Debian packages by apt, the rest from
PyPI into the work directory. Uses the standard library only."""
import os
import shutil
import subprocess
import sys
import venv

NEEDED_DEBIAN = ["g++", "meson", "ninja-build", "pkg-config", "python3-venv",
                 "libhwy-dev", "libbenchmark-dev"]
NEEDED_PYPI = ["numpy", "matplotlib"]

DEBIAN = {
    "eigen": ["libeigen3-dev"],
    "blis": ["libblis-openmp-dev"],
    "libxsmm": ["libxsmm-dev"],
}
PYPI = {
    "mkl": ["mkl", "mkl-devel"],
    "openblas": ["scipy-openblas64"],
    "onnxruntime": ["onnx", "onnxruntime"],
    "openvino": ["onnx", "openvino"],
    "torch": ["torch"],
    "jax": ["jax", "flax"],
}
# oneDNN for GNU OpenMP, apart from the virtual environment: other packages
# bring files of the same names.
ONEDNN = ["onednn-cpu-gomp", "onednn-devel-cpu-gomp"]

# Trained weights; its own requirements are not needed.
ACCENT = ["ruaccent-predictor==1.2.0"]

SIZES = {"torch": "the wheel on PyPI brings CUDA libraries, about 5 GB"}


def quiet(command):
    return subprocess.run(command, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)


def last_line(text):
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no output"


def debian_missing(packages):
    missing = []
    for package in packages:
        status = quiet(["dpkg-query", "-W", "-f", "${Status}", package])
        if "ok installed" not in status.stdout:
            missing.append(package)
    return missing


def install_debian(packages, say):
    """Whether all of them are there now."""
    if shutil.which("dpkg-query") is None:
        return True  # not Debian; build.py finds out
    missing = debian_missing(packages)
    if not missing:
        return True
    say("apt: " + " ".join(missing))
    sudo = [] if os.geteuid() == 0 else ["sudo"]
    install = [*sudo, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get",
               "install", "-y", "-qq", "--no-install-recommends", *missing]
    done = quiet(install)
    if done.returncode != 0:  # the package lists may be old
        quiet([*sudo, "apt-get", "update", "-qq"])
        done = quiet(install)
    if done.returncode != 0:
        say(f"  not installed: {last_line(done.stdout)}")
    return done.returncode == 0


def install_pypi(python, packages, say, options=()):
    done = quiet([python, "-m", "pip", "install", "-q",
                  "--disable-pip-version-check", *options, *packages])
    if done.returncode != 0:
        say(f"  {' '.join(packages)} not installed: {last_line(done.stdout)}")
    return done.returncode == 0


def install(work, peers, say):
    """Returns the Python of the work directory. What cannot be installed is
    said; only what every run needs ends it."""
    if not install_debian(NEEDED_DEBIAN, say):
        say("going on without what apt did not install")
    for peer in peers:
        install_debian(DEBIAN.get(peer, []), say)

    python = work / "venv" / "bin" / "python"
    if not python.exists():
        venv.create(work / "venv", with_pip=True)
    done = work / "installed"  # a line for each group that is in place
    before = done.read_text().split("\n") if done.exists() else []
    if "base" not in before:
        say("pip: " + " ".join(NEEDED_PYPI))
        if not install_pypi(python, NEEDED_PYPI, say):
            sys.exit("numpy and matplotlib are needed")
        before.append("base")
    for peer in peers:
        if peer in before:
            continue
        if peer in PYPI:
            note = f" ({SIZES[peer]})" if peer in SIZES else ""
            say("pip: " + " ".join(PYPI[peer]) + note)
            if install_pypi(python, PYPI[peer], say):
                before.append(peer)
        elif peer == "onednn":
            say("pip: " + " ".join(ONEDNN))
            if install_pypi(python, ONEDNN, say,
                            ["--no-deps", "--ignore-installed", "--prefix",
                             str(work / "onednn")]):
                before.append(peer)
    if "accent" not in before and install_pypi(
            python, ACCENT, say,
            ["--no-deps", "--target", str(work / "accent")]):
        before.append("accent")
    done.write_text("\n".join(before))
    return python
