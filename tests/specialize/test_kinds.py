"""What a parameter is taken for, from how the kernel uses it."""

from __future__ import annotations

import pytest

from smemcheck.specialize.abstract import Element, Own, in_order
from smemcheck.specialize.kinds import Kind, parameter_kinds


@pytest.fixture
def types(read_kernel):
    """The type of every parameter of a kernel, by name."""

    def of(text, before=""):
        site, _ = read_kernel(text, before)
        use = parameter_kinds(site.answers["sm_90"].kernel)
        return {kind.parameter: kind.type for kind in use.kinds}

    return of


@pytest.fixture
def kinds(read_kernel):
    def of(text, before=""):
        site, _ = read_kernel(text, before)
        return {kind.parameter: kind for kind in parameter_kinds(site.answers["sm_90"].kernel).kinds}

    return of


def test_matmul(types):
    assert types(
        """
        def kernel(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_bk, BLOCK: tl.constexpr):
            rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            ks = tl.arange(0, BLOCK)
            a_ptrs = a_ptr + rows[:, None] * stride_am + ks[None, :]
            b_ptrs = b_ptr + ks[:, None] * stride_bk + rows[None, :]
            acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
            for k in range(0, tl.cdiv(K, BLOCK)):
                a = tl.load(a_ptrs, mask=rows[:, None] < M, other=0.0)
                b = tl.load(b_ptrs, mask=rows[None, :] < N, other=0.0)
                acc += tl.dot(a, b)
                a_ptrs += BLOCK
                b_ptrs += BLOCK * stride_bk
            tl.store(c_ptr + rows[:, None] * N + rows[None, :], acc.to(c_ptr.dtype.element_ty))
        """
    ) == {
        "a_ptr": "*fp16", "b_ptr": "*fp16", "c_ptr": "*fp16", "M": "i32", "N": "i32", "K": "i32",
        "stride_am": "i32", "stride_bk": "i32", "BLOCK": "constexpr",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("tl.load(x + n)", "the address is a sum, and only one of the two can be counted in"),
        ("tl.store(x + tl.arange(0, 16) * n, 0.0)", "a factor is no pointer"),
        ("tl.atomic_add(x + n, 1.0)", "an atomic goes to memory"),
        ("tl.atomic_cas(x + n, 0, 1)", "so does compare-and-swap"),
        ("tl.make_block_ptr(x, (n,), (1,), (0,), (16,), (0,))", "the base of a block pointer"),
        ("tl.make_tensor_descriptor(x, [n, n], [n, 1], [16, 16])", "the base of a tensor descriptor"),
        ("p = x\n    for _ in range(n):\n        p += 16\n    tl.load(p)", "through an assignment and a loop"),
        ("p = tl.where(n > 0, x, x + n)\n    tl.load(p)", "one of two addresses"),
        ("p = x + n if n > 3 else x\n    tl.load(p)", "a conditional expression"),
        ("p = x.to(tl.pointer_type(tl.int8))\n    tl.load(p + n)", "cast to another pointer"),
        ("tl.load(tl.multiple_of(x + n, 16))", "through a hint"),
        (
            "y = tl.zeros((16,), x.dtype.element_ty)\n    for _ in range(n):\n        y += y",
            "only its element type is used",
        ),
    ],
)
def test_what_reaches_memory_is_a_pointer(types, body, why):
    found = types(f"def kernel(x, n):\n    tl.device_assert(n % 2 == 0)\n    {body}\n")
    assert found["x"].startswith("*"), why
    assert found["n"] == "i32", why


def test_a_pointer_that_a_helper_gets(types):
    helper = """
    @triton.jit
    def load_row(row, base, n, BLOCK: tl.constexpr):
        columns = tl.arange(0, BLOCK)
        return tl.load(base + row * n + columns, mask=columns < n, other=0.0)
    """
    found = types("def kernel(x, count):\n    load_row(tl.program_id(0), x, n=count, BLOCK=16)\n", helper)
    assert found == {"x": "*fp16", "count": "i32"}


def test_addend_that_is_named_first_may_be_the_offset(types):
    found = types("def kernel(start, x):\n    tl.load(start + x)\n    tl.load(x)\n")
    assert found == {"start": "i32", "x": "*fp16"}


def test_an_argument_compared_with_none_is_an_optional_pointer(types):
    found = types("def kernel(x, bias):\n    if bias is not None:\n        tl.store(x, 1.0)\n")
    assert found == {"x": "*fp16", "bias": "*fp16"}


