"""Where the top-level statements of a file begin and end."""

import pytest

from smemcheck.source.scan import split_statements

FUNCTION = "def f():\n    return 1\n"
INSIDE = "def f():\n    return 1\n    # the end\n"
TEXT = 'TEXT = """\n# one\n# two"""\n'


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        (FUNCTION + "\n\n# About X.\n\n# More.\nX = 1\n", [FUNCTION + "\n\n", "X = 1\n"]),
        ("# Above.\n" + FUNCTION + "# Below.", [FUNCTION]),
        (INSIDE + "X = 1\n", [INSIDE, "X = 1\n"]),
        (TEXT + "X = 1\n", [TEXT, "X = 1\n"]),
        ("@one\n# between\n" + FUNCTION, ["@one\n# between\n" + FUNCTION]),
        ("X = [\n# inside\n]\n# Below.\n", ["X = [\n# inside\n]\n"]),
        ("X = 1  # beside\n", ["X = 1  # beside\n"]),
    ],
)
def test_comments_between_statements_belong_to_neither(text, statements):
    assert [text[one.start : one.end] for one in split_statements(text)] == statements


def test_lines_are_those_of_the_file():
    assert [one.line for one in split_statements("# Above.\n" + FUNCTION + "# About X.\nX = 1\n")] == [2, 5]
