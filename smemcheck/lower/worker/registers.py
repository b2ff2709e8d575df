"""TTGIR → registers per thread that ptxas cannot do without, so that a spill is told without running ptxas.

The count is taken at moments that no compiler moves work across piece by piece: the end of a loop's iteration, a wgmma
(one asynchronous operation for all its accumulators), and a reduction that meets at a barrier or ends in one element per thread.
What is computed before such a moment and needed after it lies in registers then; in which form is the compiler's choice. So
values are a network in which results follow operands, with the registers that each takes, and the smallest cut between
"before" and "after" is a bound for every choice. What cannot be computed again (loads, dots, reductions) begins a flow.

Left out, since LLVM or ptxas may do without: addresses, indices, masks and what ranges, constants and scalars make of
them; repeated elements; elements behind a mask that is known while compiling; accumulators in tensor memory; kernels with
specialised warps, whose registers are dealt out anew. Two 16-bit elements count as one register.
"""

from __future__ import annotations

import re
from typing import Callable, Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

from .layouts import Layouts, Tensor
from .trips import most_trips
from .ttgir import Module, Operation, Value

# Operations that are not done twice: their results begin a flow once they are computed. Triton 3.2 calls the dialects
# triton_gpu and triton_nvidia_gpu.
_SOURCES = frozenset(
    f"{dialect}.{name}"
    for dialect, names in (
        ("tt", ("load", "dot", "dot_scaled", "reduce", "scan", "gather", "histogram", "atomic_rmw", "atomic_cas")),
        ("tt", ("descriptor_load", "descriptor_gather")),
        ("ttg", ("local_load",)),
        ("ttng", ("warp_group_dot", "tmem_load")),
        ("triton_gpu", ("local_load",)),
        ("triton_nvidia_gpu", ("warp_group_dot",)),
    )
    for name in names
)
_ELEMENTWISE = frozenset(
    (
        *(
            f"tt.{name}"
            for name in ("addptr", "fp_to_fp", "bitcast", "clampf", "precise_sqrt", "precise_divf", "mulhiui")
        ),
        *(f"tt.{name}" for name in ("elementwise_inline_asm", "extern_elementwise", "map_elementwise")),
        "ttg.convert_layout",
        "triton_gpu.convert_layout",
    )
)
_RESHAPING = frozenset(("tt.expand_dims", "tt.broadcast", "tt.reshape", "tt.trans", "tt.join", "tt.split"))
_LOOPS = frozenset({"scf.for", "scf.while"})
_ORDERED_IN_LOOPS = ("warp_group_dot", "local_store", "async_wait", "wait_barrier")
_UNROLLED_BELOW = 32  # iterations: LLVM unrolls loops of so few completely if the body is small, and mixes them
_MOMENTS = ("scf.for ", "scf.while ", "warp_group_dot ", '"tt.reduce"')
_MOMENT_NAMES = ("scf.for", "scf.while", "warp_group_dot", "tt.reduce")
_SPECIALISED = ("warp_specialize", "async_task_id", "num-warp-groups-per-cta")


def at_least(text: str) -> Optional[int]:
    """Registers per thread that the module's data takes at its fullest moment; ``None`` where nothing is claimed.

    ``text`` is the module as it leaves ``make_ttgir``. 0 for a module that has no such moment.
    """
    if any(word in text for word in _SPECIALISED):
        return None
    if not any(word in text for word in _MOMENTS):
        return 0
    return _Analysis(text).bound()


class _Moment(NamedTuple):
    """A cut in time. ``before`` and ``after`` are indices of values computed before and read after; ``path`` is where."""

    loops: List[Operation]
    before: Set[int]
    after: Set[int]


