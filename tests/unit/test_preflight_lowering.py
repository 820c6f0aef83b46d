import numpy as np
import pytest
from small_pretraining import small_pretraining

from mlm.accelerators.artefacts import failed
from mlm.accelerators.lowering import lower, tile_advice, train_step_of
from mlm.accelerators.step_sizes import model_figures
from mlm.accelerators.xla_rules import check_graph
from mlm.foundations.tensorflow_setup import tf
from mlm.training.in_tensorflow.model import number_of_parameters

SIGNATURE = {"x": tf.TensorSpec((8, 16), tf.float32, name="x")}
WEIGHTS = tf.Variable(np.ones((16, 16), np.float32))


def clean(batch):
    return tf.reduce_sum(batch["x"] @ WEIGHTS)


def unique(batch):
    return tf.reduce_sum(tf.unique(tf.reshape(batch["x"], [-1]))[0])


def branch(batch):
    if clean(batch) > 0:
        return clean(batch)
    return -clean(batch)


def loop(batch):
    x = batch["x"]
    while tf.reduce_sum(x) < 3.0:
        x = x + 1.0
    return x


def gather(batch):
    return tf.gather(batch["x"], tf.range(tf.cast(clean(batch), tf.int32)))


def printing(batch):
    tf.print("loss", clean(batch))
    return clean(batch)


def py_function(batch):
    return tf.ensure_shape(tf.py_function(np.sum, [batch["x"]], tf.float32), [])


FAULTS = [
    (unique, "static_shapes", "Unique"),
    (branch, "static_control_flow", "If"),
    (loop, "static_control_flow", "StatelessWhile"),
    (lambda b: tf.boolean_mask(b["x"], b["x"] > 0), "static_shapes", "Where"),
    (gather, "known_gather_sizes", "GatherV2"),
    (py_function, "no_host_ops", "EagerPyFunc"),
    (printing, "no_host_ops", "PrintV2"),
    (lambda b: tf.strings.as_string(clean(b)), "no_host_ops", "AsString"),
    (lambda b: tf.constant(2.0, tf.float64), "no_float64", "Const"),
]


@pytest.mark.parametrize(("step", "rule", "op"), FAULTS)
def test_a_planted_fault_is_caught_with_its_operation_and_line(step, rule, op):
    found = {(f.rule, f.op): f for f in failed(lower(step, SIGNATURE)[1])}
    assert (rule, op) in found
    source = found[rule, op].source
    assert source.startswith("tests/unit/test_preflight_lowering.py:")
    line = int(source.split(":")[1].split(",")[0])
    first = step.__code__.co_firstlineno
    assert first <= line <= first + 4


def test_an_input_of_unknown_size_is_caught():
    _, found = lower(clean, {"x": tf.TensorSpec((None, 16), tf.float32, name="x")})
    assert [f.rule for f in found] == ["static_shapes"]
    assert "x has shape (None, 16)" in found[0].message


def test_a_branch_that_cannot_even_be_traced_is_caught():
    step = tf.autograph.experimental.do_not_convert(branch)
    _, (found,) = lower(step, SIGNATURE)
    assert found.rule == "static_control_flow"
    assert "test_preflight_lowering.py" in found.source


def test_a_fault_inside_a_branch_is_found_too():
    def nested(batch):
        return tf.cond(tf.constant(True), lambda: unique(batch), lambda: clean(batch))

    function = tf.function(nested, input_signature=[SIGNATURE]).get_concrete_function()
    assert ("static_shapes", "Unique") in {(f.rule, f.op) for f in check_graph(function)}


@pytest.mark.parametrize("accumulated", [1, 2])
def test_the_step_that_trains_breaks_no_rule(tmp_path, accumulated):
    step = train_step_of(small_pretraining(tmp_path, accumulated=accumulated))
    program, findings = lower(step.function, step.signature)
    assert findings == [] and program


def test_both_engines_count_the_same_weights_and_products_of_muon(tmp_path):
    run = small_pretraining(tmp_path)
    step = train_step_of(run)
    parameters = number_of_parameters(step.model)
    assert model_figures(run) == {"parameters": parameters, "muon_flops": step.muon_flops}


def test_odd_sizes_get_a_warning_with_their_waste():
    found = tile_advice({"batch": 12, "sequence": 64, "width": 256})
    assert [f.severity for f in found] == ["warning", "advice"]
    said = "batch is 12, no multiple of 8: 25% of a TPU's tiles is padding. Try 16"
    assert said in found[0].message


@pytest.mark.slow
def test_accumulated_batches_are_one_loop_however_many(tmp_path):
    """A step whose graph grew with their number would take hours to compile."""
    programs = []
    for accumulation in (2, 8):
        run = small_pretraining(tmp_path, accumulated=accumulation, per_replica_batch_size=2)
        step = train_step_of(run)
        program, findings = lower(step.function, step.signature)
        assert failed(findings) == []
        programs.append(program)
    two, eight = programs
    assert len(eight) < 1.02 * len(two)


def test_dropouts_leave_the_generator_to_the_device(tmp_path):
    """What the compiling process takes for granted when it draws bits as a TPU does."""
    model = train_step_of(small_pretraining(tmp_path)).model
    generators = [
        layer._random_generator._generator
        for layer in model.submodules
        if isinstance(layer, tf.keras.layers.Dropout) and layer.rate > 0
    ]
    assert generators
    assert {g.algorithm for g in generators} == {tf.random.Algorithm.AUTO_SELECT.value}
