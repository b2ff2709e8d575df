"""What the text of a whole file says of names."""

import subprocess
import sys

import pytest

from smemcheck.specialize.launches.around import read_around


@pytest.mark.parametrize(
    ("text", "name", "texts"),
    [
        ("if mode == 'sum' or mode != \"mean\":", "mode", ["sum", "mean"]),
        ("if mode not in ('a', 'b') and kind in ['c']:", "mode", ["a", "b"]),
        ("if Mode == 'sum':", "mode", ["sum"]),
        ("if other.mode == 'sum':", "mode", ["sum"]),
        ("if a_mode == 'sum':", "mode", []),
        ("mode = 'sum'", "mode", []),
    ],
)
def test_texts_that_a_name_is_compared_with(text, name, texts):
    assert read_around(text).texts_of(name) == texts


def test_names_that_are_compared_with_none():
    assert read_around("x is None or y is not None or z == None").compared == {"x", "y"}


def test_every_process_writes_it_alike():
    names = [f"name_{number}" for number in range(20)]
    text = "\n".join(f"{name} is None" for name in names)
    code = f"from smemcheck.specialize.launches.around import read_around\nprint(read_around({text!r}).written)"
    written = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert written == {f"{read_around(text).written}\n".encode()}
