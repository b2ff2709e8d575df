"""``python -m smemcheck``: the same program as ``smemcheck``."""

from smemcheck.cli import main

main()