class _Analysis:
    def __init__(self, text: str) -> None:
        self.module = Module(text)
        self.layouts = Layouts(self.module.layouts)
        self.users: Dict[int, List[Operation]] = {}
        for operation in self.module.operations:
            for operand in operation.operands:
                self.users.setdefault(operand.index, []).append(operation)
        blocks = re.search(r'num-ctas" = (\d+)', text[: text.find("tt.func")])
        self._vary()
        self._mark_useful()
        self._measure(int(blocks.group(1)) if blocks else 1)
        self.loops = {one.index: one for one in self.module.operations if one.name in _LOOPS}
        self.inside: Dict[int, List[Operation]] = {}
        for operation in self.module.operations:
            for owner, _ in operation.path:
                self.inside.setdefault(owner, []).append(operation)
        self.ordered = {index for index, loop in self.loops.items() if self._is_ordered(loop)}
        self.needed_by_loop = {index: self._from_outside(loop) for index, loop in self.loops.items()}

    # ----------------------------------------------------------------------------------------- what a value consists of

    def _vary(self) -> None:
        """Along which dimensions each value varies (``address``), and what of it is data (``content``): a bit each.

        An index varies, but is no data. What a loop carries is the union of its first and its next value.
        """
        tensors = [(value, value.kind) for value in self.module.values if value.kind is not None]
        arguments = [argument for operation in self.module.operations for argument in operation.arguments]
        first = 0
        for _ in range(16):
            for value, kind in tensors:
                if value.index >= first:
                    self._vary_one(value, kind)
            carried = [
                argument.index
                for argument in arguments
                if argument.back is not None
                and (argument.back.address & ~argument.address or argument.back.content & ~argument.content)
            ]
            if not carried:
                return
            first = min(carried)

    def _vary_one(self, value: Value, kind: Tensor) -> None:
        operation = value.operation
        name = operation.name if operation is not None else ""
        ranked = [(one, shape) for one in value.inputs if (shape := one.kind) is not None]
        if name == "tt.make_range":
            value.address = kind.varied
        elif name in _LOOPS or name == "scf.if":
            for one in [*value.inputs, *([value.back] if value.back is not None else [])]:
                value.address |= one.address & kind.varied
                value.content |= one.content & kind.varied
        elif name in _SOURCES and operation is not None:
            value.address = value.content = self._varied_by_source(operation, kind, ranked)
        elif name in _RESHAPING and operation is not None and ranked:
            move = _reshaping(operation, kind, ranked[0][1])
            for one, _ in ranked:
                value.address |= move(one.address) & kind.varied
                value.content |= move(one.content) & kind.varied
        elif _is_elementwise(name):
            # warp_group_dot_wait hands on each of its operands
            own = ranked
            if name.endswith("_wait") and operation is not None:
                position = operation.results.index(value) if value in operation.results else 0
                own = [(one, kind) for one in value.inputs[position : position + 1]]
            for one, shape in own:
                if len(shape.shape) == len(kind.shape):
                    value.address |= one.address & kind.varied
                    value.content |= one.content & kind.varied

    def _varied_by_source(self, operation: Operation, kind: Tensor, ranked: List[Tuple[Value, Tensor]]) -> int:
        name = operation.name.rpartition(".")[2]
        if name in ("load", "atomic_rmw", "atomic_cas"):
            pointer = ranked[0][0].address if ranked else 0
            return 0 if name == "load" and _has_known_mask(operation) else pointer & kind.varied
        if name in ("reduce", "scan"):
            varied = 0
            for one, _ in ranked:
                varied |= one.address
            if name == "reduce":
                axis = _axis(operation)
                below = (1 << axis) - 1
                varied = varied & below | varied >> 1 & ~below
            return varied & kind.varied
        return kind.varied

    def _measure(self, blocks: int) -> None:
        """The registers of each value. Blocks of a cluster may share a tensor, so each is counted with its share."""
        for value in self.module.values:
            kind = value.kind
            bits = _bits(kind.element) if kind is not None and value.content and value.is_useful else 0
            if bits and kind is not None:
                elements = self.layouts.elements(kind, value.content)
                value.registers = -(-elements * bits // (32 * blocks))

    def _mark_useful(self) -> None:
        """What an effect (a store, a copy, a condition) rests on; the rest is never computed."""
        work: List[Value] = []
        for operation in self.module.operations:
            has_effect = not operation.results and operation.name != "scf.yield"
            if has_effect or operation.name in ("tt.call", "scf.if", "tt.atomic_rmw", "tt.atomic_cas"):
                work.extend(operation.operands)
        while work:
            value = work.pop()
            if not value.is_useful:
                value.is_useful = True
                work.extend(value.inputs)
                if value.back is not None:
                    work.append(value.back)

    # ------------------------------------------------------------------------------------------------------ moments

    def bound(self) -> int:
        """The fullest moment's registers."""
        best = 0
        for operation in self.module.operations:
            if not operation.name.endswith(_MOMENT_NAMES):
                continue
            moment = self._moment(operation)
            if moment is not None:
                best = max(best, self._held(moment, self._not_taken(operation), best))
        return best

    def _moment(self, operation: Operation) -> Optional[_Moment]:
        name = operation.name
        around = [self.loops[owner] for owner, _ in operation.path if owner in self.ordered]
        if name in _LOOPS:
            if operation.index not in self.ordered:
                return None
            computed = {result.index for one in self.inside.get(operation.index, ()) for result in one.results}
            return _Moment([*around, operation], {i for i in computed if self._is_source(i)}, set())
        if name.endswith("warp_group_dot"):
            # Its tiles may end one after the other, so what follows may have made less of the first ones already.
            return self._moment_at(operation, around, through_elementwise=True)
        if name == "tt.reduce" and self._meets(operation):
            return self._moment_at(operation, around, through_elementwise=False)
        return None

    def _moment_at(self, operation: Operation, around: List[Operation], *, through_elementwise: bool) -> _Moment:
        before = {i for i in _ancestors(operation.operands) if self._is_source(i)}
        before.update(result.index for result in operation.results)
        later: Set[int] = set()
        read: Set[int] = set()
        work = list(operation.results)
        while work:
            for user in self.users.get(work.pop().index, ()):
                if user.name.startswith("scf."):
                    continue
                if not through_elementwise or not (_is_elementwise(user.name) or user.name in _RESHAPING):
                    read.update(operand.index for operand in user.operands)
                for result in user.results:
                    if result.index not in later:
                        later.add(result.index)
                        work.append(result)
        return _Moment(around, before, read - later)

    def _meets(self, operation: Operation) -> bool:
        """Whether a reduction needs all its elements before it gives any: at a barrier, or for one result per thread."""
        kind = operation.operands[0].kind if operation.operands else None
        if kind is None or not operation.results:
            return False
        result = operation.results[0].kind
        return (
            result is None
            or self.layouts.elements(result, result.varied) == 1
            or self.layouts.meets_at_barrier(kind, _axis(operation))
        )

    def _is_ordered(self, loop: Operation) -> bool:
        """Whether iterations stay apart: there are many of them, or something in them keeps its place."""
        trips = most_trips(loop)
        if trips is None or trips >= _UNROLLED_BELOW:
            return True
        return trips > 1 and any(one.name.endswith(_ORDERED_IN_LOOPS) for one in self.inside.get(loop.index, ()))

    def _is_source(self, index: int) -> bool:
        value = self.module.values[index]
        return bool(value.registers) and value.operation is not None and value.operation.name in _SOURCES

    def _from_outside(self, loop: Operation) -> Dict[int, Value]:
        """Values that the loop reads in each iteration and does not make."""
        members = {one.index for one in self.inside.get(loop.index, ())} | {loop.index}
        return {
            operand.index: operand
            for one in self.inside.get(loop.index, ())
            for operand in one.operands
            if operand.operation is None or operand.operation.index not in members
        }

    def _not_taken(self, operation: Operation) -> Set[int]:
        """Values of branches that are not entered when control is at the operation, and what unrolled loops around it carry."""
        here = dict(operation.path)
        unrolled = [loop for index, loop in self.loops.items() if index in here and index not in self.ordered]
        branches = [owner for owner in here if self.module.operations[owner].name == "scf.if"]
        found = {argument.index for loop in unrolled for argument in loop.arguments}
        for owner in branches:
            others = (one for one in self.inside[owner] if dict(one.path)[owner] != here[owner])
            found.update(result.index for one in others for result in one.results)
        return found

    def _held(self, moment: _Moment, without: Set[int], floor: int) -> int:
        """The smallest cut between before and after, as far as it is more than ``floor``."""
        before, after = set(moment.before), set(moment.after)
        for loop in moment.loops:
            before.update(argument.index for argument in loop.arguments)
            after.update(argument.back.index for argument in loop.arguments if argument.back is not None)
            after.update(self.needed_by_loop[loop.index])
        if moment.loops:
            outside = _ancestors(self.needed_by_loop[moment.loops[-1].index].values())
            before.update(index for index in outside if self._is_source(index))
        values = self.module.values
        nodes = {value.index: value.registers for value in values if value.registers and value.index not in without}
        sources, sinks = before & nodes.keys(), after & nodes.keys()
        if min(sum(nodes[index] for index in sources), sum(nodes[index] for index in sinks)) <= floor:
            return 0
        edges: Dict[int, List[int]] = {}
        for index in nodes:
            for one in values[index].inputs:
                if one.index in nodes:
                    edges.setdefault(one.index, []).append(index)
        return _smallest_cut(nodes, edges, sources, sinks)


def _bits(element: str) -> int:
    """Bits that an element takes at least; 0 for predicates and addresses. LLVM may narrow 64-bit integers."""
    match = re.match(r"(?:b?f|i)(\d+)", element)
    if match is None or element == "i1":
        return 0
    return min(int(match.group(1)), 32 if element[0] == "i" else 64)


def _is_elementwise(name: str) -> bool:
    return name.startswith(("arith.", "math.")) or name in _ELEMENTWISE or name.endswith("warp_group_dot_wait")


def _axis(operation: Operation) -> int:
    match = re.search(r"axis = (\d+)", operation.text)
    return int(match.group(1)) if match else 0


def _reshaping(operation: Operation, result: Tensor, operand: Tensor) -> Callable[[int], int]:
    """How an operation that reshapes moves the bits of dimensions."""
    name = operation.name
    if name == "tt.expand_dims":
        below = (1 << _axis(operation)) - 1
        return lambda bits: bits & below | (bits & ~below) << 1
    if name == "tt.trans":
        match = re.search(r"order = array<i32: ([\d, ]+)>", operation.text)
        order = [int(number) for number in match.group(1).split(",")] if match else []
        return lambda bits: sum(1 << new for new, old in enumerate(order) if bits >> old & 1)
    if name == "tt.reshape":
        return lambda bits: result.varied if bits == operand.varied else 0
    if name == "tt.join":
        return lambda bits: bits | 1 << len(result.shape) - 1 if bits else 0
    return lambda bits: bits


def _ancestors(values: Iterable[Value]) -> Set[int]:
    seen: Set[int] = set()
    work = list(values)
    while work:
        value = work.pop()
        if value.index not in seen:
            seen.add(value.index)
            work.extend(value.inputs)
    return seen


def _has_known_mask(load: Operation) -> bool:
    """Whether a mask compares a known range with a constant: LLVM then knows of some elements that they are not loaded."""
    work = [operand for operand in load.operands[1:2] if "i1" in operand.type]
    seen: Set[int] = set()
    while work:
        value = work.pop()
        operation = value.operation
        if value.index in seen or operation is None:
            continue
        seen.add(value.index)
        if operation.name != "arith.cmpi":
            work.extend(value.inputs)
        elif len(operation.operands) == 2 and all(map(_is_known, operation.operands)) and not _always_holds(operation):
            return True
    return False


def _always_holds(comparison: Operation) -> bool:
    """Whether a range is compared with a constant at or past its end, as in ``columns < N`` for a block of N."""
    span, limit = comparison.operands
    while span.operation is not None and span.operation.name != "tt.make_range":
        if span.operation.name not in _RESHAPING | {"ttg.convert_layout"} or not span.inputs:
            return False
        span = span.inputs[0]
    end = re.search(r"end = (\d+)", span.operation.text if span.operation is not None else "")
    constant = re.match(r" dense<(\d+)>", limit.operation.text if limit.operation is not None else "")
    return (
        end is not None
        and constant is not None
        and comparison.text.startswith((" slt,", " ult,"))
        and int(end.group(1)) <= int(constant.group(1))
    )


def _is_known(value: Value) -> bool:
    """Made of ranges and constants alone."""
    operation = value.operation
    if operation is None:
        return False
    if operation.name in ("arith.constant", "tt.make_range"):
        return True
    moves = operation.name in _RESHAPING or operation.name == "tt.splat" or _is_elementwise(operation.name)
    return moves and len(value.inputs) > 0 and all(map(_is_known, value.inputs))


_Node = Tuple[int, bool]


def _smallest_cut(nodes: Dict[int, int], edges: Dict[int, List[int]], sources: Set[int], sinks: Set[int]) -> int:
    """The least weight of nodes that separate sources from sinks: the largest flow (Ford and Fulkerson), nodes split in two."""
    through = dict.fromkeys(nodes, 0)
    along: Dict[Tuple[int, int], int] = {}
    incoming: Dict[int, List[int]] = {}
    for start, ends in edges.items():
        for end in ends:
            incoming.setdefault(end, []).append(start)
    total = 0
    while True:
        path = _path(nodes, edges, incoming, through, along, sources, sinks)
        if not path:
            return total
        steps = list(zip(path, path[1:]))  # noqa: B905, RUF007 (Python 3.9)
        amount = min(_room(step, nodes, through, along) for step in steps)
        for (start, is_out), (end, _) in steps:
            if start == end:
                through[start] += -amount if is_out else amount
            elif is_out:
                along[start, end] = along.get((start, end), 0) + amount
            else:
                along[end, start] -= amount
        total += amount


def _room(
    step: Tuple[_Node, _Node], nodes: Dict[int, int], through: Dict[int, int], along: Dict[Tuple[int, int], int]
) -> int:
    (start, is_out), (end, _) = step
    if start == end:
        return through[start] if is_out else nodes[start] - through[start]
    return 1 << 30 if is_out else along[end, start]


def _path(
    nodes: Dict[int, int],
    edges: Dict[int, List[int]],
    incoming: Dict[int, List[int]],
    through: Dict[int, int],
    along: Dict[Tuple[int, int], int],
    sources: Set[int],
    sinks: Set[int],
) -> List[_Node]:
    """A shortest way on which more can flow, from a source's entry to a sink's exit; empty when there is none."""
    parents: Dict[_Node, Optional[_Node]] = {(source, False): None for source in sorted(sources)}
    queue: List[_Node] = list(parents)
    for here in queue:
        index, is_out = here
        following: List[_Node] = []
        if is_out:
            if index in sinks:
                path: List[_Node] = []
                step: Optional[_Node] = here
                while step is not None:
                    path.append(step)
                    step = parents[step]
                return path[::-1]
            following.extend((end, False) for end in edges.get(index, ()))
            if through[index]:
                following.append((index, False))
        else:
            if through[index] < nodes[index]:
                following.append((index, True))
            following.extend((start, True) for start in incoming.get(index, ()) if along.get((start, index)))
        for one in following:
            if one not in parents:
                parents[one] = here
                queue.append(one)
    return []
