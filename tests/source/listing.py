"""How the tests write packages and read lists: configs as short text, ``"BM=64 w4 s2"``."""

from __future__ import annotations

import textwrap

from smemcheck.config import Settings
from smemcheck.model import Unknown
from smemcheck.rules.devices import resolve_target
from smemcheck.source import read_sites

PREAMBLE = "import triton\nimport triton.language as tl\nfrom triton import Config\n"
TARGETS = ("sm_80", "sm_90", "sm_120", "gfx942")


class Package:
    """Files written below a folder. A Python file gets :data:`PREAMBLE` unless ``preamble=False``."""

    def __init__(self, root, files, preamble=True, environment=(), settings=None):
        self.root = root
        self.settings = settings or Settings(environment=tuple(dict(environment).items()))
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            head = PREAMBLE if preamble and name.endswith(".py") else ""
            path.write_text(head + textwrap.dedent(text))

    def read(self, targets=TARGETS, paths=None):
        """The whole reading of the package, or of some of its paths."""
        chosen = [str(self.root / path) for path in paths] if paths else [str(self.root)]
        return read_sites(chosen, [resolve_target(name) for name in targets], self.settings)

    def sites(self, targets=TARGETS, paths=None):
        """The sites; there must be no problem."""
        reading = self.read(targets, paths)
        assert not reading.problems
        return reading.sites

    def site(self, targets=TARGETS):
        """The only site."""
        (site,) = self.sites(targets)
        return site

    def lists(self, target="sm_90", paths=None):
        """By kernel name, the configs as short text, or the reason why they are not known."""
        return {site.kernel_name: shown(site.answers[target].configs) for site in self.sites((target,), paths)}


def shown(configs):
    """Configs as short text; for an unknown list its reason."""
    return configs.reason if isinstance(configs, Unknown) else [show(config) for config in configs]


def show(config):
    """One config: its kwargs, then warps and stages, then what differs from Triton's defaults."""
    parts = [f"{name}={value}" for name, value in config.kwargs]
    parts += [f"w{config.num_warps}", f"s{config.num_stages}"]
    if config.num_ctas != 1:
        parts.append(f"ctas{config.num_ctas}")
    if config.maxnreg is not None:
        parts.append(f"regs{config.maxnreg}")
    if config.has_pre_hook:
        parts.append("hook")
    return " ".join(parts)


def blocks(*values, name="B"):
    """The short texts of configs that set one name and keep Triton's defaults."""
    return [f"{name}={value} w4 s3" for value in values]
