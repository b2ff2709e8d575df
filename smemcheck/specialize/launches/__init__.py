"""What the code that launches a kernel says of its arguments.

Launch code is never run. It is evaluated with example arguments: tensors of example sizes, each flag and optional argument
both ways, and every launch that such an example run reaches is one way the kernel is called.

    call graph ──entries──▶ example runs ──engine, torch_calls──▶ launches ──arguments──▶ proposals
"""

from __future__ import annotations

from typing import Any

from smemcheck.config import Settings
from smemcheck.model import Site
from smemcheck.source.analysis import Analysis
from smemcheck.specialize.kinds import KernelUse
from smemcheck.specialize.launches.arguments import Proposal, propose
from smemcheck.specialize.launches.guesses import with_guesses
from smemcheck.specialize.launches.sites import configured, launch_sites, launches_of, on_target

__all__ = ["Proposal", "configured", "launch_sites", "on_target", "proposals_of"]


def proposals_of(site: Site, use: KernelUse, project: Any, settings: Settings, elsewhere: set[str]) -> list[Proposal]:
    """What every known launch of ``site``'s kernel says, plainest and most complete first; distinct ones only."""
    kinds = {kind.parameter: kind for kind in use.kinds}
    found: list[Proposal] = []
    if isinstance(project, Analysis) and project.evaluators:
        recorded = launches_of(project, site.root, settings).of(
            site.position.path, site.kernel_name, site.position.line
        )
        found = [propose(site, one, kinds, elsewhere) for one in recorded]
    distinct: dict[Any, Proposal] = {}
    for proposal in sorted(found, key=lambda one: (one.unknown > 0, one.effort, one.unknown)):
        distinct.setdefault(proposal.key, proposal)
    return _varied(with_guesses(site, use, list(distinct.values()), elsewhere))


def _varied(proposals: list[Proposal]) -> list[Proposal]:
    """Those with types and flags of their own first; then those that differ from them in numbers only."""
    seen: set[Any] = set()
    first: list[Proposal] = []
    later: list[Proposal] = []
    for proposal in proposals:
        (later if proposal.kinds in seen else first).append(proposal)
        seen.add(proposal.kinds)
    return [*first, *later]
