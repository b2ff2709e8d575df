"""The limit: the time that Triton's own frontend and passes take for the distinct work, and nothing else.

    python passes.py JOBS.jsonl

Does in one process what the worker does, with a clock around Triton's stages. Prints one JSON object: seconds, by stage.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any


def main() -> None:
    from triton.compiler import ASTSource

    from smemcheck.lower.worker import lowering, passes
    from smemcheck.lower.worker.main import Worker, collect_seldom

    seconds: Counter[str] = Counter()

    def timed(stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            began = time.process_time()
            try:
                return function(*arguments, **keywords)
            finally:
                seconds[stage] += time.process_time() - began

        return call

    ASTSource.make_ir = timed("frontend", ASTSource.make_ir)
    passes.run = lowering.run = timed("passes", passes.run)
    collect_seldom()
    worker = Worker()
    for line in dict.fromkeys(Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()):
        worker.answer({**json.loads(line), "handover": "", "common": "stages"})
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
