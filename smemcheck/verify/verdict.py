"""Which config did the autotuner choose, and why? Conclusions from what lies on disk, each with what it rests on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from smemcheck.model import Config, Site, Target, Unknown, Verdict, VerdictKind
from smemcheck.rules.wording import config_text, settings_of
from smemcheck.verify.mlir import Argument
from smemcheck.verify.triton_cache import Cache, Decision, Timing, Variant, same_kernel

LowerAgain = Callable[[Site, Sequence[Variant], Sequence[Config]], Mapping[Config, Verdict]]
"""Lowers configs of a site for the arguments and the target of the variants; what cannot be judged is left out."""

_TENSOR_MEMORY_COLUMNS = 512  # CompiledKernel._init_handles (triton/compiler/compiler.py, 3.4 to 3.9)


@dataclass(frozen=True, slots=True)
class ConfigVerdict:
    """A config of a decision. ``why`` says why it was pruned, ``None`` for one that ran; bytes where they are known."""

    timing: Timing
    cause: str | None = None
    why: str | None = None
    shared_memory: int | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class DecisionVerdict:
    """One decision. ``names`` are those of the key's values; ``current`` is whether it is one of the list in the source."""

    decision: Decision
    configs: tuple[ConfigVerdict, ...]
    names: tuple[str, ...]
    current: bool | None


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason why there is no decision on disk: whether it holds (``None``: cannot be checked), and what was looked at."""

    what: str
    holds: bool | None
    evidence: str


@dataclass(frozen=True, slots=True)
class Elimination:
    """The variants compiled for the same arguments on one architecture: those that can be loaded, and why others cannot."""

    target: str
    arguments: tuple[Argument, ...] | None
    left: tuple[Variant, ...]
    out: tuple[tuple[Variant, str], ...]

    @property
    def conclusion(self) -> str:
        if not self.left:
            return "no compiled variant can be loaded: the launch raises OutOfResources"
        if len(self.left) > 1:
            return f"{len(self.left)} compiled variants can be loaded: any of them may have won"
        if self.out:
            return "the winner is the only compiled variant that can be loaded"
        return "the only compiled variant, and it can be loaded"


@dataclass(frozen=True, slots=True)
class KernelVerdict:
    """Everything that is known of one kernel. ``reasons`` and ``eliminations`` are empty where a decision was found."""

    kernel: str
    site: Site | None
    decisions: tuple[DecisionVerdict, ...]
    reasons: tuple[Reason, ...]
    eliminations: tuple[Elimination, ...]
    retunes: tuple[str, ...]


def judge_kernel(
    kernel: str,
    site: Site | None,
    cache: Cache,
    others: Sequence[Cache],
    targets: Mapping[str, Target],
    environment: Mapping[str, str],
    lower_again: LowerAgain | None = None,
) -> KernelVerdict:
    """The verdict on one kernel. ``others`` are further folders that were read, to tell where its files lie instead."""
    variants = tuple(variant for variant in cache.variants if same_kernel(variant.kernel, kernel))
    decisions = tuple(
        _decision(decision, site, variants, targets, lower_again)
        for decision in cache.decisions
        if same_kernel(decision.kernel, kernel)
    )
    found = any(decision.current is not False for decision in decisions)
    return KernelVerdict(
        kernel,
        site,
        decisions,
        () if found else reasons(kernel, site, cache, others, decisions, environment),
        () if found else eliminate(variants, targets),
        retunes(site, decisions),
    )


# ------------------------------------------------------------------------------------------------------- decisions


def _decision(
    decision: Decision,
    site: Site | None,
    variants: Sequence[Variant],
    targets: Mapping[str, Target],
    lower_again: LowerAgain | None,
) -> DecisionVerdict:
    current = _is_current(decision, site)
    rows = [_compiled(timing, variants, targets) for timing in decision.timings]
    open_ = [row.timing.config for row in rows if row.timing.pruned and row.cause is None]
    if open_ and site is not None and current and lower_again is not None:
        again = lower_again(site, variants, open_)
        rows = [_lowered(row, again) for row in rows]
    return DecisionVerdict(decision, tuple(rows), _key_names(decision, site), current)


def _is_current(decision: Decision, site: Site | None) -> bool | None:
    """Whether each of its configs is one of the site's list; a pruner may have left some of the list out."""
    known = site_configs(site)
    if not known:
        return None
    listed = [settings_of(config) for config in known]
    return all(settings_of(timing.config) in listed for timing in decision.timings)


