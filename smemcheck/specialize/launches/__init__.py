"""What the code that launches a kernel says of its arguments.

Launch code is never run. It is evaluated with example arguments: tensors of example sizes, each flag and optional argument
both ways, and every launch that such an example run reaches is one way the kernel is called. What tests and benchmarks call
functions with comes first: those are no examples.

    call graph ──entries, cases──▶ example runs ──engine, torch_calls──▶ launches ──arguments──▶ proposals
"""

from __future__ import annotations

from typing import Any

from smemcheck.config import Settings
from smemcheck.model import Site
from smemcheck.source.analysis import Analysis
from smemcheck.specialize.kinds import KernelUse
from smemcheck.specialize.launches.arguments import Proposal, propose
from smemcheck.specialize.launches.configs import on_target
from smemcheck.specialize.launches.guesses import with_guesses, with_short_loops
from smemcheck.specialize.launches.sites import (
    callers_of,
    configured,
    forget_launches,
    launch_sites,
    launches_by_target,
)

__all__ = ["Proposal", "callers_of", "configured", "forget_launches", "launch_sites", "on_target", "proposals_of"]


def proposals_of(
    site: Site, use: KernelUse, project: Any, settings: Settings, elsewhere: set[str]
) -> list[tuple[tuple[str, ...], list[Proposal]]]:
    """What every known launch of ``site``'s kernel says, plainest and most complete first; distinct ones only.

    One group where the device makes no difference (its targets are then empty), else one for the targets that agree.
    """
    kinds = {kind.parameter: kind for kind in use.kinds}
    if not isinstance(project, Analysis) or not project.evaluators:
        return [((), _distinct(site, use, [], elsewhere))]
    place = site.position
    by_target = launches_by_target(project, site.root, settings, place.path, site.kernel_name, place.line)
    groups: dict[Any, tuple[list[str], list[Proposal]]] = {}
    for target, recorded in by_target.items():
        # Launches that were found once are the same list for every target.
        same = groups.get(id(recorded))
        if same is None:
            proposals = _distinct(site, use, [propose(site, one, kinds, elsewhere) for one in recorded], elsewhere)
            same = groups.setdefault(tuple(one.key for one in proposals), ([], proposals))
            groups[id(recorded)] = same
        same[0].append(target)
    distinct = list({id(group): group for group in groups.values()}.values())
    if len(distinct) == 1:
        return [((), distinct[0][1])]
    return [(tuple(targets), proposals) for targets, proposals in distinct]


def _distinct(site: Site, use: KernelUse, found: list[Proposal], elsewhere: set[str]) -> list[Proposal]:
    distinct: dict[Any, Proposal] = {}
    for proposal in sorted(found, key=lambda one: (one.unknown > 0, one.effort, one.unknown)):
        distinct.setdefault(proposal.key, proposal)
    return _varied(with_guesses(site, use, with_short_loops(site, list(distinct.values())), elsewhere))


def _varied(proposals: list[Proposal]) -> list[Proposal]:
    """Those with types and flags of their own first, then those with other multiples of 16, then those with other numbers."""
    seen: set[Any] = set()
    tiers: tuple[list[Proposal], list[Proposal], list[Proposal]] = ([], [], [])
    for proposal in proposals:
        whole = (proposal.kinds, proposal.multiples)
        tiers[0 if proposal.kinds not in seen else 1 if whole not in seen else 2].append(proposal)
        seen.update((proposal.kinds, whole))
    return [one for tier in tiers for one in tier]
