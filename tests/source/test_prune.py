"""``early_config_prune`` is interpreted for a launch; a config whose fate is not known stays in."""

from __future__ import annotations

import pytest
from listing import blocks, shown

from smemcheck.model import Unknown


@pytest.fixture
def left(package):
    """The configs that a pruner leaves of blocks 16, 32, 64, 128 for a launch with the given arguments, on a target."""

    def ask(text, arguments=(), target="sm_90", pruner="prune"):
        made = package({"kernels.py": f"""
import torch
{text}

@triton.autotune([Config({{"B": b}}) for b in (16, 32, 64, 128)], ["n"], prune_configs_by={{"early_config_prune": {pruner}}})
@triton.jit
def kernel(x, n, B: tl.constexpr, D: tl.constexpr = 64):
    pass
"""})  # fmt: skip
        reading = made.read((target,))
        (site,) = reading.sites
        evaluator = reading.project.evaluators[target]
        return shown(reading.project.prune(site, site.answers[target].configs, dict(arguments), evaluator.world.target))

    return ask


@pytest.mark.parametrize(
    ("text", "arguments", "values"),
    [
        ("def prune(configs, named_args, **kwargs):\n    return [c for c in configs if c.kwargs['B'] <= 32]", {}, [16, 32]),
        ("def prune(configs, named_args, **kwargs):\n    return [c for c in configs if c.kwargs['B'] <= named_args['n']]",
         {"n": 64}, [16, 32, 64]),
        ("def prune(configs, nargs, **kwargs):\n    d = kwargs.get('D', 8)\n    return [c for c in configs if c.kwargs['B'] <= d]",
         {"D": 32}, [16, 32]),
        ("def prune(configs, nargs, **kwargs):\n    return [c for c in configs if c.kwargs['B'] <= kwargs['n']]", {"n": 32}, [16, 32]),
        ("def prune(configs, nargs, **kwargs):\n    n = nargs.get('missing', 16)\n    return [c for c in configs if c.kwargs['B'] <= n]",
         {}, [16]),
        ("def prune(configs, nargs, **kwargs):\n    for c in configs:\n        if c.kwargs['B'] > 16 and c.num_warps == 4:\n            yield c",
         {}, [32, 64, 128]),
        ("def prune(configs, nargs, **kwargs):\n    kept = []\n    for c in configs:\n        if c.kwargs['B'] == 32:\n            continue\n"
         "        kept.append(c)\n    return kept or configs[:1]", {}, [16, 64, 128]),
        ("def prune(configs, nargs, **kwargs):\n    return [c for c in configs if c.kwargs['B'] > 999] or configs[:1]", {}, [16]),
        ("def prune(configs, nargs, **kwargs):\n    return configs", {}, [16, 32, 64, 128]),
        ("prune = lambda configs, nargs, **kw: configs[::2]", {}, [16, 64]),
        ("import functools\ndef limited(configs, nargs, limit, **kw):\n    return [c for c in configs if c.kwargs['B'] < limit]\n"
         "prune = functools.partial(limited, limit=64)", {}, [16, 32]),
        ("def prune(configs, nargs, **kwargs):\n    return [Config({'B': c.kwargs['B'] * 2}) for c in configs[:2]]", {}, [32, 64]),
        ("import copy\ndef prune(configs, nargs, **kwargs):\n    found = copy.deepcopy(configs[:1])\n    found[0].kwargs['B'] = 8\n    return found",
         {}, [8]),
    ],
)  # fmt: skip
def test_a_pruner(left, text, arguments, values):
    assert left(text, arguments) == blocks(*values)


def test_a_pruner_that_asks_for_the_shared_memory(left):
    text = """
def prune(configs, nargs, **kwargs):
    limit = torch.cuda.get_device_properties(0).shared_memory_per_block_optin
    return [c for c in configs if c.kwargs["B"] * 1024 * 2 < limit]
"""
    assert left(text, target="sm_90") == blocks(16, 32, 64)
    assert left(text, target="sm_120") == blocks(16, 32)


def test_what_is_not_known_stays_in(left):
    text = "def prune(configs, nargs, **kwargs):\n    return [c for c in configs if c.kwargs['B'] <= 16 or c.kwargs['B'] <= nargs['n']]"
    assert left(text, {"n": Unknown("the launch is not known")}) == blocks(16, 32, 64, 128)


def test_a_pruner_of_a_library(left):
    assert left("from somewhere import prune") == "the pruner is no function that can be evaluated"


def test_a_pruner_that_raises(left):
    reason = left("def prune(configs, nargs, **kwargs):\n    return configs[nargs['n']:]", {"n": "many"})
    assert reason == "it raises TypeError: slice indices must be integers or None or have an __index__ method"