def site_configs(site: Site | None) -> tuple[Config, ...]:
    """Every config that the source lists, on whatever target; empty when that is not known."""
    if site is None:
        return ()
    lists = [answer.configs for answer in site.answers.values()]
    return tuple(dict.fromkeys(config for configs in lists if isinstance(configs, tuple) for config in configs))


def _compiled(timing: Timing, variants: Sequence[Variant], targets: Mapping[str, Target]) -> ConfigVerdict:
    """Why a config was pruned, as far as the compiled variants tell.

    A variant does not name its config. Those with the config's options are narrowed to those whose tensors have the sizes
    that the config sets; what is said holds for all that remain.
    """
    if not timing.pruned:
        return ConfigVerdict(timing)
    alike = [variant for variant in variants if _has_options(variant, timing.config)]
    tiles = {value for _, value in timing.config.kwargs if isinstance(value, int) and _is_tile_size(value)}
    fitting = [variant for variant in alike if tiles <= variant.tile_sizes]
    candidates, matched = (fitting, "its options and tile sizes") if fitting else (alike, "its options")
    judged = [(variant, limit_exceeded(variant, targets)) for variant in candidates]
    if judged and all(over for _, over in judged):
        needs = sorted({variant.shared_memory for variant, _ in judged})
        causes = {over[0] for _, over in judged if over}
        limits = {over[2] for _, over in judged if over}
        return ConfigVerdict(
            timing,
            causes.pop() if len(causes) == 1 else "out of resources",
            f"the compiled variant with {matched} {' or '.join(sorted({over[1] for _, over in judged if over}))}",
            needs[0] if len(needs) == 1 else None,
            limits.pop() if len(limits) == 1 else None,
        )
    if not alike:
        why = (
            "not known: no variant with its options is in the cache, so its compilation failed or the cache was cleared"
        )
    else:
        why = f"not known: a compiled variant with {matched} can be loaded"
    return ConfigVerdict(timing, None, why)


def _is_tile_size(value: int) -> bool:
    """Whether a config's number is likely the extent of a tensor: those are powers of two (``tl.arange``)."""
    return value >= 16 and value & (value - 1) == 0


def _has_options(variant: Variant, config: Config) -> bool:
    """Whether the variant was compiled with the config's options, before warps were specialised."""
    return (
        variant.asked_warps == config.num_warps
        and variant.num_stages == config.num_stages
        and variant.num_ctas == config.num_ctas
        and variant.maxnreg == config.maxnreg
    )


def _lowered(row: ConfigVerdict, again: Mapping[Config, Verdict]) -> ConfigVerdict:
    verdict = again.get(row.timing.config)
    if not row.timing.pruned or row.cause is not None or verdict is None:
        return row
    if verdict.kind is VerdictKind.PRUNED:
        limit = verdict.limit if verdict.cause == "shared memory" else None
        need = verdict.need if verdict.cause == "shared memory" else None
        return ConfigVerdict(row.timing, verdict.cause, f"lowered again, it {_clause(verdict)}", need, limit)
    return ConfigVerdict(row.timing, None, f"{row.why}; lowered again, its verdict is {verdict.kind.value}")


def _clause(verdict: Verdict) -> str:
    text = verdict.message or "is pruned"
    return text if verdict.need is not None else f"fails: {text}"


