"""The nouns that travel between the stages: frozen dataclasses, nothing else.

Units: memory in bytes per block unless a name says otherwise, tensor memory in columns, registers per thread, lines and
columns 1-based. Paths are absolute, as strings, with forward slashes.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

# ---------------------------------------------------------------------------------------------------------- values


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a source file: where a value, a config or an assumption comes from."""

    path: str
    line: int
    column: int = 1


@dataclass(frozen=True, slots=True)
class Unknown:
    """An answer: what stands in the way of a value, in one clause without a full stop, and where."""

    reason: str
    position: Position | None = None


@dataclass(frozen=True, slots=True)
class Dtype:
    """A Triton element type, by Triton's short name (``fp16``, ``bf16``, ``fp8e4nv``, ``int1`` is ``i1``)."""

    name: str


@dataclass(frozen=True, slots=True)
class FunctionValue:
    """A ``@triton.jit`` function used as a value: an index into :attr:`Kernel.functions`, or only its name when recorded."""

    name: str
    index: int | None = None


@dataclass(frozen=True, slots=True)
class AttributeValue:
    """Something of Triton's own, by its dotted path (``triton.language.exp``); also modules (``triton.language``)."""

    path: str


@dataclass(frozen=True, slots=True)
class NamespaceValue:
    """A module or class of the analysed source that a kernel reads attributes of: only the attributes it reads."""

    name: str
    members: tuple[tuple[str, Value | Unknown], ...]


@dataclass(frozen=True, slots=True)
class ConstexprValue:
    """A value wrapped in ``tl.constexpr(…)``: the only kind of plain global that a kernel may read."""

    value: Value


Value: TypeAlias = "None | bool | int | float | str | tuple[Value, ...] | Dtype | FunctionValue | AttributeValue | NamespaceValue | ConstexprValue"
"""What a constexpr parameter or a kernel's global can hold. Immutable and hashable, so it can be part of a key."""

# --------------------------------------------------------------------------------------------------------- targets


@dataclass(frozen=True, slots=True)
class Target:
    """A device architecture and its limits, made from ``rules/devices/*.toml`` only.

    ``shared_memory_limit`` is what Triton compares ``metadata.shared`` with when it loads a kernel: the opt-in limit, in
    bytes per block; ``None`` when no source gives it. ``facts`` are what a program sees when it asks the representative
    device (``name``, ``multi_processor_count``, ``total_memory``, …): the evaluator answers from them.
    """

    name: str
    backend: str
    arch: int | str
    warp_size: int
    shared_memory_limit: int | None
    tensor_memory_limit: int
    max_threads_per_block: int
    max_registers_per_thread: int
    aliases: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict, compare=False)
    sources: tuple[str, ...] = field(default=(), compare=False)


# ---------------------------------------------------------------------------------------------------------- source


@dataclass(frozen=True, slots=True)
class Config:
    """One ``triton.Config``: the constexprs it sets and the compiler's options.

    ``options`` are options other than the four named ones (``waves_per_eu`` is a kwarg to Triton, so it is in ``kwargs``;
    ``ir_override`` is an option). ``omits_stages`` says that a launch leaves ``num_stages`` to the backend. Two configs are equal when Triton would treat them the same, wherever they stand.
    """

    kwargs: tuple[tuple[str, Value], ...] = ()
    num_warps: int = 4
    num_stages: int = 3
    num_ctas: int = 1
    maxnreg: int | None = None
    options: tuple[tuple[str, Value], ...] = ()
    has_pre_hook: bool = False
    position: Position | None = field(default=None, compare=False)
    omits_stages: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a kernel. ``annotation`` is canonical text (``constexpr``, ``*fp16``, ``i32``, empty without one)."""

    name: str
    annotation: str = ""
    is_constexpr: bool = False
    has_default: bool = False
    default: Value | Unknown = None
    do_not_specialize: bool = False
    do_not_specialize_on_alignment: bool = False


Binding: TypeAlias = "Value | Unknown"
"""What a name that a kernel reads stands for. A plain value is a global Triton refuses to read; it is kept so that Triton says so."""


@dataclass(frozen=True, slots=True)
class KernelFunction:
    """One function of a kernel's slice: the text of its ``def`` (no decorators) and what the names it reads stand for.

    ``line`` and ``column`` are where ``def`` stands, and ``source`` keeps the file's own indentation, so that what Triton
    compiles has the user's line numbers. ``globals_`` holds a binding for each name read, dotted reads of modules included
    as their first name.
    """

    name: str
    position: Position
    source: str
    parameters: tuple[Parameter, ...]
    globals_: tuple[tuple[str, Binding], ...]
    jit: str = "jit"  # "jit" or "constexpr_function"
    noinline: bool = False
    debug: bool | None = None


@dataclass(frozen=True, slots=True)
class Kernel:
    """What the compiler needs of a kernel and nothing else: its slice. ``functions[0]`` is the kernel itself.

    ``digest`` covers everything in the slice except absolute paths and line numbers, so that it survives a move.
    """

    functions: tuple[KernelFunction, ...]
    digest: str

    def __hash__(self) -> int:
        return hash(self.digest)  # a run asks for it some million times

    @property
    def entry(self) -> KernelFunction:
        return self.functions[0]


class SiteKind(enum.Enum):
    """How a kernel gets its configs: from an autotuner's list, or from the values of a fixed launch."""

    AUTOTUNE = "autotune"
    LAUNCH = "launch"


