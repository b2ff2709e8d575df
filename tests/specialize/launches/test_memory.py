"""What is kept of example runs: launches, and nothing of the runs themselves."""

from __future__ import annotations

import gc

from smemcheck.config import Settings
from smemcheck.model import Position
from smemcheck.pipeline import check
from smemcheck.specialize import specialize
from smemcheck.specialize.launches.condensed import condensed, key_of
from smemcheck.specialize.launches.engine import ExampleInterpreter
from smemcheck.specialize.launches.plans import Launch, Plan
from smemcheck.specialize.launches.sites import launches_of
from smemcheck.specialize.launches.tensors import TENSOR, CallersDtype, Geometry, Sizes, Tensor

LAUNCHES = """
@triton.autotune([triton.Config({"BLOCK": 64})], key=["n"])
@triton.jit
def kernel(x, y, bias, n, HAS_BIAS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i))

def call(x: torch.Tensor, bias=None, causal: bool = False, mode: bool = False):
    y = torch.empty_like(x)
    kernel[(1,)](x, y, bias, x.shape[0], HAS_BIAS=bias is not None)
    return y
"""


def kept(kind):
    gc.collect()
    return [one for one in gc.get_objects() if type(one) is kind]


def test_runs_and_their_tensors_are_released(read):
    before = len(kept(ExampleInterpreter)), len(kept(Geometry))
    (site,), project = read(LAUNCHES)
    assert specialize(site, project, Settings(), ())
    assert (len(kept(ExampleInterpreter)), len(kept(Geometry))) == before
    assert launches_of(project, site.root, Settings()).of(site.position.path, "kernel", site.position.line)


def test_launches_are_released_when_every_site_has_its_specialisations(tmp_path):
    (tmp_path / "kernels.py").write_text("import torch\nimport triton\nimport triton.language as tl\n" + LAUNCHES)
    before = len(kept(Launch))
    report = check([str(tmp_path)], Settings(targets=("sm_90",)), lower=lambda jobs: ())
    assert len(report.specializations) > 1
    assert len(kept(Launch)) == before


def test_launches_that_say_the_same_are_told_by_their_keys():
    def launch(number, group="float", given=True):
        tensor = Tensor(
            TENSOR, {}, CallersDtype("torch.float16", group, "x", set()), Geometry(Sizes()), True, "x", given
        )
        return condensed(Launch(Position("k.py", 3), {"x": tensor, "n": number}, {"num_warps": 4}, Position("k.py", 9)))

    plain = key_of(launch(1), Plan())
    assert plain == key_of(launch(1), Plan(sizes=Sizes(batch=1)))
    others = [launch(2), launch(True), launch(1, group="side"), launch(1, given=False)]
    assert plain not in [key_of(other, Plan()) for other in others]
    assert plain != key_of(launch(1), Plan(dtype="torch.float32"))
    assert key_of(launch({}), Plan()) is None


def test_what_was_guessed_of_a_number_stays_behind(read):
    (site,), project = read(
        LAUNCHES.replace("bias=None", "n, scale, bias=None")
        .replace("x.shape[0]", "n * 1, scale")
        .replace("bias, n, HAS", "bias, n, scale, HAS")
    )
    for specialization in specialize(site, project, Settings(), ()):
        assert {type(value) for _, value in specialization.launch_values} <= {int, float, bool}
