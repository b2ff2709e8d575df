"""Which specialisations a site is judged under, and what each of them assumes."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from smemcheck.config import ParameterValues, Scalar, Settings
from smemcheck.errors import did_you_mean
from smemcheck.model import Assumption, Kernel, Parameter, Site, Specialization, Unknown
from smemcheck.source.values import UserFunction
from smemcheck.specialize.bind import Evaluates, without_value
from smemcheck.specialize.comments import values_in_comments
from smemcheck.specialize.descriptors import with_hook_shapes
from smemcheck.specialize.dtypes import is_integer, value_text
from smemcheck.specialize.given import Argument, argument_given, argument_of_type, argument_of_value
from smemcheck.specialize.kinds import KernelUse, Kind, ParameterKind, parameter_kinds
from smemcheck.specialize.launches import Proposal, proposals_of
from smemcheck.specialize.launches.guesses import INNERMOST, innermost_strides
from smemcheck.specialize.recorded import Recorded, RecordedSpecializations


def specialize(
    site: Site, project: Evaluates, settings: Settings, recorded: Sequence[RecordedSpecializations]
) -> tuple[Specialization | Unknown, ...]:
    """The specialisations of ``site``: recorded ones, else what ``--bind`` and pyproject.toml say, the rest inferred.

    Values that are lists are swept together, at most ``settings.max_specializations``. Nothing is returned for a site
    without a recorded line when recorded lines name configs, because then those lines are all that is asked.
    """
    return tuple(_sharing(_specialized(site, project, settings, recorded)))


def _sharing(answers: Sequence[Specialization | Unknown]) -> Iterator[Specialization | Unknown]:
    """The same with equal assumptions as one object: a kernel's specialisations agree on most of their parameters."""
    shared: dict[Assumption, Assumption] = {}
    for answer in answers:
        if isinstance(answer, Unknown):
            yield answer
        else:
            yield replace(answer, assumptions=tuple(shared.setdefault(one, one) for one in answer.assumptions))


def _specialized(
    site: Site, project: Evaluates, settings: Settings, recorded: Sequence[RecordedSpecializations]
) -> tuple[Specialization | Unknown, ...]:
    lines = _recorded_lines(site, recorded)
    comments = values_in_comments(site, project)
    if isinstance(comments, Unknown):
        return (comments,)
    if not lines and any(file.names_configs for file in recorded):
        return ()
    of_lines = tuple(_of_line(site, number, entry) for number, entry in lines)
    if lines and not settings.bind and not comments:
        return of_lines
    kernel = next((answer.kernel for answer in site.answers.values() if isinstance(answer.kernel, Kernel)), None)
    if kernel is None:
        reasons = [answer.kernel for answer in site.answers.values() if isinstance(answer.kernel, Unknown)]
        return of_lines or (reasons[0] if reasons else Unknown("it has no definition on any target", site.position),)
    try:
        use = with_hook_shapes(parameter_kinds(kernel), site, project)
    except (SyntaxError, RecursionError) as error:
        return (Unknown(f"the kernel's body cannot be read: {error}", site.position),)
    bound = [_Given(comments, "a comment at the kernel"), _Given(settings.bind, "--bind")]
    if lines:
        return tuple(one for answer in of_lines for one in _override(site, use, answer, bound, settings))
    tables = [table for table in settings.kernels if table.applies_to(site.kernel_name, site.position.path)]
    given = [*(_Given(table.parameters, "pyproject.toml") for table in tables), *bound]
    groups = proposals_of(site, use, project, settings, _set_elsewhere(site))
    if len(groups) == 1:
        return tuple(_inferred(site, use, given, groups[0][1], settings))
    return _by_target(site, [(targets, _inferred(site, use, given, one, settings)) for targets, one in groups])


def _by_target(
    site: Site, groups: Sequence[tuple[tuple[str, ...], Iterator[Specialization | Unknown]]]
) -> tuple[Specialization | Unknown, ...]:
    """The specialisations of all groups of targets, each once, with the targets that it is for."""
    found: dict[Specialization | Unknown, list[str]] = {}
    for targets, answers in groups:
        for answer in answers:
            found.setdefault(answer, []).extend(targets)
    return tuple(
        answer
        if isinstance(answer, Unknown) or len(targets) == len(site.answers)
        else replace(answer, targets=tuple(targets))
        for answer, targets in found.items()
    )


