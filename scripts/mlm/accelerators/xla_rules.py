"""The rules that a train step must keep for XLA, checked on the graph that TensorFlow traced.

They are those of the TPU guide of the TensorFlow documentation and of "XLA known issues":
shapes, sizes and control flow are known before the first step, and all of it runs on the
device. Each finding names the operation and the line that made it.
"""

from collections.abc import Iterator
from pathlib import Path

from mlm.accelerators.artefacts import ERROR, Finding
from mlm.foundations.tensorflow_setup import tf

_ROOT = Path(__file__).resolve().parents[3]
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
    found = [
        Finding(
            "static_shapes",
            ERROR,
            f"the input {tensor.name or ''} has shape {tuple(tensor.shape)}; XLA compiles for "
            "fixed sizes. Batch with drop_remainder=True and set every size",
        )
        for tensor in tf.nest.flatten(function.structured_input_signature)
        if isinstance(tensor, tf.TensorSpec) and not tensor.shape.is_fully_defined()
    ]
    for op in operations(function.graph):
        source = source_line(op.traceback)
        found += [Finding(rule, ERROR, said, op.type, source) for rule, said in _broken(op)]
    return list(dict.fromkeys(found))


def operations(graph, seen: frozenset[str] = frozenset()) -> Iterator:
    """The operations of a graph and of the functions that they call, depth first."""
    for op in graph.get_operations():
        yield op
        for value in op.node_def.attr.values():
            for name in (value.func.name, *(f.name for f in value.list.func)):
                inner = _graph_of(graph, name)
                if inner is not None and name not in seen:
                    yield from operations(inner, seen | {name})


def _graph_of(graph, name: str):
    """The graph of the function `name` that `graph` knows, or None."""
    while graph is not None:
        if (function := graph._functions.get(name)) is not None:
            return getattr(function, "graph", None)
        graph = getattr(graph, "outer_graph", None)
    return None


def _broken(op) -> Iterator[tuple[str, str]]:
    """The rules that an operation breaks, with what is wrong and what to do."""
    kind = op.type
    unknown = [t.shape for t in op.outputs if not _known(t)]
    known_inputs = all(_known(t) for t in op.inputs)
    if kind in _BRANCHES:
        yield "static_control_flow", "a branch depends on a tensor; compute both and use tf.where"
    elif kind in _LOOPS and not _counted(op):
        yield "static_control_flow", "a loop runs until the data says so; give it a fixed count"
    if kind in _SHAPED_BY_DATA:
        said = "the size of the result depends on the data; keep the size and use weights of 0"
        yield "static_shapes", said
    elif kind != "Placeholder" and unknown and known_inputs:
        # Only where the unknown begins: what follows from it is the same fault.
        yield "static_shapes", f"the result has the unknown shape {unknown[0]}"
    if kind.startswith(_GATHERS) and (unknown or not known_inputs):
        yield "known_gather_sizes", "sizes are not known before the step runs"
    if any(t.dtype.base_dtype in _DOUBLE for t in op.outputs):
        yield "no_float64", "TPUs have no float64 (it is emulated, slowly); use tf.float32"
    if _on_host(op):
        yield "no_host_ops", "runs on the host, which a TPU step cannot wait for"


def _known(tensor) -> bool:
    """Whether the shape is known, as far as the tensor has one that matters to XLA."""
    without = tensor.dtype.base_dtype in (tf.resource, tf.variant, tf.string)
    return without or tensor.shape.is_fully_defined()


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
    """Whether a While counts: its condition computes with whole numbers alone."""
    condition = _graph_of(loop.graph, loop.get_attr("cond").name)
    ops = [op for op in condition.get_operations() if op.type != "Placeholder"]
    looked_at = [t for op in ops if op.type != "Identity" for t in op.inputs]
    return all(t.dtype.is_integer or t.dtype.is_bool for t in looked_at)


def source_line(traceback) -> str:
    """ "file:line, in function" of the innermost line of this code, "" where none is known.

    A gradient is made by the line that asked for it.
    """
    for frame in reversed(list(traceback or [])):
        path = Path("/", frame.filename)
        if path.is_relative_to(_ROOT) and "site-packages" not in path.parts:
            return f"{path.relative_to(_ROOT)}:{frame.lineno}, in {frame.name}"
    return ""
