"""Which keyword arguments of a launch are options of Triton's backends rather than arguments of the kernel.

``JITFunction._pack_args`` (triton/runtime/jit.py, 3.4 to 3.9) raises ``KeyError`` for a keyword that is neither; no autotuner
catches it. The names are the fields of ``CUDAOptions`` and ``HIPOptions`` in triton/backends/*/compiler.py, 3.4 to 3.9.
"""

from __future__ import annotations

from collections.abc import Mapping

COMMON = frozenset(
    {
        *("num_warps", "num_stages", "num_ctas", "debug", "sanitize_overflow", "arch", "extern_libs", "backend_name"),
        *("supported_fp8_dtypes", "deprecated_fp8_dot_operand_dtypes", "default_dot_input_precision"),
        *("allowed_dot_input_precisions", "max_num_imprecise_acc_default", "enable_fp_fusion"),
        *("launch_cooperative_grid", "instrumentation_mode", "fpsan_homomorphic_casts", "ir_override", "warp_size"),
        *("grid", "warmup", "stream", "device"),
    }
)
"""Options of both backends, and arguments of the launch itself."""

ONLY: Mapping[str, frozenset[str]] = {
    "cuda": frozenset(
        {
            *("maxnreg", "ptx_version", "ptx_options", "sched4reg", "enable_reflect_ftz", "launch_pdl", "clc"),
            *("min_shared_mem", "cluster_dims", "num_buffers_warp_spec", "num_consumer_groups"),
            *("reg_dec_producer", "reg_inc_consumer"),
        }
    ),
    "hip": frozenset(
        {
            *("waves_per_eu", "matrix_instr_nonkdim", "kpack", "allow_flush_denorm", "schedule_hint"),
            *("llvm_fn_attrs", "wgp_cu_mode"),
        }
    ),
}
"""Options of one backend alone: a launch on the other raises ``KeyError``."""

KNOWN = COMMON | ONLY["cuda"] | ONLY["hip"]
BACKEND_NAMES = {"cuda": "NVIDIA", "hip": "AMD"}
