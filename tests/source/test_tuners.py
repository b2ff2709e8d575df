"""Every way of putting an autotuner around a kernel makes a site, with the list that the tuner gets."""

from __future__ import annotations

import pytest
from listing import blocks, shown

KERNEL = """
def kernel(x, B: tl.constexpr):
    pass
"""
LIST = "CONFIGS = [Config({'B': 16}), Config({'B': 32})]\n"


@pytest.mark.parametrize(
    "text",
    [
        "@triton.autotune(CONFIGS, ['x'])\n@triton.jit{kernel}",
        "@triton.autotune(configs=CONFIGS, key=['x'])\n@triton.jit{kernel}",
        "@triton.autotune(key=['x'], configs=CONFIGS)\n@triton.jit(do_not_specialize=['x']){kernel}",
        "@triton.jit\n{kernel}kernel = triton.autotune(CONFIGS, ['x'])(kernel)",
        "{kernel}kernel = triton.autotune(CONFIGS, ['x'])(triton.jit(kernel))",
        "{kernel}tuned = triton.autotune(CONFIGS, ['x'])(triton.jit(fn=kernel))",
        "from triton import autotune, jit\n@autotune(CONFIGS, ['x'])\n@jit{kernel}",
        "from triton import autotune as tune, jit as compiled\n@tune(CONFIGS, ['x'])\n@compiled{kernel}",
        "import triton as tr\n@tr.autotune(CONFIGS, ['x'])\n@tr.jit{kernel}",
        "from triton.runtime.autotuner import autotune\n@autotune(CONFIGS, ['x'])\n@triton.jit{kernel}",
        "from triton.runtime import Autotuner\n@triton.jit{kernel}"
        "tuned = Autotuner(kernel, kernel.arg_names, CONFIGS, ['x'], None, None)",
        "tune = triton.autotune(CONFIGS, ['x'])\n@tune\n@triton.jit{kernel}",
        "import functools\ntune = functools.partial(triton.autotune, key=['x'])\n@tune(configs=CONFIGS)\n@triton.jit{kernel}",
        "def tune(configs, **options):\n    return triton.autotune(configs=configs, key=['x'], **options)\n"
        "@tune(CONFIGS, cache_results=True)\n@triton.jit{kernel}",
        "def tune(fn):\n    return triton.autotune(CONFIGS, ['x'])(triton.jit(fn))\n@tune{kernel}",
        "options = {{'key': ['x']}}\n@triton.autotune(configs=CONFIGS, **options)\n@triton.jit{kernel}",
        "@triton.autotune(CONFIGS, ['x'])\n@triton.heuristics({{'H': lambda args: args['x'] > 1}})\n@triton.jit{kernel}",
        "@triton.heuristics({{'H': lambda args: args['x'] > 1}})\n@triton.autotune(CONFIGS, ['x'])\n@triton.jit{kernel}",
        "from triton.runtime.autotuner import Autotuner\nclass Mine(Autotuner):\n    def run(self, *args, **kwargs):\n"
        "        return super().run(*args, **kwargs)\n"
        "def tune(configs, key):\n    return lambda fn: Mine(fn, fn.arg_names, configs, key, None, None)\n"
        "@tune(CONFIGS, ['x'])\n@triton.jit{kernel}",
        "class Tuner:\n    def __init__(self, fn, configs):\n        self.fn, self.configs = fn, configs\n"
        "def tuned(configs):\n    return lambda fn: Tuner(fn, configs)\n@tuned(CONFIGS)\n@triton.jit{kernel}",
        "class Late(triton.KernelInterface):\n    def __init__(self, fn, options):\n        self.fn, self.options = fn, options\n"
        "        self.made = None\n    def run(self, *args, **kwargs):\n        if self.made is None:\n"
        "            self.made = triton.autotune(**self.options)(self.fn)\n        return self.made.run(*args, **kwargs)\n"
        "def tuned(**options):\n    return lambda fn: Late(fn, options)\n@tuned(configs=CONFIGS, key=['x'])\n@triton.jit{kernel}",
        "if hasattr(tl, 'dot'):\n    @triton.autotune(CONFIGS, ['x'])\n    @triton.jit\n    def kernel(x, B: tl.constexpr):\n        pass\n"
        "else:\n    kernel = None",
        "class Holder:\n    @staticmethod\n    @triton.autotune(CONFIGS, ['x'])\n    @triton.jit\n"
        "    def kernel(x, B: tl.constexpr):\n        pass",
        "def build(size):\n    @triton.autotune(CONFIGS, ['x'])\n    @triton.jit\n    def kernel(x, B: tl.constexpr):\n        pass\n"
        "    return kernel",
        "def launch(x):\n    tuned = triton.autotune(CONFIGS, ['x'])(kernel)\n    tuned[(1,)](x)\n@triton.jit{kernel}",
        "try:\n    from triton import no_such_name as autotune\nexcept ImportError:\n    from triton import autotune\n"
        "@autotune(CONFIGS, ['x'])\n@triton.jit{kernel}",
    ],
)  # fmt: skip
def test_one_kernel(lists, text):
    assert lists(LIST + text.format(kernel=KERNEL)) == {"kernel": blocks(16, 32)}


