"""What Triton's autotuner would do with a config, from what the compiler said of it."""

from __future__ import annotations

from smemcheck.model import Config, Failure, FailureKind, Footprint, Outcome, Target, Unknown, Verdict, VerdictKind
from smemcheck.rules.occupancy import warps_by_registers

_VERDICT_OF_FAILURE = {
    # ``Autotuner._bench`` gives inf for OutOfResources, CompileTimeAssertionFailure and PTXASError and lets every other
    # exception through to the user (triton/runtime/autotuner.py, 3.6 to 3.9).
    FailureKind.STATIC_ASSERTION: VerdictKind.PRUNED,
    FailureKind.PTXAS: VerdictKind.PRUNED,
    FailureKind.COMPILATION_ERROR: VerdictKind.CRASHES,
    FailureKind.ABORT: VerdictKind.CRASHES,
    FailureKind.TIMEOUT: VerdictKind.UNKNOWN,
    FailureKind.ENDED: VerdictKind.UNKNOWN,
    FailureKind.UNSUPPORTED: VerdictKind.UNSUPPORTED,
    FailureKind.UNAVAILABLE: VerdictKind.UNKNOWN,
}


def judge(outcome: Outcome, target: Target, config: Config) -> Verdict:
    """Judge one config by the checks that Triton makes, in Triton's order: the first that fails is the cause.

    ``CompiledKernel._init_handles`` (triton/compiler/compiler.py, 3.6 to 3.9) compares shared memory, then tensor memory,
    then loads the binary and compares the threads. A need that equals its limit fits.
    """
    del config  # a config's own numbers reach the compiler; nothing is judged from them here
    if isinstance(outcome, Unknown):
        return Verdict(VerdictKind.UNKNOWN, None, outcome.reason)
    if isinstance(outcome, Failure):
        return Verdict(_VERDICT_OF_FAILURE[outcome.kind], outcome.kind.value, outcome.message)
    if outcome.shared_memory and target.shared_memory_limit is None:
        return Verdict(
            VerdictKind.UNKNOWN,
            "shared memory",
            f"needs {outcome.shared_memory:,} B of shared memory per block, and no source gives the limit of {target.name}",
            need=outcome.shared_memory,
        )
    threads = _largest_block(outcome, target)
    checks = (
        ("shared memory", outcome.shared_memory, target.shared_memory_limit or 0, "B", "of shared memory per block"),
        ("tensor memory", outcome.tensor_memory, target.tensor_memory_limit, "columns", "of tensor memory"),
        ("threads", outcome.threads, threads, "threads", "per block"),
    )
    for cause, need, limit, unit, what in checks:
        if need > limit:
            message = (
                f"needs {need:,} {unit} {what}, {need - limit:,} {unit} over {target.name}'s limit of {limit:,} {unit}"
            )
            return Verdict(VerdictKind.PRUNED, cause, message, need, limit)
    return Verdict(VerdictKind.FITS, need=outcome.shared_memory, limit=target.shared_memory_limit)


def _largest_block(footprint: Footprint, target: Target) -> int:
    """Threads in the largest block that can be launched: what the driver says of the loaded function.

    With known registers that is what the register file admits (measured on an H200, see devices/nvidia.toml). Without, it
    is the target's maximum, since ``.reqntid`` makes ptxas keep to registers with which the asked block fits.
    """
    if not footprint.registers or target.backend != "cuda" or "regs_per_multiprocessor" not in target.facts:
        return target.max_threads_per_block
    return min(target.max_threads_per_block, warps_by_registers(footprint.registers, target) * target.warp_size)
