"""The specialise stage: Site → Specialization. Which types and constants a kernel is compiled for, and why.

recorded lines, ``--bind``, pyproject.toml and the kernel's body (``frame`` → ``evidence`` → ``kinds``) go into ``choose``,
which gives the specialisations of a site; ``bind`` completes one of them for one config.
"""

from __future__ import annotations

from smemcheck.specialize.bind import bind, prune
from smemcheck.specialize.choose import specialize
from smemcheck.specialize.launches import callers_of, configured, forget_launches, launch_sites, on_target

__all__ = ["bind", "callers_of", "configured", "forget_launches", "launch_sites", "on_target", "prune", "specialize"]