@dataclass(frozen=True, slots=True)
class _Given:
    """Values that the user gave, and where."""

    parameters: Sequence[ParameterValues]
    where: str


def _recorded_lines(site: Site, recorded: Sequence[RecordedSpecializations]) -> list[tuple[int, Recorded]]:
    """The recorded lines of a site with their numbers, counted through all files."""
    found: list[tuple[int, Recorded]] = []
    before = 0
    for file in recorded:
        found.extend((before + entry.line, entry) for entry in file.matching(site))
        before += file.lines
    return found


# ------------------------------------------------------------------------------------------------------------- recorded


def _of_line(site: Site, number: int, entry: Recorded) -> Specialization:
    """What a recorded line says; unknown unless it is about this kernel's parameters and holds all values."""
    unknown = None
    names = [parameter.name for parameter in site.parameters]
    strange = next((name for name, _ in entry.specialization.signature if name not in names), None)
    if entry.unknown:
        name, reason = entry.unknown[0]
        unknown = without_value(site, [name], {name: replace(reason, position=site.position)})
    elif strange is not None and names:
        unknown = Unknown(
            f"the recorded specialisation of line {entry.line} names '{strange}', which is no parameter of "
            f"{site.kernel_name}; record it again",
            site.position,
        )
    return replace(entry.specialization, recorded_line=number, unknown=unknown)


def _override(
    site: Site, use: KernelUse, answer: Specialization, bound: Sequence[_Given], settings: Settings
) -> Iterator[Specialization | Unknown]:
    """A recorded specialisation with what ``--bind`` says put over it."""
    if answer.unknown is not None:
        yield answer
        return
    for arguments, assumptions in _combinations(site, use, bound, settings):
        yield arguments if isinstance(arguments, Unknown) else _put(answer, arguments, assumptions)


# ------------------------------------------------------------------------------------------------------------- inferred


def _inferred(
    site: Site, use: KernelUse, given: Sequence[_Given], proposals: Sequence[Proposal], settings: Settings
) -> Iterator[Specialization | Unknown]:
    """What the user gave, for the rest what the launches say, and for what they leave open what the kernel's body says."""
    names = [parameter.name for parameter in site.parameters]
    for table in given:
        strange = next((one.parameter for one in table.parameters if one.parameter not in names), None)
        if strange is not None and table.where != "--bind":
            yield Unknown(
                f"{table.where} gives a value for '{strange}', which is no parameter of {site.kernel_name}"
                f"{did_you_mean(strange, names)}",
                site.position,
            )
            return
    kinds = {kind.parameter: kind for kind in use.kinds}
    set_elsewhere = _set_elsewhere(site)
    combinations = list(_combinations(site, use, given, settings))
    merged = list(_with_launches(combinations, proposals))
    left_out = _left_out(len(merged), settings) if proposals else []
    for arguments, assumptions, proposal in merged[: settings.max_specializations]:
        if isinstance(arguments, Unknown):
            yield arguments
            continue
        missing = [
            parameter.name
            for parameter in site.parameters
            if parameter.is_constexpr and parameter.name not in arguments and parameter.name not in set_elsewhere
        ]
        tuples = [k for k in use.kinds if k.kind is Kind.TUPLE and k.parameter not in arguments]
        if missing:
            yield without_value(site, missing, _default_reasons(site))
        elif tuples:
            yield Unknown(
                f"{tuples[0].parameter} is indexed, so it is a tuple, and the kernel does not say of what; "
                "give a recorded specialisation (--specializations)",
                tuples[0].position,
            )
        else:
            built = _build(site, kinds, _with_defaults(site, arguments), [*assumptions, *left_out])
            numbers = () if proposal is None else tuple((n, v) for n, v in proposal.numbers if n in arguments)
            built = replace(built, config=proposal.config if proposal else None, launch_values=numbers)
            yield _with_numbers(site, built)


