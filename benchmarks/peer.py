"""What a user would write instead of smemcheck: a loop of ``triton.compile`` that reads ``metadata.shared``.

    python peer.py JOBS.jsonl [WORKERS]

``JOBS.jsonl`` comes from ``speed.py``: the same kernels, configs, types and target as smemcheck is asked. The kernels come as
slices, so that neither the peer nor we import the packages they are from. Prints one JSON line: bytes by job.
"""

from __future__ import annotations

import concurrent.futures
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any


def compile_one(line: str) -> int | None:
    """Bytes of shared memory per block by a full compile; ``None`` when Triton refuses."""
    import triton

    from smemcheck.lower.worker.frontend import Reads, pretend_device
    from smemcheck.lower.worker.request import Request
    from smemcheck.lower.worker.slices import Slice

    job: dict[str, Any] = json.loads(line)
    try:
        request = Request(job, Slice(json.loads(job["kernel"])))
        pretend_device(request.target, Reads())  # this machine has no GPU to ask
        compiled = triton.compile(request.source, target=request.target, options=request.options.__dict__)
        return int(compiled.metadata.shared)
    except Exception:  # noqa: BLE001 - what Triton raises is an answer
        return None


def main() -> None:
    lines = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    workers = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    cache = os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp()
    try:
        if workers:
            with concurrent.futures.ProcessPoolExecutor(workers) as pool:
                found = list(pool.map(compile_one, lines))
        else:
            found = [compile_one(line) for line in lines]
    finally:
        shutil.rmtree(cache, ignore_errors=True)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
