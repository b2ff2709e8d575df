"""The part that talks to Triton: started in the interpreter whose Triton is asked, it needs that Triton and nothing else.

    stdin: one job a line ──▶ slices: def → JITFunction ──▶ request ──▶ frontend: TTIR, once for what is alike
                                   lowering: passes up to the allocation, once for what is alike ──▶ one answer a line
                                                                 ├──▶ buffers: what shared memory is for
                                                                 ├──▶ registers: a lower bound of them (ttgir, layouts)
                                                                 │ registers asked for
                                                                 └──▶ completion: TTGIR laid down ─ ─ ─▶ any worker:
                                                                      to the binary ──▶ binary: registers, spills

The directory is loaded as the package ``smemcheck_worker`` by ``smemcheck.lower.process.BOOTSTRAP``, so it imports
itself relatively only, runs on Python 3.9 and later, and on Triton 3.2 to 3.9 (``versions``). What it knows of Triton's
internals stands in ``versions``; everything else goes through ``triton.compile`` and ``triton.compiler.ASTSource``.
"""

# Raised with any change of the job's or the answer's form; part of the key under which answers are kept.
PROTOCOL = 4
