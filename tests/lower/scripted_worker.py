"""A worker that does to its process what a compiler can do; the config's ``do`` says what. Speaks the real protocol."""

import json
import os
import sys
import time
from pathlib import Path

ANSWER = {"shared_memory": 1, "tensor_memory": 0, "num_warps": 4, "threads": 128, "buffers": [], "method": "allocation"}


def act(what: str) -> None:
    if what == "hang":
        while True:
            time.sleep(0.01)
    if what == "grow":
        blocks = []
        while True:
            blocks.append(bytearray(os.urandom(1 << 20)) * 16)
    if what == "flood":
        for _ in range(20_000):
            os.write(2, b"// .visible .entry kernel(" + b"x" * 1000 + b"\n")
    if what == "abort":
        os.write(2, b"python: Allocation.cpp:101: size(): Assertion `offset < size' failed.\n")
        os.abort()
    if what == "exit":
        os._exit(3)


def complete(job: dict, options: dict) -> dict:
    if options["do"] == "spill":
        act("hang")
    if options["do"] == "swell":
        act("grow")
    text = Path(job["handover"], job["rest"]).read_text()
    return {"registers": int(text), "spill_bytes": time.monotonic_ns(), "method": "full"}


def main() -> None:
    print(json.dumps({"hello": 1, "triton": "0.0.0"}), flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        if job.get("check"):
            answer = {"checked": "allocation", "message": ""}
        else:
            options = dict(job["options"])
            if "rest" in job:
                answer = complete(job, options)
            else:
                act(options["do"])
                time.sleep(options.get("seconds", 0))
                answer = {**ANSWER, "shared_memory": options["number"], "num_warps": os.getpid()}
                if job["registers"]:
                    code = options.get("code", options["number"])
                    written = Path(job["handover"], str(os.getpid()))
                    written.write_text(str(code))
                    written.replace(written.with_name(f"{code}.ttgir"))
                    answer.update(rest=f"{code}.ttgir", cost=code)
        print(json.dumps({"id": job["id"], **answer}), flush=True)


main()