def _with_numbers(site: Site, specialization: Specialization) -> Specialization:
    """The specialisation with a number for each integer that a heuristic reads and no launch gives one."""
    if isinstance(site.heuristics, Unknown):
        return specialization
    known = {name for name, _ in specialization.launch_values}
    texts = [one.function.text() for one in site.heuristics if isinstance(one.function, UserFunction)]
    read = {name for text in texts for name in re.findall(r"['\"](\w+)['\"]", text)} - known
    open_ = {
        assumption.parameter
        for assumption in specialization.assumptions
        if assumption.is_open and assumption.parameter in read and is_integer(assumption.value)
    }
    return replace(
        specialization,
        launch_values=(*specialization.launch_values, *((name, _LARGE) for name in sorted(open_))),
        assumptions=tuple(
            replace(one, because=f"{one.because}; heuristics see {_LARGE}") if one.parameter in open_ else one
            for one in specialization.assumptions
        ),
    )


_LARGE = 4096  # a multiple of every block


def _left_out(total: int, settings: Settings) -> list[Assumption]:
    """That there are more ways to launch the kernel than are judged."""
    if total <= settings.max_specializations:
        return []
    left = f"{total - settings.max_specializations} of {total} ways to launch it left out"
    return [Assumption("*", left, f"max-specializations is {settings.max_specializations}")]


def _with_launches(
    combinations: Sequence[tuple[dict[str, Argument] | Unknown, list[Assumption]]], proposals: Sequence[Proposal]
) -> Iterator[tuple[dict[str, Argument] | Unknown, list[Assumption], Proposal | None]]:
    """Each launch under each combination of the values that were given; without launches the combinations alone."""
    if not proposals:
        yield from ((arguments, assumptions, None) for arguments, assumptions in combinations)
        return
    yield from ((one, assumptions, None) for one, assumptions in combinations if isinstance(one, Unknown))
    seen = set()
    for proposal in proposals:
        for arguments, assumptions in combinations:
            if isinstance(arguments, Unknown):
                continue
            merged = {**proposal.arguments, **arguments}
            values = sorted((n, str(a.type), repr(a.value), a.divisible) for n, a in merged.items())
            key = (tuple(values), proposal.config)
            if key not in seen:
                seen.add(key)
                kept = [assumption for assumption in proposal.assumptions if assumption.parameter not in arguments]
                yield merged, [*kept, *assumptions], proposal


def _set_elsewhere(site: Site) -> set[str]:
    """Constexprs that get a value when a config is bound: from the config, a heuristic or their default."""
    defaults = {p.name for p in site.parameters if p.has_default and not isinstance(p.default, Unknown)}
    return _set_by_config(site) | defaults


def _with_defaults(site: Site, arguments: dict[str, Argument]) -> dict[str, Argument]:
    """The arguments with the default of every constexpr that neither they nor any config or heuristic gives."""
    later = _set_by_config(site)
    defaults = {
        p.name: argument_of_value(p.default, p)
        for p in site.parameters
        if p.is_constexpr and p.has_default and not isinstance(p.default, Unknown) and p.name not in later
    }
    return {**defaults, **arguments}


def _set_by_config(site: Site) -> set[str]:
    """Parameters that get a value from a config or a heuristic."""
    names = {"num_warps", "num_stages", "num_ctas"}
    lists = [answer.configs for answer in site.answers.values() if not isinstance(answer.configs, Unknown)]
    if lists:
        names |= {name for configs in lists for config in configs for name, _ in config.kwargs}
    else:
        names |= {parameter.name for parameter in site.parameters}  # nothing is lowered without a list
    if not isinstance(site.heuristics, Unknown):
        names |= {heuristic.parameter for heuristic in site.heuristics}
    return names


def _default_reasons(site: Site) -> dict[str, Unknown]:
    return {p.name: p.default for p in site.parameters if p.has_default and isinstance(p.default, Unknown)}


