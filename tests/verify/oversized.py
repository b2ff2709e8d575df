"""Writes recorded lines for the fixtures' lists made oversized: deeper pipelines and more warps than their authors list.

smemcheck sites fixtures --arch sm_90 --format json > sites.json
python tests/verify/oversized.py sites.json tests/fixtures/specializations.jsonl > oversized.jsonl
smemcheck fixtures --verify --specializations oversized.jsonl
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def oversized(configs: list[dict]) -> list[dict]:
    """Each config with more stages, and with more warps; without repetitions."""
    made = []
    for config in configs:
        changes = ({"num_stages": config["num_stages"] + 2}, {"num_stages": 8}, {"num_warps": 32}, {"num_warps": 16})
        made += [{**config, **change} for change in changes]
    return [config for index, config in enumerate(made) if config not in made[:index]]


# A host descriptor's block shape follows the config, where a recorded line holds that of one config.
DESCRIPTORS = {"a_desc": "[BLOCK_M, BLOCK_K]", "b_desc": "[BLOCK_N, BLOCK_K]", "c_desc": "[BLOCK_M, BLOCK_N]"}


def signature(kinds: dict) -> dict:
    return {
        name: kind.partition("[")[0] + DESCRIPTORS[name] + ">" if str(kind).startswith("tensordesc") else kind
        for name, kind in kinds.items()
    }


def main() -> None:
    report = json.loads(Path(sys.argv[1]).read_text())
    lists = {
        site["kernel"]: next(iter(site["configs"].values())) for site in report["sites"] if site["kind"] == "autotune"
    }
    for text in Path(sys.argv[2]).read_text().splitlines():
        line = json.loads(text)
        for config in oversized(lists.get(line["kernel"]) or []):
            sys.stdout.write(json.dumps({**line, "signature": signature(line["signature"]), "config": config}) + "\n")


if __name__ == "__main__":
    main()