def test_kernels_made_in_a_loop_share_a_name_and_have_their_own_lists(package):
    sites = package({"kernels.py": """
        KERNELS = {}
        for size in (16, 32):
            @triton.autotune([Config({"B": size})], ["x"])
            @triton.jit
            def kernel(x, B: tl.constexpr):
                pass
            KERNELS[size] = kernel
    """}).sites()  # fmt: skip
    assert [shown(site.answers["sm_90"].configs) for site in sites] == [blocks(16), blocks(32)]


def test_what_the_tuner_is_told(package):
    site = package({"kernels.py": """
        @triton.autotune([Config({"B": 16})], key=["n", "m"], reset_to_zero=["out"], restore_value=("x",), use_cuda_graph=True)
        @triton.heuristics({"EVEN": lambda args: args["n"] % 16 == 0})
        @triton.jit
        def kernel(x, out, n, m, B: tl.constexpr, EVEN: tl.constexpr):
            pass
    """}).site()  # fmt: skip
    assert (site.key, site.reset_to_zero, site.restore_value) == (("n", "m"), ("out",), ("x",))
    assert site.options == {"use_cuda_graph": True}
    assert [heuristic.parameter for heuristic in site.heuristics] == ["EVEN"]


def test_a_tuner_of_a_library_that_is_not_at_hand(package):
    """An own ``autotune`` of another library gets its list as Triton's would; the report says that this was assumed."""
    site = package({"kernels.py": """
        from somewhere.cache import cached_autotune

        @cached_autotune(configs=[Config({"B": 16})], key=["x"])
        @triton.jit
        def kernel(x, B: tl.constexpr):
            pass
    """}).site()  # fmt: skip
    answer = site.answers["sm_90"]
    assert shown(answer.configs) == blocks(16)
    assert answer.notes == (
        "somewhere.cache.cached_autotune() is not at hand and is taken to tune over the configs it is given, "
        "as triton.autotune does",
    )


def test_a_decorator_that_is_not_known_hides_the_list(lists):
    found = lists("""
        from somewhere import decorate

        @triton.autotune([Config({"B": 16})], key=["x"])
        @decorate
        @triton.jit
        def kernel(x, B: tl.constexpr):
            pass
    """)
    assert found == {"kernel": "its decorators make no tuner that smemcheck understands"}


def test_a_comment_about_tuning_makes_no_site_twice(lists, package):
    text = """
        @triton.autotune([Config({"B": 16})], key=["x"])
        @triton.jit
        def kernel(x, B: tl.constexpr):
            pass

        def launch(x):
            # bypass the autotuner (it is slow)
            kernel.fn[(1,)](x, B=16)
    """
    assert len(package({"kernels.py": text}).sites()) == 1


def test_files_that_do_not_speak_of_triton_are_not_read_further(package):
    assert package({"other.py": "tune = 1\n)"}, preamble=False).sites() == ()