@pytest.mark.parametrize(
    ("annotation", "type_"),
    [
        ("tl.int64", "i64"),
        ("'i64'", "i64"),
        ("'*fp32'", "*fp32"),
        ("'const *bf16'", "*kbf16"),
        ("tl.float32", "fp32"),
        ("int", "i32"),
        ("float", "fp32"),
        ("bool", "u1"),
        ("tl.tensor", "i32"),
        ("'anything'", "i32"),
    ],
)
def test_annotations_force_a_type_when_triton_knows_it(types, annotation, type_):
    """As ``KernelParam.annotation_type`` (triton/runtime/jit.py): what names no dtype forces nothing."""
    assert types(f"def kernel(n: {annotation}):\n    pass\n") == {"n": type_}


@pytest.mark.parametrize(
    ("use", "type_"),
    [
        ("y * s", "fp32"),
        ("tl.exp(s)", "fp32"),
        ("y + s", "fp32"),
        ("tl.where(y > s, y, 0.0)", "fp32"),
        ("s * 1.4426950408889634", "fp32"),
        ("y / s", "fp32"),
        ("y / tl.cdiv(s, 2)", "i32"),
        ("tl.arange(0, 16) < s", "i32"),
        ("tl.arange(0, 16) * s", "i32"),
        ("s // 2", "i32"),
        ("tl.load(x + s * 16)", "i32"),
    ],
)
def test_scalars_are_floats_or_integers_by_what_stands_beside_them(types, use, type_):
    assert (
        types(f"def kernel(x, s):\n    y = tl.load(x + tl.arange(0, 16)).to(tl.float32)\n    z = {use}\n")["s"] == type_
    )


def test_a_size_that_divides_floats_is_an_integer_when_it_bounds_a_mask(types):
    found = types(
        """
        def kernel(x, n):
            columns = tl.arange(0, 16)
            y = tl.load(x + columns, mask=columns < n, other=0.0).to(tl.float32)
            tl.store(x + columns, y - tl.sum(y, axis=0) / n)
        """
    )
    assert found["n"] == "i32"


def test_names_are_weak_evidence_and_said_to_be(kinds):
    found = kinds("def kernel(alpha, m):\n    pass\n")
    assert (found["alpha"].type, found["m"].type) == ("fp32", "i32")
    assert "name suggests" in found["alpha"].because


@pytest.mark.parametrize(
    ("body", "type_", "why"),
    [
        ("i = tl.load(p + o)\n    tl.store(out + i, 0.0)", "*i32", "what is loaded is an offset"),
        ("i = tl.load(p + o)\n    tl.load(out + i * 16 + o)", "*i32", "a factor of an offset"),
        ("i = tl.load(p)\n    for j in range(0, i):\n        tl.store(out + j, 0.0)", "*i32", "the bound of a loop"),
        ("i = tl.load(p + o)\n    tl.store(out + o, i // 2)", "*i32", "an operand of an integer operation"),
        ("i = tl.load(p + o)\n    tl.store(out + o, 0.0, mask=o < i)", "*i32", "compared with integers"),
        ("tl.load(p + o, other=-1)", "*i32", "a negative integer where the mask is off"),
        ("tl.store(p + o, o)", "*i32", "integers are written"),
        ("tl.atomic_or(p, 1)", "*i32", "a bit operation"),
        ("m = tl.load(p + o)\n    tl.store(out + o, 0.0, mask=m)", "*u1", "a mask and nothing else"),
        ("tl.store(p + o, tl.load(out + o) * 0.5)", "*fp16", "floats"),
        ("tl.store(p + o, o.to(tl.int8))", "*i8", "cast for the store"),
        ("y = tl.exp(tl.load(p + o))", "*fp32", "tl.exp takes fp32 and fp64 only"),
        ("y = tl.exp(tl.load(p + o).to(tl.float32))", "*fp16", "cast before"),
        ("tl.atomic_add(p + o, tl.zeros((16,), tl.float32))", "*fp32", "fp32 is added atomically"),
        ("s = tl.zeros((16,), tl.float32)\n    tl.store(p + o, s)", "*fp32", "a row of statistics, written without a cast"),
        ("acc = tl.zeros((16, 16), tl.float32)\n    tl.store(p + o[:, None] + o[None, :], acc)", "*fp16", "a tile may be cast"),
        ("v = tl.load(p + o[:, None] + o[None, :])\n    w = tl.zeros((16, 16), tl.float32)\n    tl.dot(w, v)", "*fp32",
         "operands of tl.dot have one type"),
        ("v = tl.load(p + o[:, None] + o[None, :])\n    acc = tl.zeros((16, 16), tl.int32)\n    acc += tl.dot(v, v)", "*i8",
         "an integer accumulator"),
        ("tl.load(p)", "*fp16", "nothing is known"),
    ],
)  # fmt: skip
def test_element_types(types, body, type_, why):
    found = types(f"def kernel(p, out):\n    o = tl.arange(0, 16)\n    {body}\n")
    assert found["p"] == type_, why


