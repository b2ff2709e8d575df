"""The specialisations of a kernel in a text, as the tests of launches ask for them."""

from __future__ import annotations

from smemcheck.config import Settings
from smemcheck.specialize import specialize


def specializations(read, text, cap=64, **options):
    (site,), project = read(text)
    return list(specialize(site, project, Settings(max_specializations=cap, **options), ()))


def types_of(specialization):
    constants = dict(specialization.constexprs)
    return {name: constants.get(name) if kind == "constexpr" else kind for name, kind in specialization.signature}
