"""More than one process: the table of two_processes.py, at a small size."""
import pathlib
import re
import subprocess
import sys

SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "two_processes.py"


def test_two_processes():
    D, F, rows = 96, 160, 6
    result = subprocess.run(
        [sys.executable, SCRIPT, "--d-model", str(D), "--d-ff", str(F),
         "--rows", str(rows), "--repeats", "2"],
        stdout=subprocess.PIPE, text=True, timeout=300)
    print(result.stdout)
    assert result.returncode == 0
    lines = [line.split() for line in result.stdout.splitlines()[1:]]
    assert [line[:4] for line in lines] == [
        [block, str(rows), shared, "same"]
        for block in ("pre_ln", "post_ln")
        for shared in ("no", "rows", "columns")]
    # Half of the hidden units and of the columns of y, and nothing else.
    received = [float(line[4]) for line in lines]
    columns = round((F + D) // 2 * rows * 4 / 1024, 1)
    assert received == [0, 0, columns] * 2
    assert re.search(rf"f32\[{rows},{F}\], f32\[{rows},{D}\]", result.stdout)
