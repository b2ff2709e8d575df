"""The slice of a kernel: its own function, the functions it reaches and what the names it reads stand for, nothing else."""

from __future__ import annotations

import pytest
from listing import Package

from smemcheck.model import AttributeValue, ConstexprValue, FunctionValue, NamespaceValue, Unknown

TUNED = '@triton.autotune([Config({"B": 16})], ["x"])\n@triton.jit\n'


@pytest.fixture
def kernel(package):
    """The slice of the only kernel, on sm_90; ``read(body, before)`` writes a kernel with one line as its body."""

    def read(body, before="", **files):
        text = f"{before}\n{TUNED}def kernel(x, B: tl.constexpr):\n    {body}\n"
        return package({"kernels.py": text, **{f"{name}.py": content for name, content in files.items()}}).site().answers["sm_90"].kernel  # fmt: skip

    return read


def names(function):
    return dict(function.globals_)


def test_the_text_and_line_of_the_user(package):
    site = package({"kernels.py": f"# a comment\n{TUNED}def kernel(x):\n    pass  # kept\n\n# not part of it\n"}).site()
    entry = site.answers["sm_90"].kernel.entry
    assert entry.source == "def kernel(x):\n    pass  # kept\n"
    assert (entry.position.line, entry.position.column) == (7, 1)
    assert site.position == entry.position
    assert site.decorator.line == 5


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("NAME = tl.constexpr(16)", ConstexprValue(16)),
        ("NAME = tl.constexpr('abc')", ConstexprValue("abc")),
        ("NAME: tl.constexpr = 16", 16),
        ("NAME = 16", 16),
        ("NAME = tl.exp", AttributeValue("triton.language.exp")),
        ("NAME = tl.exp if hasattr(tl, 'exp') else None", AttributeValue("triton.language.exp")),
        ("try:\n    from triton.language import no_such_function as NAME\nexcept ImportError:\n    NAME = tl.exp",
         AttributeValue("triton.language.exp")),
        ("from triton.language import exp2 as NAME", AttributeValue("triton.language.exp2")),
        ("import os\nif os.environ.get('FAST') == '1':\n    NAME = tl.exp2\nelse:\n    NAME = tl.exp", AttributeValue("triton.language.exp")),
        ("NAME = tl.bfloat16", AttributeValue("triton.language.bfloat16")),
        ("from triton.language.extra import libdevice as NAME", AttributeValue("triton.language.extra.libdevice")),
    ],
)  # fmt: skip
def test_a_global(kernel, before, expected):
    assert names(kernel("NAME(x)", before).entry) == {"NAME": expected}


def test_python_builtins_are_no_globals(kernel):
    assert names(kernel("tl.static_print(len(x), min(1, 2), range(3))").entry) == {
        "tl": AttributeValue("triton.language")
    }


def test_parameters_and_locals_are_no_globals(kernel):
    assert names(kernel("y = x + B; z = y").entry) == {}


def test_helpers_of_helpers_across_files(kernel):
    found = kernel(
        "first(x)",
        "from one import first",
        one="from two import second as other\n@triton.jit\ndef first(x):\n    other(x)\n",
        two="@triton.jit(noinline=True)\ndef second(x):\n    tl.store(x, 1)\n@triton.jit\ndef unused(x):\n    pass\n",
    )
    assert [f.name for f in found.functions] == ["kernel", "first", "second"]
    assert names(found.entry) == {"first": FunctionValue("first", 1)}
    assert names(found.functions[1]) == {"other": FunctionValue("second", 2)}
    assert [f.noinline for f in found.functions] == [False, False, True]
    assert [f.position.path.rpartition("/")[2] for f in found.functions] == ["kernels.py", "one.py", "two.py"]


def test_a_helper_that_calls_itself(kernel):
    found = kernel("up(x)", "@triton.jit\ndef up(x):\n    up(x)\n")
    assert [f.name for f in found.functions] == ["kernel", "up"]


def test_a_tuned_helper_is_the_function_under_its_tuner(kernel):
    found = kernel("helper(x)", "@triton.heuristics({})\n@triton.jit\ndef helper(x):\n    pass\n")
    assert names(found.entry) == {"helper": FunctionValue("helper", 1)}


def test_constexpr_functions(kernel):
    found = kernel("tl.static_assert(even(B))", "@triton.constexpr_function\ndef even(n):\n    return n % 2 == 0\n")
    assert [(f.name, f.jit) for f in found.functions] == [("kernel", "jit"), ("even", "constexpr_function")]