def limit_exceeded(variant: Variant, targets: Mapping[str, Target]) -> tuple[str, str, int] | None:
    """(cause, clause, limit) of the first of Triton's load checks that a compiled variant fails; ``None`` if none is known.

    Registers are not checked: how many a variant takes is known to the driver that loads it.
    """
    target = targets.get(target_name(variant))
    if target is None:
        return None
    limit = target.shared_memory_limit
    if limit is not None and variant.shared_memory > limit:
        need = variant.shared_memory
        text = f"needs {need:,} B of shared memory, {need - limit:,} B over the limit of {limit:,} B on {target.name}"
        return "shared memory", text, limit
    if variant.tensor_memory > _TENSOR_MEMORY_COLUMNS:
        text = f"needs {variant.tensor_memory} columns of tensor memory, and there are {_TENSOR_MEMORY_COLUMNS}"
        return "tensor memory", text, _TENSOR_MEMORY_COLUMNS
    threads = variant.num_warps * variant.warp_size
    if threads > target.max_threads_per_block:
        text = f"has {threads:,} threads, over the {target.max_threads_per_block:,} that a block may have"
        return "threads", text, target.max_threads_per_block
    return None


def target_name(variant: Variant) -> str:
    """The name of the variant's target in the device tables: ``sm_90``, ``gfx942``."""
    return f"sm_{variant.arch}" if variant.backend == "cuda" else str(variant.arch)


def _key_names(decision: Decision, site: Site | None) -> tuple[str, ...]:
    """A name for each value of the key: parameters as far as the source tells, ``dtype`` for the tensors' dtypes."""
    values = [value for value in decision.key if not _is_dtype(value)]
    known = site.key if site is not None and isinstance(site.key, tuple) and len(site.key) == len(values) else None
    plain = iter(known or [f"key {number}" for number in range(1, len(values) + 1)])
    return tuple("dtype" if _is_dtype(value) else next(plain) for value in decision.key)


def _is_dtype(value: object) -> bool:
    return isinstance(value, str) and value.startswith("torch.")


# --------------------------------------------------------------------------------------------------------- reasons


def reasons(
    kernel: str,
    site: Site | None,
    cache: Cache,
    others: Sequence[Cache],
    decisions: Sequence[DecisionVerdict],
    environment: Mapping[str, str],
) -> tuple[Reason, ...]:
    """Why there is no decision of this kernel's current list in the cache: every reason that Triton has, each checked.

    ``Autotuner.run`` and ``check_disk_cache`` (triton/runtime/autotuner.py, 3.4 to 3.9): nothing is written unless
    ``cache_results`` or TRITON_CACHE_AUTOTUNING asks for it, for a list of one config, when a config has a ``pre_hook``,
    or when the key is empty.
    """
    return (
        _caching_is_off(site, environment),
        _has_pre_hook(site),
        _one_config(site),
        _empty_key(site),
        _elsewhere(kernel, cache, others),
        _other_version(decisions),
    )


def _caching_is_off(site: Site | None, environment: Mapping[str, str]) -> Reason:
    what = "caching of results is not enabled"
    if _is_set(environment, "TRITON_CACHE_AUTOTUNING"):
        return Reason(what, False, "TRITON_CACHE_AUTOTUNING is set in this environment")
    if _is_set(environment, "TRITON_INTERPRET"):
        return Reason(what, True, "TRITON_INTERPRET is set in this environment, and then nothing is tuned or kept")
    if site is None:
        return Reason(what, None, "TRITON_CACHE_AUTOTUNING is not set in this environment; name the kernel's PATH")
    if site.options.get("cache_results"):
        return Reason(what, False, "the decorator has cache_results=True")
    return Reason(what, True, "the decorator has no cache_results=True, and TRITON_CACHE_AUTOTUNING is not set here")


def _is_set(environment: Mapping[str, str], name: str) -> bool:
    """A boolean variable as triton/knobs.py reads it (``env_bool``)."""
    return environment.get(name, "").lower() in {"1", "true", "yes", "on", "y"}


_NEEDS_PATH = "not checked: name the kernel's PATH"


def _has_pre_hook(site: Site | None) -> Reason:
    what = "a config has a pre_hook, which cannot be written to a file"
    configs = site_configs(site)
    if not configs:
        return Reason(what, None, _unreadable(site))
    hooked = [config for config in configs if config.has_pre_hook]
    if hooked:
        return Reason(what, True, f"{len(hooked)} of {len(configs)} configs: {config_text(hooked[0])}")
    return Reason(what, False, f"none of {len(configs)} configs has one")