@dataclass(frozen=True, slots=True)
class Heuristic:
    """One entry of ``@triton.heuristics``: the parameter it sets and the evaluator's closure that computes it."""

    parameter: str
    function: Any = field(compare=False, default=None)
    position: Position | None = None


@dataclass(frozen=True, slots=True)
class TargetAnswer:
    """What the source says of a site on one target. ``notes`` are choices that were made for it (representative device, …)."""

    configs: tuple[Config, ...] | Unknown
    kernel: Kernel | Unknown
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Site:
    """A kernel together with one way of choosing its config.

    ``position`` is the ``def`` line, ``root`` the scanned path it was found under; ``answers`` is keyed by target name.
    """

    kernel_name: str
    position: Position
    root: str
    kind: SiteKind
    parameters: tuple[Parameter, ...]
    answers: Mapping[str, TargetAnswer]
    key: tuple[str, ...] | Unknown = ()
    reset_to_zero: tuple[str, ...] | Unknown = ()
    restore_value: tuple[str, ...] | Unknown = ()
    heuristics: tuple[Heuristic, ...] | Unknown = ()
    prune_configs_by: Any = field(default=None, compare=False)
    options: Mapping[str, Any] = field(default_factory=dict)
    decorator: Position | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that could not be read or analysed: one clear sentence and where. Becomes an SMC901 finding."""

    message: str
    position: Position


@dataclass(frozen=True, slots=True)
class Pin:
    """What the analysed project asks of Triton: a version specifier, and what is written for it at ``position``."""

    specifier: str
    written: str
    is_locked: bool
    position: Position


# ------------------------------------------------------------------------------------------------------ specialize


@dataclass(frozen=True, slots=True)
class Assumption:
    """A conclusion about one parameter, what it rests on, and where that stands.

    ``is_open``: nothing in the source settles it, so another value may be tried when the kernel does not compile with this one.
    """

    parameter: str
    value: str
    because: str
    position: Position | None = None
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Specialization:
    """The types and constants a kernel is compiled for.

    ``signature`` maps every parameter to Triton's type string (``*fp16``, ``i32``, ``constexpr``; tuples nest).
    ``constexprs`` holds values for parameters whose type is ``constexpr``, config values excepted.
    ``divisible_by_16`` names pointers and integers that are multiples of 16. ``environment`` holds variables that Triton
    reads while it compiles. ``config`` is set when a recorded line asks for one config only, ``recorded_line`` to that
    line's number, counted through all files of ``--specializations``: results then keep the order of the lines.
    ``unknown`` is set when a recorded line cannot be judged.
    """

    signature: tuple[tuple[str, Any], ...]
    constexprs: tuple[tuple[str, Value], ...] = ()
    divisible_by_16: frozenset[str] = frozenset()
    environment: tuple[tuple[str, str], ...] = ()
    assumptions: tuple[Assumption, ...] = field(default=(), compare=False)
    config: Config | None = None
    recorded_line: int | None = field(default=None, compare=False)
    unknown: Unknown | None = field(default=None, compare=False)
    launch_values: tuple[tuple[str, Value], ...] = ()  # numbers that the launch has, for heuristics; not compiled in
    targets: tuple[str, ...] = ()  # those on which the launch code leads to it; empty for all
    settled: tuple[tuple[str, Value], ...] = field(default=(), compare=False)  # what heuristics give in every config


# ----------------------------------------------------------------------------------------------------------- lower


@dataclass(frozen=True, slots=True)
class Job:
    """One question to the compiler. Its digest (``lower/jobs.py``) is the key under which the answer is kept."""

    kernel: Kernel
    specialization: Specialization
    config: Config
    target: Target
    registers: bool = False  # run to the binary, so that registers and spills are known


@dataclass(frozen=True, slots=True)
class Buffer:
    """One shared-memory allocation: the Python variable it was made for (empty when the compiler made it), where, bytes.

    ``size`` is 0 where the compiler does not say it (scratch space of a conversion or reduction that does not end the
    allocation). ``type`` is ``3x128x64xf16``, or the operation that the scratch space is for.
    """

    variable: str
    position: Position | None
    offset: int
    size: int
    type: str


@dataclass(frozen=True, slots=True)
class Footprint:
    """What the compiler says a kernel needs. Bytes per block, columns, threads per block; registers per thread.

    ``num_warps`` is the total after warp specialisation. ``registers`` and ``spill_bytes`` (local memory bytes per thread)
    are ``None`` unless the job asked for them; ``register_files`` then tells AMD's ``vgpr``, ``agpr``, ``sgpr`` and ``scratch``
    (bytes per thread) apart. ``registers_at_least`` is known without being asked for on NVIDIA's targets: registers per
    thread that hold the data at the kernel's fullest moment, whatever ptxas does (``lower/worker/registers.py`` says what is
    counted and what is not); ``None`` for AMD and for warp specialisation. Footprints with the same ``code_digest`` are of the
    same code; it is empty where that is not known. ``method`` is ``"allocation"`` (stopped after the shared-memory allocation)
    or ``"full"``.
    """

    shared_memory: int
    tensor_memory: int
    num_warps: int
    threads: int
    triton: str
    buffers: tuple[Buffer, ...] = ()
    registers: int | None = None
    spill_bytes: int | None = None
    register_files: tuple[tuple[str, int], ...] = ()
    method: str = "allocation"
    code_digest: str = ""
    cached: bool = field(default=False, compare=False)
    registers_at_least: int | None = None


class FailureKind(enum.Enum):
    """Why there is no footprint. The values are the ``cause`` strings of the report."""

    STATIC_ASSERTION = "static assertion"
    PTXAS = "ptxas"
    COMPILATION_ERROR = "compilation error"
    ABORT = "compiler abort"
    TIMEOUT = "timeout"
    ENDED = "worker ended"  # by our memory limit or from outside: it says nothing of a user's process
    UNSUPPORTED = "unsupported target"
    UNAVAILABLE = "triton unavailable"


@dataclass(frozen=True, slots=True)
class Failure:
    """The compiler's refusal: one sentence, and the user's line it points to when it does."""

    kind: FailureKind
    message: str
    triton: str
    position: Position | None = None
    exception: str = ""  # the exception's class name, for the rules
    cached: bool = field(default=False, compare=False)


Outcome: TypeAlias = "Footprint | Failure | Unknown"

# ----------------------------------------------------------------------------------------------------------- rules


class VerdictKind(enum.Enum):
    """What Triton's autotuner would do with a config on a target."""

    FITS = "fits"
    PRUNED = "pruned"
    CRASHES = "crashes"
    UNSUPPORTED = "unsupported"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement on one config. ``need`` and ``limit`` are in the unit of the cause (bytes, columns, threads)."""

    kind: VerdictKind
    cause: str | None = None
    message: str | None = None
    need: int | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """One row of the report: a config of a site under one specialisation on one target. Indices point into the report.

    ``triton`` names the Triton that was asked, empty where that is the report's.
    """

    site: int
    specialization: int | None
    target: str
    config: Config
    verdict: Verdict
    outcome: Outcome | None = None
    triton: str = ""


@dataclass(frozen=True, slots=True)
class OtherTriton:
    """What another interpreter's Triton says of the same rows: ``results`` are in the order of :attr:`Report.results`.

    ``name`` is its version, and the interpreter where that alone does not tell two apart.
    """

    name: str
    python: str
    results: tuple[Result, ...]


class Severity(enum.Enum):
    """Ordered: ``error`` is above ``warning`` is above ``note``."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"

    @property
    def rank(self) -> int:
        return {"error": 3, "warning": 2, "note": 1}[self.value]


@dataclass(frozen=True, slots=True)
class Finding:
    """What the user should see: a rule's code and name, a message, a place, and what it is about."""

    rule: str
    name: str
    severity: Severity
    message: str
    position: Position
    site: int | None = None
    specialization: int | None = None
    target: str | None = None
    config: Config | None = None


@dataclass(frozen=True, slots=True)
class SpecializedSite:
    """A specialisation and the index of the site it belongs to."""

    site: int
    specialization: Specialization


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that one run found, in the order of the source. ``roots`` are the scanned paths.

    ``unused_suppressions`` are comments in the source that silence nothing. ``others`` are further Tritons that were asked;
    verdicts and findings are those of ``triton``. ``pins`` say which Triton the analysed projects ask for.
    """

    smemcheck: str
    triton: str | None
    targets: tuple[Target, ...]
    sites: tuple[Site, ...]
    specializations: tuple[SpecializedSite, ...]
    results: tuple[Result, ...]
    findings: tuple[Finding, ...]
    problems: tuple[Problem, ...] = ()
    files: int = 0
    notes: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()
    unused_suppressions: tuple[Problem, ...] = ()
    others: tuple[OtherTriton, ...] = ()
    pins: tuple[Pin, ...] = ()