def test_attributes_of_modules_are_only_those_that_are_read(kernel):
    found = kernel(
        "tl.store(x, other.SIZE + other.helper(x))",
        "import other",
        other="SIZE = tl.constexpr(8)\nUNUSED = open('/etc/passwd')\n@triton.jit\ndef helper(x):\n    return x\n",
    )
    (other,) = [value for name, value in names(found.entry).items() if name == "other"]
    assert other == NamespaceValue("other", (("SIZE", ConstexprValue(8)), ("helper", FunctionValue("helper", 1))))


def test_enum_members(kernel):
    found = kernel(
        "tl.store(x, Mode.FAST.value)", "from enum import Enum\nclass Mode(Enum):\n    FAST = 1\n    SLOW = 2\n"
    )
    assert [name for name, _ in names(found.entry)["Mode"].members] == ["FAST"]


def test_a_nested_kernel_and_its_closure(package):
    site = package({"kernels.py": """
        def build(dtype=tl.float16):
            scale = tl.constexpr(3)

            @triton.autotune([Config({"B": 16})], ["x"])
            @triton.jit
            def kernel(x, B: tl.constexpr):
                tl.store(x, scale)

            return kernel

        KERNEL = build()
    """}).sites()[0]  # fmt: skip
    entry = site.answers["sm_90"].kernel.entry
    assert entry.source.startswith("    def kernel(x, B: tl.constexpr):\n")
    assert names(entry)["scale"] == ConstexprValue(3)


def test_what_is_not_known_is_kept_with_its_reason(kernel):
    found = kernel("tl.store(x, SIZE)", "from somewhere import table\nSIZE = tl.constexpr(table['a'])\n")
    size = names(found.entry)["SIZE"]
    assert isinstance(size, Unknown)
    assert size.reason == "somewhere.table[…] is not modelled"
    assert size.position.line == 5


def test_a_name_that_nothing_binds(kernel):
    found = kernel("tl.store(x, MISSING)")
    assert names(found.entry)["MISSING"].reason == "MISSING: NameError: name 'MISSING' is not defined"


def test_plain_functions_cannot_be_called_by_a_kernel(kernel):
    found = kernel("plain(x)", "def plain(x):\n    return x\n")
    assert names(found.entry)["plain"].reason == "'plain' is a plain Python function, which a kernel cannot call"


def test_parameters(package):
    site = package({"kernels.py": """
        DEFAULT = 3

        @triton.autotune([Config({"B": 16})], ["x"])
        @triton.jit(do_not_specialize=["n", 2])
        def kernel(x: tl.tensor, n, m: "i64", B: tl.constexpr, FLAG: "tl.constexpr" = True, k: tl.int32 = DEFAULT):
            pass
    """}).site()  # fmt: skip
    assert [(p.name, p.annotation, p.is_constexpr) for p in site.parameters] == [
        ("x", "tensor", False),
        ("n", "", False),
        ("m", "i64", False),
        ("B", "constexpr", True),
        ("FLAG", "tl.constexpr", True),
        ("k", "i32", False),
    ]
    assert [(p.name, p.default) for p in site.parameters if p.has_default] == [("FLAG", True), ("k", 3)]
    assert [p.name for p in site.parameters if p.do_not_specialize] == ["n", "m"]


def test_the_digest_survives_a_move_and_new_lines_above(tmp_path):
    text = f"{TUNED}def kernel(x):\n    tl.store(x, 1)\n"
    digests = []
    for folder, above in (("one", ""), ("two/three", "\n\n# more\n")):
        root = tmp_path / folder
        root.mkdir(parents=True)
        digests.append(Package(root, {"kernels.py": above + text}).site().answers["sm_90"].kernel.digest)
    assert digests[0] == digests[1]


def test_the_digest_changes_with_a_helper(tmp_path):
    digests = set()
    for index, value in enumerate((1, 2)):
        root = tmp_path / str(index)
        root.mkdir()
        text = f"@triton.jit\ndef helper(x):\n    tl.store(x, {value})\n{TUNED}def kernel(x):\n    helper(x)\n"
        digests.add(Package(root, {"kernels.py": text}).site().answers["sm_90"].kernel.digest)
    assert len(digests) == 2


@pytest.mark.parametrize(("target", "hip"), [("sm_90", False), ("gfx942", True)])
def test_a_kernel_may_ask_torch_which_backend_it_is_built_for(package, target, hip):
    text = f"import torch\n{TUNED}def kernel(x, B: tl.constexpr):\n    y = torch.version.hip is not None\n"
    answer = package({"kernels.py": text}).site([target]).answers[target]
    ((name, version),) = names(answer.kernel.entry)["torch"].members
    assert name == "version"
    assert (dict(version.members)["hip"] is not None) == hip
