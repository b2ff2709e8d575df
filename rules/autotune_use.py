"""SMC4xx: how an autotuner is used, judged from the source alone (SMC405 from the results)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from smemcheck.config import ParameterValues
from smemcheck.errors import did_you_mean
from smemcheck.model import Config, Kernel, Parameter, Severity, Site, SiteKind, Specialization, Unknown, VerdictKind
from smemcheck.rules.compiler_options import KNOWN
from smemcheck.rules.conditions import deciding, facts_of
from smemcheck.rules.engine import ConfigCase, Observation, SiteCase, each_config, rule, specializations_of
from smemcheck.rules.example import Example, copy_kernel, needs
from smemcheck.rules.kernel_effects import Effect, Kind, happens, may_change_its_input, read_effects
from smemcheck.rules.wording import config_text, place_text, value_text

_OVERWRITTEN = ("num_warps", "num_stages", "num_ctas", "maxnreg")
_LENGTH = re.compile(
    r"(?:^|_)(?:seq_?lens?|(?:q|k|kv|context|ctx)_len|n_ctx|(?:num|n|total)_tokens)(?:_[qkv]+)?$", re.IGNORECASE
)
_ROUNDED = re.compile(r"bucket|padded|max|next|pow|log|key|closest", re.IGNORECASE)
_DEPRECATED = ("warmup", "rep", "use_cuda_graph")


@rule(
    "SMC401",
    "names-no-argument",
    Severity.ERROR,
    SiteCase,
    invalid=[
        Example("a typo", copy_kernel('{"BLOCK": 64}', '{"BLOCK": 128}', decorator='key=["num"]')),
        Example(
            "a name of the launching function",
            copy_kernel('{"BLOCK": 64}', decorator='key=["n"], reset_to_zero=["out"]'),
        ),
    ],
    valid=[
        Example("an argument", copy_kernel('{"BLOCK": 64}', '{"BLOCK": 128}', decorator='key=["n"]')),
        Example("a constexpr is an argument too", copy_kernel('{"BLOCK": 64}', decorator='key=["BLOCK"]')),
    ],
)
def names_no_argument(case: SiteCase) -> Iterator[Observation]:
    """`key`, `reset_to_zero` or `restore_value` names something that is no argument of the kernel.

    From Triton 3.9 that is a `ValueError` when the module is imported. Before, a wrong name in `key` was dropped without
    a word: the kernel is tuned once and never again when that value changes.
    """
    names = [parameter.name for parameter in case.site.parameters]
    for option in ("key", "reset_to_zero", "restore_value"):
        given = getattr(case.site, option)
        for name in given if isinstance(given, tuple) and names else ():
            if name not in names:
                before = "drop it, so that it never re-tunes" if option == "key" else "fail at the first trial"
                yield Observation(
                    f"{option} names '{name}', which is no argument of {case.site.kernel_name}"
                    f"{did_you_mean(name, names) or '.'} Triton 3.9 raises ValueError, older ones {before}"
                )


@rule(
    "SMC402",
    "config-names-no-parameter",
    Severity.ERROR,
    SiteCase,
    invalid=[Example("a typo", copy_kernel('{"BLOCKS": 64}'))],
    valid=[
        Example("a parameter and an option of AMD's backend", copy_kernel('{"BLOCK": 64, "kpack": 2}'), target="gfx942")
    ],
)
def config_names_no_parameter(case: SiteCase) -> Iterator[Observation]:
    """A config sets a name that is neither a parameter of the kernel nor an option of Triton's compiler.

    The launch raises `KeyError`, which the autotuner does not catch.
    """
    names = {parameter.name for parameter in case.site.parameters}
    if not names:
        return

    def wrong(config: Config) -> str:
        unknown = [name for name, _ in config.kwargs if name not in names | KNOWN]
        if not unknown:
            return ""
        return (
            f"the config sets '{unknown[0]}', which is neither a parameter of {case.site.kernel_name} nor an option of the "
            f"compiler{did_you_mean(unknown[0], names) or '.'} The launch raises KeyError"
        )

    yield from each_config(case, wrong)


_WIDTHS = copy_kernel(
    '{"BLOCK": 64}', '{"BLOCK": 128}', decorator="key=[]", parameters="x_ptr, y_ptr, n, WIDTH: tl.constexpr"
)
_TWO_WIDTHS = {"bind": (ParameterValues("WIDTH", (64, 256)),)}
_ADDS = copy_kernel('{"BLOCK": 64}', '{"BLOCK": 128}').replace("tl.store(y_ptr", "tl.atomic_add(y_ptr")
_IN_PLACE = (
    copy_kernel('{"BLOCK": 64}', '{"BLOCK": 128}')
    .replace("tl.store(y_ptr", "tl.store(x_ptr")
    .replace(", mask=offsets < n), mask", ", mask=offsets < n) * 2, mask")
)


@rule(
    "SMC403",
    "trial-changes-data",
    Severity.WARNING,
    SiteCase,
    invalid=[
        Example("every trial adds to the sum again", _ADDS),
        Example("every trial doubles the values again", _IN_PLACE),
    ],
    valid=[
        Example(
            "the sum is reset before every trial", _ADDS.replace('key=["n"]', 'key=["n"], reset_to_zero=["y_ptr"]')
        ),
        Example("the values are restored", _IN_PLACE.replace('key=["n"]', 'key=["n"], restore_value=["x_ptr"]')),
        Example("one config needs no trial", _ADDS.replace('        triton.Config({"BLOCK": 128}),\n', "")),
    ],
)
def trial_changes_data(case: SiteCase) -> Iterator[Observation]:
    """The kernel adds atomically into an argument, or writes one that it reads, and every trial run does so again.

    The autotuner launches each config many times on the user's own tensors. `reset_to_zero` clears a sum before every
    run, `restore_value` brings the old contents back; a `pre_hook` can do either. Without, the first call of every new
    key returns wrong results.

    Only what the kernel's body certainly does is reported: accesses inside helpers, or under a constexpr that the configs
    do not set, are not.
    """
    guarded = _guarded_arguments(case.site)
    kernel, configs = _tuned(case.site)
    if guarded is None or kernel is None or len(configs) < 2 or not may_change_its_input(kernel):
        return
    done = read_effects(kernel)
    found = [effect for effect in done.accesses if effect.parameter not in guarded]
    certain = [effect for effect in found if any(happens(effect, dict(c.kwargs), done.static) for c in configs)]
    for parameter in dict.fromkeys(effect.parameter for effect in certain):
        message = _repeated(parameter, [effect for effect in certain if effect.parameter == parameter])
        if message and not any(_is_handshake(effect) for effect in found if effect.parameter == parameter):
            yield Observation(message)


def _tuned(site: Site) -> tuple[Kernel | None, tuple[Config, ...]]:
    """The kernel and its list on the first target that knows both."""
    for answer in site.answers.values():
        if site.kind is SiteKind.AUTOTUNE and isinstance(answer.kernel, Kernel) and isinstance(answer.configs, tuple):
            return answer.kernel, answer.configs
    return None, ()


def _guarded_arguments(site: Site) -> frozenset[str] | None:
    """The arguments that are reset or restored; ``None`` when a hook may do so or the names are unknown.

    A pruning function may put hooks into configs of its own making.
    """
    if (
        site.options.get("pre_hook")
        or site.prune_configs_by is not None
        or any(config.has_pre_hook for config in _configs(site))
    ):
        return None
    if isinstance(site.reset_to_zero, Unknown) or isinstance(site.restore_value, Unknown):
        return None
    return frozenset((*site.reset_to_zero, *site.restore_value))


def _is_handshake(effect: Effect) -> bool:
    """A counter or lock that the kernel itself sets back."""
    return effect.kind is Kind.SYNCHRONISE or effect.constant


def _repeated(parameter: str, accesses: list[Effect]) -> str:
    first = {kind: next((effect for effect in accesses if effect.kind is kind), None) for kind in Kind}
    added, read, written = first[Kind.ACCUMULATE], first[Kind.LOAD], first[Kind.STORE]
    if added is not None:
        return (
            f"every trial run does tl.{added.operation} into {parameter} again (line {added.position.line}): name it in "
            "reset_to_zero or restore_value"
        )
    if read is not None and written is not None and accesses.index(read) < accesses.index(written):
        return (
            f"every trial run reads {parameter} (line {read.position.line}) after the one before has written it "
            f"(line {written.position.line}): name it in restore_value"
        )
    return ""


@rule(
    "SMC404",
    "cache-has-no-effect",
    Severity.WARNING,
    SiteCase,
    invalid=[
        Example(
            "a hook in one config spoils the cache for all",
            copy_kernel(
                '{"BLOCK": 64}',
                '{"BLOCK": 128}, pre_hook=lambda nargs: nargs["y_ptr"].zero_()',
                decorator='key=["n"], cache_results=True',
            ),
        ),
        Example(
            "the variable that does the same for all kernels",
            copy_kernel('{"BLOCK": 64}', '{"BLOCK": 128}, pre_hook=print'),
            settings={"environment": (("TRITON_CACHE_AUTOTUNING", "1"),)},
        ),
    ],
    valid=[
        Example("no hooks", copy_kernel('{"BLOCK": 64}', '{"BLOCK": 128}', decorator='key=["n"], cache_results=True'))
    ],
)
def cache_has_no_effect(case: SiteCase) -> Iterator[Observation]:
    """`cache_results` or `TRITON_CACHE_AUTOTUNING` has no effect, because a config has a `pre_hook`.

    Triton cannot write a hook to disk, so it keeps no timings of a list that has one (`Autotuner.check_disk_cache`), and
    every process tunes anew.
    """
    asked = case.site.options.get("cache_results")
    if not asked:
        return
    name = asked if isinstance(asked, str) else "cache_results"
    for config in _configs(case.site):
        if config.has_pre_hook:
            yield Observation(
                f"{name} has no effect for {case.site.kernel_name}: {config_text(config)} has a pre_hook, and Triton "
                "keeps no timings of a list with hooks",
            )
            return


@rule(
    "SMC405",
    "key-misses-a-value",
    Severity.WARNING,
    ConfigCase,
    invalid=[
        Example(
            "a winner tuned for 64 is launched for 256 and raises",
            _WIDTHS,
            (needs(8_192), needs(65_536), needs(131_072), needs(262_144)),
            settings=_TWO_WIDTHS,
        )
    ],
    valid=[
        Example(
            "the value is part of the key",
            _WIDTHS.replace("key=[]", 'key=["WIDTH"]'),
            (needs(8_192), needs(65_536), needs(131_072), needs(262_144)),
            settings=_TWO_WIDTHS,
        ),
        Example(
            "every config fits for every value",
            _WIDTHS,
            (needs(8_192), needs(8_192), needs(65_536), needs(65_536)),
            settings=_TWO_WIDTHS,
        ),
    ],
)
def key_misses_a_value(case: ConfigCase) -> Iterator[Observation]:
    """Whether a config fits depends on a value that is not in `key`.

    The autotuner keeps one winner for all values of it. A winner that was found for a small one is launched for a large
    one without a trial, and raises `OutOfResources`. Element types of tensors are part of every key.

    Only certain cases are reported: every name in `key` must be a constexpr with the same value in all specialisations that
    were judged, since another argument could stand for the value.
    """
    key = case.site.key
    pruned = case.pruned_for("shared memory")
    fits = [result for result in case.results if result.verdict.kind is VerdictKind.FITS]
    if not case.benchmarked or isinstance(key, Unknown) or not pruned or not fits:
        return
    holding, failing = specializations_of(case.report, pruned), specializations_of(case.report, fits)
    facts = [facts_of(specialization) for specialization in (*holding, *failing)]
    constants = {name for s in holding for name, _ in s.constexprs}
    if any(name not in constants or len({f.get(name) for f in facts}) > 1 for name in key):
        return
    names = [name for name in deciding(holding, failing) if name in constants]
    if names:
        yield Observation(
            f"{config_text(case.config)} fits {case.target.name} or not depending on {names[0]}, which is not in key: as the "
            f"winner for {names[0]}={_values(failing, names[0])} it is launched for {_values(holding, names[0])} and raises "
            "OutOfResources",
            specialization=pruned[0].specialization,
        )


def _values(specializations: Sequence[Specialization], name: str) -> str:
    values = dict.fromkeys(value_text(dict(s.constexprs)[name]) for s in specializations if name in dict(s.constexprs))
    return " or ".join(values)


@rule(
    "SMC406",
    "key-changes-per-call",
    Severity.NOTE,
    SiteCase,
    invalid=[
        Example(
            "every sequence length is tuned for",
            copy_kernel('{"BLOCK": 64}', decorator='key=["seq_len"]', parameters="x_ptr, y_ptr, n, seq_len"),
        ),
        Example(
            "a scale is part of the key",
            copy_kernel('{"BLOCK": 64}', decorator='key=["scale"]', parameters="x_ptr, y_ptr, n, scale: tl.float32"),
        ),
    ],
    valid=[
        Example(
            "lengths are rounded to buckets",
            copy_kernel(
                '{"BLOCK": 64}', decorator='key=["seq_len_bucket"]', parameters="x_ptr, y_ptr, n, seq_len_bucket"
            ),
        ),
        Example(
            "a dimension of the model",
            copy_kernel('{"BLOCK": 64}', decorator='key=["hidden_size"]', parameters="x_ptr, y_ptr, n, hidden_size"),
        ),
    ],
)
def key_changes_per_call(case: SiteCase) -> Iterator[Observation]:
    """`key` names an argument that changes from call to call, so the kernel is tuned again and again.

    Each new value launches every config and waits for the GPU, which is illegal while a CUDA graph is captured. A length
    of a sequence or a number of tokens is taken for one by its name, unless the name says that it was rounded (`bucket`,
    `padded`, `max`); so is a float. Rounding such a value before it becomes part of the key bounds the tunings.
    """
    parameters = {parameter.name: parameter for parameter in case.site.parameters}
    for name in case.site.key if isinstance(case.site.key, tuple) else ():
        parameter = parameters.get(name)
        why = _changes_per_call(parameter) if parameter else ""
        if why:
            yield Observation(
                f"key names {name}, {why}: every new value of it tunes {case.site.kernel_name} again, and must not be met "
                "first while a CUDA graph is captured"
            )


@rule(
    "SMC407",
    "deprecated-benchmark-argument",
    Severity.WARNING,
    SiteCase,
    invalid=[
        Example(
            "repetitions in milliseconds",
            copy_kernel('{"BLOCK": 64}', '{"BLOCK": 128}', decorator='key=["n"], warmup=10, rep=20'),
        )
    ],
    valid=[
        Example(
            "a benchmark function",
            copy_kernel('{"BLOCK": 64}', decorator='key=["n"], do_bench=triton.testing.do_bench'),
        )
    ],
)
def deprecated_benchmark_argument(case: SiteCase) -> Iterator[Observation]:
    """`warmup`, `rep` and `use_cuda_graph` of `triton.autotune` are deprecated.

    Triton warns at import. `do_bench` takes a function that benchmarks, with whatever numbers it likes.
    """
    given = [name for name in _DEPRECATED if name in case.site.options]
    if "use_cuda_graph" in given and not case.site.options["use_cuda_graph"]:
        given.remove("use_cuda_graph")
    if given:
        verb = "is" if len(given) == 1 else "are"
        yield Observation(
            f"{' and '.join(given)} of triton.autotune {verb} deprecated; give do_bench a function instead"
        )


@rule(
    "SMC408",
    "option-inside-kwargs",
    Severity.WARNING,
    SiteCase,
    invalid=[Example("it runs with 4 warps", copy_kernel('{"BLOCK": 64, "num_warps": 8}'))],
    valid=[
        Example("an argument of Config", copy_kernel('{"BLOCK": 64}, num_warps=8')),
        Example(
            "a maxnreg in the dictionary stays, since Config has none of its own",
            copy_kernel('{"BLOCK": 64, "maxnreg": 128}', '{"BLOCK": 64}'),
        ),
    ],
)
def option_inside_kwargs(case: SiteCase) -> Iterator[Observation]:
    """`num_warps`, `num_stages`, `num_ctas` or `maxnreg` stands inside a config's dictionary and has no effect.

    `Config.all_kwargs` lays the config's own options over the dictionary, and those have defaults: 4 warps, 3 stages and
    1 CTA. Write `triton.Config({...}, num_warps=8)`.
    """

    def wrong(config: Config) -> str:
        inside = {name: value for name, value in config.kwargs if name in _OVERWRITTEN}
        if config.maxnreg is None:
            inside.pop("maxnreg", None)  # without one of its own, the config keeps the dictionary's
        lost = [f"{name}={value!r}" for name, value in inside.items() if value != getattr(config, name)]
        own = ", ".join(f"{name}={getattr(config, name)}" for name in inside)
        return f"{' and '.join(lost)} inside the config's dictionary has no effect: it runs with {own}" if lost else ""

    yield from each_config(case, wrong)


_GROWS = copy_kernel('{"BLOCK": 64}').replace(
    'configs=[\n        triton.Config({"BLOCK": 64}),\n    ]', "configs=CONFIGS"
)
_LIST = 'CONFIGS = [triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})]\n'
_MORE = 'CONFIGS += [triton.Config({"BLOCK": 256})]\n'


def _shared_list(before: str, after: str = "") -> str:
    return _GROWS.replace("\n\n\n@triton.autotune", f"\n\n{before}\n\n@triton.autotune") + after


@rule(
    "SMC409",
    "shared-list-changed",
    Severity.WARNING,
    SiteCase,
    invalid=[Example("the list grows after the kernel was given it", _shared_list(_LIST, f"\n\n{_MORE}"))],
    valid=[
        Example("it is complete before", _shared_list(_LIST + _MORE)),
        Example("a new list of the same name", _shared_list(_LIST, f"\n\n{_LIST}{_MORE}")),
    ],
)
def shared_list_changed(case: SiteCase) -> Iterator[Observation]:
    """The list of configs is changed in place by another module, or after the kernel was given it.

    An autotuner keeps the list itself, not a copy. When another module imports the list and does `CONFIGS += …`, every
    kernel that was given the list is tuned with the additions too, if that module happens to be imported before the first
    launch. `CONFIGS + […]` makes a new list instead.
    """
    options = case.site.options
    name = options.get("list_name")
    for position in options.get("changed_elsewhere", ()):
        yield Observation(
            f"{name}, the list of configs of {case.site.kernel_name}, is changed in place by another module "
            f"({place_text(position.path, position.line)}): whether that is imported decides which configs are tried"
        )
    for position in options.get("changed_later", ()):
        yield Observation(
            f"{name}, the list of configs of {case.site.kernel_name}, is changed in place afterwards (line {position.line}): "
            "the autotuner keeps the list itself, so the change counts for this kernel too, and is not judged here"
        )


def _changes_per_call(parameter: Parameter) -> str:
    if parameter.annotation in {"fp16", "bf16", "fp32", "fp64", "float"}:
        return "a float"
    if _LENGTH.search(parameter.name) and not _ROUNDED.search(parameter.name):
        return "by its name a length that differs between calls"
    return ""


def _configs(site: Site) -> Iterator[Config]:
    if site.kind is SiteKind.AUTOTUNE:
        for answer in site.answers.values():
            yield from answer.configs if isinstance(answer.configs, tuple) else ()
