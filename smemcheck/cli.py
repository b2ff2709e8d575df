"""Placeholder until the commands stand."""

def main() -> None:
    raise SystemExit(2)
