"""Where an example run starts: functions that reach a launch, and the arguments they are given.

Which function mentions which other one is read from the text; whether it really launches the kernel, the run tells.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import libcst as cst
import networkx as nx

from smemcheck.source.module import Module, Statement
from smemcheck.source.values import Blocked, Call, External, Instance, Obstacle, Place, Raised, UserClass, UserFunction
from smemcheck.specialize.launches.engine import ExampleInterpreter, apply, is_autograd
from smemcheck.specialize.launches.tensors import Geometry, Tensor, tensor

_MOST_ENTRIES = 8
_TENSOR_USE = r"\.(shape|stride|size|dtype|device|contiguous|view|reshape|is_contiguous|numel|ndim|dim|transpose|permute|to|new_empty|new_zeros|data_ptr|element_size)\b"
_INTEGER_NAME = re.compile(
    r"(?i)^(b|t|s|l|m|n|h|d|k|v|g|\w*_?(size|len|length|dim|dims|heads?|num|groups?|chunk\w*|block\w*|bits|rank|steps?|idx|offset|n_\w+|num_\w+|max_\w+|top_?k|window\w*|seqlens?|splits?))$|^(n|num|max|block)_\w+$"
)
_INTEGER_TENSOR = re.compile(
    r"(?i)(cu_?seq\w*|\w*indices|\w*_idx|\w*_ids?|index|\w*offsets?|targets?|labels?|block_tables?|\w*lens|varlen|slot_mapping)$"
)
_WIDE_TENSOR = re.compile(
    r"(?i)^(gk|gv|g_?cumsum|h0|ht|dht|dh0|h_init|\w*_?states?|a_?log|dt_bias|lse|delta|decay|rstd|rms|mean|var)$"
)
_FLOAT_NAME = re.compile(
    r"(?i)(scale|eps|epsilon|alpha|beta|lr|dropout\w*|p|prob|softcap|cap|temperature|factor|softmax_scale|sm_scale|slope|smoothing|weight_decay|momentum)$"
)
_FLAG_NAME = re.compile(
    r"(?i)^(is|has|use|with|return|output|do|causal|needs?|require|inplace|reverse|head_first|safe|normalize|save|store|compute|add|fuse|allow|transpose|enable|training)(_|$)|causal$"
)
_DOCUMENTED = re.compile(
    r"[`*]{0,2}(\w+)[`*]{0,2}\s*(?:\([^)\n]*\))?\s*:\s*[^\[\n]*\n?[^\[\n]*\[([A-Za-z][\w+]*(?:\s*,\s*[\w+]+)*)\]"
)

_NAMED: dict[str, list[str]] = {"activation": ["swish"], "act_type": ["silu", "gelu"]}
"""Texts that callers give for parameters of these names where the code compares them with nothing."""


_COMPILER_OPTION = re.compile(r"(?i)warps|stages|num_ctas|maxnreg")


@dataclass(frozen=True, slots=True)
class Entry:
    """A top-level function or class of the source to start from."""

    module: Module
    statement: Statement

    @property
    def key(self) -> tuple[str, int]:
        return self.module.path, self.statement.index


class Callers:
    """The graph of who mentions whom: an edge from a top-level definition to each one that mentions its name."""

    def __init__(self, modules: Sequence[Module]) -> None:
        self.modules = list(modules)
        self.graph: nx.DiGraph[tuple[str, int]] = nx.DiGraph()
        self.entries: dict[tuple[str, int], Entry] = {}
        self.defined: dict[str, list[Entry]] = {}
        for module in self.modules:
            for statement in module.statements:
                if statement.kind in ("def", "class") and statement.defined_name:
                    entry = Entry(module, statement)
                    self.entries[entry.key] = entry
                    self.defined.setdefault(statement.defined_name, []).append(entry)
        self._mentions: dict[str, list[tuple[Module, Statement]]] = {}
        for module in self.modules:
            for statement in module.statements:
                for name in statement.mentions:
                    if name in self.defined:
                        self._mentions.setdefault(name, []).append((module, statement))

    def mentioning(self, name: str) -> list[Statement]:
        """The statements whose text has the name of a definition."""
        return [statement for _, statement in self._mentions.get(name, ())]

    def _callers(self, entry: Entry) -> Iterator[Entry]:
        name = entry.statement.defined_name or ""
        alone = len(self.defined.get(name, ())) == 1
        seen = {
            module.path
            for module, statement in self._mentions.get(name, ())
            if statement.kind == "from" and (alone or _may_import(statement, entry))
        }
        names = {name}
        for module, statement in self._mentions.get(name, ()):
            if statement.kind == "simple" and module is entry.module:  # apply_it = Function.apply
                match = re.match(r"(\w+)\s*=[^=]", statement.text)
                if match and match[1] != name:
                    names.add(match[1])
        for alias in names:
            sources = (
                self._mentions.get(alias, ())
                if alias == name
                else [
                    (m, s)
                    for m in self.modules
                    for s in m.statements
                    if s.kind in ("def", "class") and alias in s.mentions
                ]
            )
            for module, statement in sources:
                here = module is entry.module or module.path in seen or alias != name or f".{name}" in statement.text
                if statement.kind in ("def", "class") and here and (module.path, statement.index) != entry.key:
                    yield Entry(module, statement)

    def _applies(self, key: tuple[str, int]) -> bool:
        """Whether a function wraps an autograd function: users call it, whatever else does."""
        statement = self.entries[key].statement
        return (
            statement.kind == "def"
            and ".apply(" in statement.text
            and not (statement.defined_name or "_").startswith("_")
        )

    def reaching(self, path: str, name: str, line: int) -> list[tuple[Entry, bool]]:
        """Definitions that may lead to a launch of the kernel ``name`` defined on ``line``, and whether nothing leads to them.

        Outermost ones come first, then the others from the launching function on.
        """
        start = next(
            (e for e in self.defined.get(name, ()) if e.module.path == path and e.statement.definition_line == line),
            None,
        )
        inside = False
        if start is None:
            start = next(
                (
                    e
                    for e in self.entries.values()
                    if e.module.path == path
                    and e.statement.span.line <= line < e.statement.span.line + e.statement.text.count("\n") + 1
                ),
                None,
            )
            if start is None:
                return []
            inside = True
        graph: nx.DiGraph[tuple[str, int]] = nx.DiGraph()
        graph.add_node(start.key)
        level = {start.key: 0}
        pending = [start]
        while pending and len(level) < 60:
            entry = pending.pop(0)
            if level[entry.key] >= 7:
                continue
            for caller in self._callers(entry):
                if "jit" in caller.statement.decorator_text and caller.statement.kind == "def":
                    if caller.key not in level and level[entry.key] == 0:
                        level[caller.key] = 0
                        pending.append(caller)
                    continue
                graph.add_edge(entry.key, caller.key)
                if caller.key not in level:
                    level[caller.key] = level[entry.key] + 1
                    pending.append(caller)
        reached = [key for key in graph.nodes if level.get(key, 0) > 0]
        tops = [key for key in reached if graph.out_degree(key) == 0 or self._applies(key)]
        tops.sort(key=lambda key: (self.entries[key].module.path != path, level[key]))
        rest = sorted((key for key in reached if key not in tops), key=lambda key: level[key])
        order = [*tops[:5], *rest]
        if inside:  # the kernel is made by a function, which may launch it itself
            order.append(start.key)
        return [(self.entries[key], key in tops) for key in order][:_MOST_ENTRIES]


def _may_import(statement: Statement, entry: Entry) -> bool:
    """Whether a ``from … import`` can be of an entry's file, where several files define its name."""
    match = re.match(r"from\s+([.\w]+)\s+import", statement.text)
    last = match[1].rpartition(".")[2] if match else ""
    return not last or last in re.split(r"[/\\.]", entry.module.path)


