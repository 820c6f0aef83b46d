"""The rules that a train step must keep for XLA, checked on the graph that TensorFlow traced.

They are those of the TPU guide of the TensorFlow documentation and of "XLA known issues":
shapes, sizes and control flow are known before the first step, and all of it runs on the
device. Each finding names the operation and the line that made it.
"""

import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from mlm.accelerators.artefacts import ERROR, Finding
from mlm.foundations.framework import tf

_BRANCHES = ("If", "StatelessIf", "Case", "StatelessCase", "Switch", "RefSwitch")
_LOOPS = ("While", "StatelessWhile")
#: Operations whose result has as many elements as the data says.
_SHAPED_BY_DATA = (
    *("BooleanMask", "DynamicPartition", "ListDiff", "NonMaxSuppressionV3", "SparseFillEmptyRows"),
    *("Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2", "Where"),
)
_HOST = (
    *("EagerPyFunc", "IteratorGetNext", "LogicalDevice", "Print", "PrintV2", "PyFunc"),
    *("PyFuncStateless", "ReadFile", "Timestamp", "WriteFile"),
)
_HOST_PREFIXES = ("Debug", "LookupTable", "TensorArray", "Write")
_GATHERS = ("Gather", "Scatter", "ResourceGather", "ResourceScatter", "TensorScatter")
_DOUBLE = (tf.float64, tf.complex128)
#: Asserts and the texts they would print are dropped by XLA.
_DROPPED = "Assert"


def check_graph(function) -> list[Finding]:
    """Every broken rule in a traced function (tf.ConcreteFunction), in the graph's order.

    A rule that one line breaks many times is reported once for each operation and line.
    """
    found = [*_input_shapes(function)]
    for op in operations(function.graph):
        found += _check(op)
    return list(dict.fromkeys(found))


def operations(graph, seen: frozenset[str] = frozenset()) -> Iterator:
    """The operations of a graph and of the functions that they call, depth first."""
    for op in graph.get_operations():
        yield op
        for name in _called(op):
            inner = _graph_of(graph, name)
            if inner is not None and name not in seen:
                yield from operations(inner, seen | {name})


def _called(op) -> list[str]:
    names = []
    for attribute in op.node_def.attr.values():
        if attribute.HasField("func"):
            names.append(attribute.func.name)
        names += [f.name for f in attribute.list.func]
    return names


def _graph_of(graph, name: str):
    """The graph of the function `name` that `graph` knows, or None."""
    while graph is not None:
        function = graph._functions.get(name) if hasattr(graph, "_functions") else None
        if function is not None:
            return getattr(function, "graph", None)
        graph = getattr(graph, "outer_graph", None)
    return None


def _input_shapes(function) -> Iterator[Finding]:
    for tensor in tf.nest.flatten(function.structured_input_signature):
        if isinstance(tensor, tf.TensorSpec) and not tensor.shape.is_fully_defined():
            yield Finding(
                "static_shapes",
                ERROR,
                f"the input {tensor.name or ''} has shape {tuple(tensor.shape)}; XLA compiles for "
                "fixed sizes. Batch with drop_remainder=True and set every size",
            )


def _check(op) -> Iterator[Finding]:
    kind = op.type
    if kind in _BRANCHES:
        yield _finding(
            "static_control_flow", op, "a branch depends on a tensor; compute both and use tf.where"
        )
    elif kind in _LOOPS and not _counted(op):
        yield _finding(
            "static_control_flow", op, "a loop runs until the data says so; give it a fixed count"
        )
    if kind in _SHAPED_BY_DATA:
        yield _finding(
            "static_shapes",
            op,
            "the size of the result depends on the data; keep the size and use weights of 0",
        )
    elif (
        kind != "Placeholder"
        and any(not _known(t) for t in op.outputs)
        and all(_known(t) for t in op.inputs)
    ):
        # Only where the unknown begins (an input has a finding of its own): what follows from
        # it is the same fault.
        shape = next(t.shape for t in op.outputs if not _known(t))
        yield _finding("static_shapes", op, f"the result has the unknown shape {shape}")
    if kind.startswith(_GATHERS) and any(not _known(t) for t in [*op.inputs, *op.outputs]):
        yield _finding("known_gather_sizes", op, "sizes are not known before the step runs")
    if any(t.dtype.base_dtype in _DOUBLE for t in op.outputs):
        yield _finding(
            "no_float64", op, "TPUs have no float64 (it is emulated, slowly); use tf.float32"
        )
    if _on_host(op):
        yield _finding("no_host_ops", op, "runs on the host, which a TPU step cannot wait for")


def _known(tensor) -> bool:
    """Whether the shape is known, as far as the tensor has one that matters to XLA."""
    if tensor.dtype.base_dtype in (tf.resource, tf.variant, tf.string):
        return True
    return tensor.shape.is_fully_defined()


def _on_host(op) -> bool:
    if op.type in _HOST or op.type.startswith(_HOST_PREFIXES):
        return True
    texts = [t for t in [*op.inputs, *op.outputs] if t.dtype.base_dtype == tf.string]
    if not texts or op.type == _DROPPED:
        return False
    consumers = [c.type for t in op.outputs for c in t.consumers()]
    # A text that only an assert or a print would show is that operation's matter.
    return not (op.type == "Const" and all(c in (_DROPPED, *_HOST) for c in consumers))


def _counted(loop) -> bool:
    """Whether a While counts: its condition looks at whole numbers alone, begun as constants."""
    condition = _graph_of(loop.graph, loop.get_attr("cond").name)
    if condition is None:
        return False
    places = {id(t): i for i, t in enumerate(condition.inputs)}
    looked_at = {places[id(t)] for t in _ancestors(condition.outputs[0]) if id(t) in places}
    begun = [loop.inputs[place] for place in looked_at]
    return all(t.dtype.is_integer and _constant(t) for t in begun)


def _ancestors(tensor) -> Iterator:
    """The tensor and all that it is computed from, in its own graph."""
    waiting, seen = [tensor], set()
    while waiting:
        tensor = waiting.pop()
        if id(tensor) not in seen:
            seen.add(id(tensor))
            yield tensor
            waiting += list(tensor.op.inputs)


def _constant(tensor) -> bool:
    """Whether it is computed from constants alone."""
    ops = [t.op for t in _ancestors(tensor)]
    return not any(op.type == "Placeholder" or op.op_def.is_stateful for op in ops)


def _finding(rule: str, op, message: str) -> Finding:
    return Finding(rule, ERROR, message, op=op.type, source=source_line(op.traceback))


_LIBRARIES = tuple(
    {str(Path(sysconfig.get_path(k)).resolve()) for k in ("stdlib", "purelib", "platlib")}
)


def source_line(traceback) -> str:
    """ "file:line, in function" of the innermost line outside the installed packages.

    A gradient is made by the line that asked for it. Empty where no line is known.
    """
    for frame in reversed(list(traceback or [])):
        name = str(frame.filename)
        if name.startswith("<") or "__autograph_generated_file" in name:
            continue
        path = Path(name)
        path = (path if path.is_absolute() else Path("/") / path).resolve()
        if not str(path).startswith(_LIBRARIES):
            return f"{_shown(path)}:{frame.lineno}, in {frame.name}"
    return ""


def _shown(path: Path) -> str:
    """A path that is the same on every machine: below the code's root, else the bare name."""
    for root in (Path(__file__).parents[3], *map(Path, sys.path[:1])):
        if root.resolve() in path.parents:
            return str(path.relative_to(root.resolve()))
    return path.name
