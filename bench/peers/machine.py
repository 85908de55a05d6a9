"""What the figures were measured on."""
import datetime
import platform
import re
import subprocess


def output(command):
    try:
        return subprocess.run(command, capture_output=True, text=True,
                              check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""


def fields(text):
    pairs = (line.split(":", 1) for line in text.splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, value in pairs}


def describe(root, compiler, isa):
    cpu = fields(output(["lscpu"]))
    flags = cpu.get("Flags", "").split()
    vectors = next((name for flag, name in (
        ("avx512f", "AVX-512"), ("avx2", "AVX2"), ("avx", "AVX"),
        ("asimd", "NEON")) if flag in flags), "none known")
    try:
        with open("/sys/kernel/mm/transparent_hugepage/enabled",
                  encoding="ascii") as file:
            huge = re.search(r"\[(\w+)\]", file.read())[1]
    except (OSError, TypeError):
        huge = "unknown"
    return {
        "cpu": cpu.get("Model name", platform.processor() or "unknown"),
        "family_model_stepping": "/".join(
            cpu.get(key, "?") for key in ("CPU family", "Model", "Stepping")),
        "cpus": cpu.get("CPU(s)", "?"),
        "vectors": vectors,
        "held_to": isa,
        "caches": {key: cpu[f"{key} cache"] for key in ("L1d", "L2", "L3")
                   if f"{key} cache" in cpu},
        "hypervisor": cpu.get("Hypervisor vendor", "none"),
        "transparent_huge_pages": huge,
        "kernel": platform.release(),
        "compiler": output([compiler, "--version"]).split("\n")[0],
        "commit": output(["git", "-C", str(root), "describe", "--always",
                          "--dirty"]).strip(),
        "python": platform.python_version(),
        "date": datetime.date.today().isoformat(),
    }


def caption(results):
    """Three lines that go under every picture."""
    machine = results["machine"]
    caches = ", ".join(f"{name} {size}" for name, size
                       in machine["caches"].items())
    held = "" if machine["held_to"] == "best" else (
        f", all held to {machine['held_to'].upper()}")
    ffnorm = next((lib for lib in results["libraries"]
                   if lib["library"] == "ffnorm"), {})
    peers = ", ".join(f"{lib['library']} {lib['version']}"
                      for lib in results["libraries"]
                      if lib["library"] != "ffnorm")
    return (f"{machine['cpu']} (family/model/stepping "
            f"{machine['family_model_stepping']}), {machine['cpus']} CPUs, "
            f"{machine['vectors']}{held}; {caches}\n"
            f"ffnorm {ffnorm.get('version', '?')} ({ffnorm.get('note', '?')}), "
            f"{machine['compiler']}, {machine['date']}; "
            f"redo: bench/peers/run.py\n{peers}")
