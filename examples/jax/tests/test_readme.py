"""The program in README.md runs as it stands there."""
import pathlib
import re

README = pathlib.Path(__file__).resolve().parent.parent / "README.md"


def test_program():
    programs = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert programs
    exec("\n".join(programs), {})