def _one_config(site: Site | None) -> Reason:
    what = "the list has one config, which is never benchmarked"
    configs = site_configs(site)
    if not configs:
        return Reason(what, None, _unreadable(site))
    return Reason(what, len(configs) == 1, f"the list has {len(configs)}")


def _empty_key(site: Site | None) -> Reason:
    what = "the key is empty: no key= and no tensor argument"
    if site is None:
        return Reason(what, None, _NEEDS_PATH)
    if isinstance(site.key, Unknown):
        return Reason(what, None, f"the key is not known: {site.key.reason}")
    if site.key:
        return Reason(what, False, f"the key is {', '.join(site.key)}")
    return Reason(what, None, "there is no key=; whether a tensor is passed is known at the launch")


def _elsewhere(kernel: str, cache: Cache, others: Sequence[Cache]) -> Reason:
    what = "the cache lies elsewhere or was cleared"
    own = sum(same_kernel(variant.kernel, kernel) for variant in cache.variants)
    if own:
        return Reason(what, False, f"{own} compiled variants of the kernel lie in {cache.folder.path}")
    holding = [
        other.folder
        for other in others
        if any(same_kernel(variant.kernel, kernel) for variant in other.variants)
        or any(same_kernel(decision.kernel, kernel) for decision in other.decisions)
    ]
    if holding:
        listed = ", ".join(f"{folder.path} ({folder.purpose}, {folder.chosen_by})" for folder in holding)
        return Reason(what, True, f"nothing of the kernel lies in {cache.folder.path}, but in {listed}")
    missing = "there is no such folder" if not cache.folder.exists else "nothing of the kernel lies in it"
    return Reason(what, True, f"{cache.folder.path} ({cache.folder.chosen_by}): {missing}")


def _other_version(decisions: Sequence[DecisionVerdict]) -> Reason:
    what = "the file belongs to another version of the kernel"
    stale = [decision for decision in decisions if decision.current is False]
    if stale:
        return Reason(what, True, f"{len(stale)} decisions of this name hold configs that the list does not have")
    return Reason(what, False, "there is no decision of this name at all")


def _unreadable(site: Site | None) -> str:
    if site is None:
        return _NEEDS_PATH
    unknown = [answer.configs for answer in site.answers.values() if isinstance(answer.configs, Unknown)]
    return f"the list is not known: {unknown[0].reason}" if unknown else "the list is empty"


# ----------------------------------------------------------------------------------------------------- elimination


def eliminate(variants: Sequence[Variant], targets: Mapping[str, Target]) -> tuple[Elimination, ...]:
    """The variants by architecture and arguments: each group is what one launch of the kernel may have tried."""
    groups: dict[tuple[str, tuple[Argument, ...] | None], list[Variant]] = {}
    for variant in variants:
        groups.setdefault((target_name(variant), variant.arguments), []).append(variant)
    found = []
    for (target, arguments), members in groups.items():
        judged = [(variant, limit_exceeded(variant, targets)) for variant in members]
        left = tuple(variant for variant, over in judged if over is None)
        out = tuple((variant, over[1]) for variant, over in judged if over is not None)
        found.append(Elimination(target, arguments, left, out))
    return tuple(found)


def retunes(site: Site | None, decisions: Sequence[DecisionVerdict]) -> tuple[str, ...]:
    """What makes Triton tune again, and what that means for CUDA graphs."""
    if site is not None and isinstance(site.key, tuple):
        arguments = f"a new value of {', '.join(site.key)}" if site.key else "nothing but dtypes (there is no key=)"
    elif decisions:
        count = max(sum(name != "dtype" for name in decision.names) for decision in decisions)
        arguments = (
            f"a new value of an argument in key= (up to {count} here)"
            if count
            else "nothing but dtypes (there is no key=)"
        )
    else:
        arguments = "a new value of an argument in key="
    again = (
        f"Tunes again for: {arguments}; a tensor argument of another dtype; a change of the kernel's source, its configs, "
        "Triton's version or the GPU's architecture."
    )
    capture = (
        "The first launch with a new key compiles, launches and synchronises for every config, which is illegal while a CUDA "
        "graph is captured: call the kernel once with each key before the capture begins."
    )
    return again, capture