# --------------------------------------------------------------------------------------------------------------- start


def start(interpreter: ExampleInterpreter, entry: Entry) -> None:
    """Run an entry with example arguments; a class by applying it, or by calling its methods."""
    namespace = interpreter.namespace(entry.module)
    value = namespace.lookup(entry.statement.defined_name or "")
    if isinstance(value, UserFunction):
        _call(interpreter, value)
    elif isinstance(value, UserClass) and is_autograd(value):
        forward = value.lookup("forward")
        if isinstance(forward, UserFunction):
            arguments, keywords = example_arguments(interpreter, forward, skip=1)
            apply(interpreter, value, Call(interpreter, arguments, keywords, forward.place))
    elif isinstance(value, UserClass):
        for name, function in list(value.namespace.items()):
            if isinstance(function, UserFunction) and (not name.startswith("_") or name == "__call__"):
                instance = Instance(value) if function.qualifier not in ("staticmethod", "classmethod") else value
                arguments, keywords = example_arguments(
                    interpreter, function, skip=0 if function.qualifier == "staticmethod" else 1
                )
                first = [] if function.qualifier == "staticmethod" else [instance]
                interpreter.call(function, [*first, *arguments], keywords, function.place)


def _call(interpreter: ExampleInterpreter, function: UserFunction) -> None:
    arguments, keywords = example_arguments(interpreter, function)
    interpreter.call(function, arguments, keywords, function.place)


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the text of a function says of one parameter."""

    annotation: str
    is_tensor: bool
    compared: bool  # with None
    texts: tuple[str, ...]  # that it is compared with
    dimensions: tuple[str, ...] | None  # their names, from its documentation


def _facts(
    interpreter: ExampleInterpreter, function: UserFunction, parameters: Sequence[cst.Param]
) -> dict[str, _Facts]:
    known = interpreter.hints.parameters.get(id(function.node))
    if known is None or known[0] is not function.node:
        text = (
            function.statement.text if function.statement is not None else cst.Module([]).code_for_node(function.node)
        )
        documented = {m[1]: tuple(part.strip() for part in m[2].split(",")) for m in _DOCUMENTED.finditer(text)}
        facts = {p.name.value: _facts_of(p, text, documented) for p in parameters}
        known = interpreter.hints.parameters[id(function.node)] = (function.node, facts)
    return known[1]


def _facts_of(parameter: cst.Param, text: str, documented: dict[str, tuple[str, ...]]) -> _Facts:
    name = parameter.name.value
    word = re.escape(name)
    annotation = "" if parameter.annotation is None else cst.Module([]).code_for_node(parameter.annotation.annotation)
    is_tensor = "Tensor" in annotation or (not annotation and bool(re.search(rf"\b{word}{_TENSOR_USE}", text)))
    compared = bool(re.search(rf"\b{word}\s+is\s+(not\s+)?None\b", text))
    return _Facts(annotation, is_tensor, compared, tuple(_texts(name, text)), documented.get(name))


def example_arguments(
    interpreter: ExampleInterpreter, function: UserFunction, skip: int = 0
) -> tuple[list[Any], dict[str, Any]]:
    """An example value for each positional parameter, and for those that are keywords only."""
    _, node = function.full()
    positional = [*node.params.posonly_params, *node.params.params]
    facts = _facts(interpreter, function, [*positional, *node.params.kwonly_params])
    values = [_example(interpreter, function, p, facts[p.name.value]) for p in positional[skip:]]
    keywords = {
        p.name.value: _example(interpreter, function, p, facts[p.name.value]) for p in node.params.kwonly_params
    }
    return values, keywords


def _example(interpreter: ExampleInterpreter, function: UserFunction, parameter: cst.Param, facts: _Facts) -> Any:
    name = parameter.name.value
    annotation, is_tensor, compared = facts.annotation, facts.is_tensor, facts.compared
    key = (function.module.path, function.name, id(function.node), name)
    sizes = interpreter.plan.sizes
    has_default = parameter.default is not None
    default = function.defaults.get(name)
    texts = list(facts.texts)
    optional = "index" if _INTEGER_TENSOR.search(name) or "LongTensor" in annotation else "optional"

    def made() -> Any:
        return _tensor(interpreter, name, annotation, facts.dimensions)

    if _COMPILER_OPTION.search(name) and (not has_default or default is None):
        # An invented number of warps or stages would be reported as if somebody launched with it.
        return (
            None
            if has_default
            else Obstacle(f"the caller of {function.name}() chooses {name}", Place(function.unit, parameter))
        )
    if has_default and isinstance(default, bool):
        return default if interpreter.pick(key, "flag", 2) == 0 else not default
    if has_default and default is None:
        other: Any = None
        if not is_tensor and (texts or "str" in annotation):
            choices = [None, *(texts or _NAMED.get(name, []))]
            return choices[interpreter.pick(key, "text", len(choices))]
        if is_tensor or (not annotation and not _FLOAT_NAME.search(name) and not _INTEGER_NAME.match(name)):
            if interpreter.pick(key, optional, 2) == 0:
                return None
            return made()
        if "float" in annotation or (_FLOAT_NAME.search(name) and not annotation):
            other = 0.5
        elif "bool" in annotation:
            other = True
        elif "int" in annotation or _INTEGER_NAME.match(name):
            other = _integer(name, sizes)
        elif "dtype" in annotation:
            other = External("torch.float32")
        if other is None:
            return None
        if other == 0.5:  # callers write 1 as often as 1.0, and Triton makes a constant of it
            return (None, other, 1)[interpreter.pick(key, "value", 3)]
        return None if interpreter.pick(key, "value", 2) == 0 else other
    if has_default and isinstance(default, str):
        texts = [default, *(t for t in texts if t != default)]
        return texts[interpreter.pick(key, "text", len(texts))]
    if has_default and not isinstance(default, Obstacle):
        return default
    if not annotation and compared and not has_default:
        if interpreter.pick(key, optional, 2) == 0:
            return None
        if _FLOAT_NAME.search(name):
            return 0.5
        return made()
    if annotation:
        if "Tensor" in annotation:
            if re.search(r"Optional|None", annotation) and interpreter.pick(key, optional, 2, 1) == 0:
                return None
            if re.match(r"(?i)(list|tuple|sequence|iterable)\b", annotation):
                return tuple(made() for _ in range(2))
            return made()
        if re.search(r"\bdtype\b", annotation):
            return (External(interpreter.plan.dtype), External("torch.float32"))[interpreter.pick(key, "dtype", 2)]
        if re.search(r"\bbool\b", annotation):
            return interpreter.pick(key, "flag", 2) == 0
        if re.search(r"\bfloat\b", annotation):
            return 0.5
        if re.search(r"\bint\b", annotation):
            return _integer(name, sizes)
        if re.search(r"\bstr\b|Literal", annotation):
            texts = re.findall(r"['\"](\w+)['\"]", annotation) or texts
            return (
                texts[interpreter.pick(key, "text", len(texts))]
                if texts
                else Obstacle("a text of the caller is not known", Place(function.unit, parameter))
            )
        instance = _of_class(interpreter, function, annotation)
        if instance is not None:
            return instance
    if is_tensor:
        return made()
    if _INTEGER_TENSOR.search(name) and not annotation:
        return None if interpreter.pick(key, "index", 2) == 0 else made()
    if texts or name in _NAMED:
        texts = texts or _NAMED[name]
        return texts[interpreter.pick(key, "text", len(texts))]
    if _FLAG_NAME.search(name):
        return interpreter.pick(key, "flag", 2) == 0
    if _FLOAT_NAME.search(name):
        return 0.5
    if len(name) > 1 and _INTEGER_NAME.match(name):
        return _integer(name, sizes)
    found = made()
    found.attributes["<guessed>"] = True
    return found


def _of_class(interpreter: ExampleInterpreter, function: UserFunction, annotation: str) -> Any:
    """An object of a class of the source that an annotation names, as its defaults make it; ``None`` when they do not."""
    if not re.fullmatch(r"[A-Za-z_]\w*", annotation):
        return None
    try:
        cls = interpreter.namespace(function.module).lookup(annotation)
        return interpreter.call(cls, [], {}, function.place) if isinstance(cls, UserClass) else None
    except (KeyError, Raised, Blocked):
        return None


def _texts(name: str, text: str) -> list[str]:
    """The strings that code compares a parameter with."""
    found = re.findall(rf"\b{re.escape(name)}\s*(?:==|!=)\s*['\"]([^'\"\n]+)['\"]", text)
    for group in re.findall(rf"\b{re.escape(name)}\s+(?:not\s+)?in\s*[\[({{]([^\])}}\n]*)[\])}}]", text):
        found.extend(re.findall(r"['\"]([^'\"\n]+)['\"]", group))
    return list(dict.fromkeys(found))


def _integer(name: str, sizes: Any) -> int:
    if re.search(r"(?i)chunk|block|^b[tskvmn]$", name):
        return 64
    if re.search(r"(?i)bits", name):
        return 4
    if re.search(r"(?i)top_?k", name):
        return 2
    if re.search(r"(?i)group_?size", name):
        return 128
    return int(sizes.of(name, 1, 4))


def _tensor(interpreter: ExampleInterpreter, name: str, annotation: str, names: tuple[str, ...] | None) -> Tensor:
    sizes = interpreter.plan.sizes
    geometry = Geometry(sizes)
    if names:
        geometry.settle(len(names), list(names))
    for cls, dtype in (("IntTensor", "int32"), ("BoolTensor", "bool")):
        if cls in annotation:
            return tensor(External(f"torch.{dtype}"), geometry, name=name)
    if _INTEGER_TENSOR.search(name) or "LongTensor" in annotation:
        if geometry.dims is None:
            geometry.settle(1, ["5"])
        return tensor(External(interpreter.plan.index), geometry, assumed=True, name=name)
    if _WIDE_TENSOR.match(name):
        return tensor(External("torch.float32"), geometry, assumed=True, name=name)
    return tensor(External(interpreter.plan.dtype), geometry, assumed=True, name=name)