def _build(
    site: Site, kinds: Mapping[str, ParameterKind], given: Mapping[str, Argument], assumptions: Sequence[Assumption]
) -> Specialization:
    arguments: dict[str, Argument] = {}
    unit_strides = innermost_strides(site)
    assumed = {assumption.parameter: assumption for assumption in assumptions}
    for parameter in site.parameters:
        name = parameter.name
        kind = kinds[name]
        if name in given:
            arguments[name] = given[name]
        elif kind.kind is Kind.CONSTEXPR:
            arguments[name] = Argument("constexpr")
        elif name in unit_strides and kind.kind is Kind.INTEGER and not parameter.do_not_specialize:
            arguments[name] = argument_of_value(1, parameter)
            assumed[name] = Assumption(name, "1", INNERMOST, kind.position)
        else:
            arguments[name] = argument_of_type(kind.type, parameter)
            assumed[name] = _assumption(kind, arguments[name])
    values = {
        name: argument.value
        for name, argument in arguments.items()
        if argument.type == "constexpr" and (name in given or argument.value is not None)
    }
    return Specialization(
        signature=tuple((name, argument.type) for name, argument in arguments.items()),
        constexprs=tuple(values.items()),
        divisible_by_16=frozenset(name for name, argument in arguments.items() if argument.divisible),
        assumptions=(
            *(assumed[name] for name in arguments if name in assumed),
            *(assumption for assumption in assumptions if assumption.parameter not in arguments),
        ),
    )


def _assumption(kind: ParameterKind, argument: Argument) -> Assumption:
    because = kind.because
    if argument.divisible and kind.kind is Kind.POINTER:
        because += "; aligned to 16 bytes, as torch allocates"
    elif argument.divisible:
        because += "; taken for a multiple of 16, as sizes and strides mostly are"
    return Assumption(kind.parameter, argument.type, because, kind.position, is_open=not kind.is_settled)


# ---------------------------------------------------------------------------------------------------------------- given


def _combinations(
    site: Site, use: KernelUse, given: Sequence[_Given], settings: Settings
) -> Iterator[tuple[dict[str, Argument] | Unknown, list[Assumption]]]:
    """Every combination of the values that were given, later tables over earlier ones, up to the cap."""
    kinds = {kind.parameter: kind for kind in use.kinds}
    chosen: dict[str, tuple[_Given, tuple[Scalar, ...]]] = {}
    for table in given:
        chosen.update((one.parameter, (table, one.values)) for one in table.parameters)
    swept = [parameter for parameter in site.parameters if parameter.name in chosen]
    options = [
        [_option(scalar, parameter, kinds[parameter.name], use) for scalar in chosen[parameter.name][1]]
        for parameter in swept
    ]
    total = math.prod(len(column) for column in options)
    for combination in itertools.islice(itertools.product(*options), settings.max_specializations):
        unknown = next((argument for argument in combination if isinstance(argument, Unknown)), None)
        if unknown is not None:
            yield replace(unknown, position=site.position), []
            continue
        arguments: dict[str, Argument] = {}
        assumptions: list[Assumption] = []
        for parameter, argument in zip(swept, combination, strict=True):
            assert isinstance(argument, Argument)
            arguments[parameter.name] = argument
            value = value_text(argument.value) if argument.type == "constexpr" else str(argument.type)
            where = chosen[parameter.name][0].where
            assumptions.append(
                Assumption(parameter.name, value, f"given {'with' if where == '--bind' else 'in'} {where}")
            )
        if total > settings.max_specializations:
            because = f"max-specializations is {settings.max_specializations}"
            left_out = f"{total - settings.max_specializations} of {total} combinations left out"
            assumptions.append(Assumption("*", left_out, because))
        yield arguments, assumptions


def _option(scalar: Scalar, parameter: Parameter, kind: ParameterKind, use: KernelUse) -> Argument | Unknown:
    name = parameter.name
    return argument_given(scalar, parameter, kind, text=name in use.texts, dtype=name in use.dtypes)


def _put(
    specialization: Specialization, arguments: Mapping[str, Argument], assumptions: Sequence[Assumption]
) -> Specialization:
    """``specialization`` with these arguments in place of its own."""
    if not arguments:
        return specialization
    signature = dict(specialization.signature)
    constexprs = {name: value for name, value in specialization.constexprs if name not in arguments}
    divisible = set(specialization.divisible_by_16) - set(arguments)
    for name, argument in arguments.items():
        signature[name] = argument.type
        if argument.type == "constexpr":
            constexprs[name] = argument.value
        elif argument.divisible:
            divisible.add(name)
    return replace(
        specialization,
        signature=tuple(signature.items()),
        constexprs=tuple(constexprs.items()),
        divisible_by_16=frozenset(divisible),
        assumptions=tuple(assumptions),
    )