def test_the_reason_names_the_use_and_its_line(kinds):
    found = kinds(
        """
        def kernel(x, table):
            row = tl.load(table + tl.program_id(0))
            tl.store(x + row, 1.0)
        """
    )["table"]
    assert found.kind is Kind.POINTER
    assert (
        found.because == "an address of tl.load; its elements are added to an address, and 32-bit integers are assumed"
    )
    assert found.position.line == 11  # the store: six lines of imports and blanks, two decorators, the def, the load


def test_descriptors_take_their_block_shape_from_the_offsets(types):
    found = types(
        """
        def kernel(a_desc, c_desc, K, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr):
            row = tl.program_id(0) * BLOCK_M
            acc = tl.zeros((BLOCK_M, BLOCK_M), dtype=tl.float32)
            for k in range(0, K, BLOCK_K):
                a = a_desc.load([row, k])
                acc = tl.dot(a, a.T, acc)
            c_desc.store([row, tl.program_id(1) * 64], acc.to(c_desc.dtype))
        """
    )
    assert found["a_desc"] == "tensordesc<fp16[BLOCK_M, BLOCK_K]>"
    assert found["c_desc"] == "tensordesc<fp16[BLOCK_M, 64]>"
    assert found["K"] == "i32"


def test_an_offset_that_says_nothing_leaves_the_block_shape_open(types):
    assert types("def kernel(x_desc, n):\n    x_desc.load([n, 0])\n")["x_desc"] == "tensordesc<fp16[?, ?]>"


def test_a_parameter_that_is_indexed_is_a_tuple(kinds):
    assert kinds("def kernel(xs, n):\n    tl.load(xs[0] + n)\n")["xs"].kind is Kind.TUPLE


def test_unused_parameters_are_like_their_neighbours(types):
    found = types("def kernel(a, b, c, n, m):\n    tl.store(a, tl.load(c))\n    tl.device_assert(n % 2 == 0)\n")
    assert found == {"a": "*fp16", "b": "*fp16", "c": "*fp16", "n": "i32", "m": "i32"}


def test_recursion_and_loops_that_feed_themselves_end(types):
    helper = """
    @triton.jit
    def walk(p, n):
        for i in range(n):
            p = p + i
            p = p + n
        return walk(p, n)
    """
    assert types("def kernel(x, n):\n    tl.load(walk(x, n) + n)\n", helper)["n"] == "i32"


def test_strings_and_dtypes_of_constexprs_are_told_apart(read_kernel):
    site, _ = read_kernel(
        """
        def kernel(x, MODE: tl.constexpr, DTYPE: tl.constexpr, N: tl.constexpr):
            y = tl.load(x).to(DTYPE)
            if MODE == "causal":
                y = y + N
            tl.store(x, y)
        """
    )
    use = parameter_kinds(site.answers["sm_90"].kernel)
    assert use.texts == {"MODE"}
    assert use.dtypes == {"DTYPE"}


def test_a_number_that_elements_are_multiplied_with_does_not_make_them_integers(types):
    doubled = """
        def kernel(x, y, BLOCK: tl.constexpr):
            i = tl.arange(0, BLOCK)
            tl.store(y + i, tl.load(x + i) * 2)
        """
    assert types(doubled)["x"] == "*fp16"


def test_sources_of_a_type_are_gone_through_in_one_order_in_every_process():
    atoms = [
        "fp32",
        "int",
        Own("n"),
        Own("stride"),
        Element(frozenset({("b", "x"), ("a",)})),
        Element(frozenset({("y",)})),
    ]
    assert in_order(reversed(atoms)) == atoms
    assert in_order(frozenset(atoms)) == atoms
