import itertools

import matplotlib.pyplot as plt
import pytest

from mlm.report.loss_by_setting import loss_by_setting

RATES, SIZES, OPTIMIZERS = (0.003, 0.012), (128, 192, 256), ("muon", "adamw")


def drawn(settings, losses):
    axes = plt.subplots()[1]
    words = loss_by_setting(axes, losses, settings)
    lines = [line for line in axes.lines if line.get_linestyle() != "None"]
    plt.close("all")
    return axes, lines, words


def test_each_line_has_a_look_of_its_own_and_is_the_mean_over_seeds():
    runs = list(itertools.product(SIZES, RATES, OPTIMIZERS, (0, 1)))
    paths = "model.config.hidden_size", "pretraining.optimizer.learning_rate"
    paths += "pretraining.optimizer.name", "pretraining.seed"
    losses = [100 * size + 10 * rate + seed for size, rate, _, seed in runs]
    settings = dict(zip(paths, map(list, zip(*runs, strict=True)), strict=True))
    axes, lines, words = drawn(settings, losses)
    assert axes.get_xlabel() == "hidden_size" and "by hidden_size" in words
    assert [text.get_text() for text in axes.get_xticklabels()] == ["128", "192", "256"]
    looks = {(line.get_color(), str(line._dash_pattern)) for line in lines}
    assert len(lines) == len(looks) == len(RATES) * len(OPTIMIZERS)
    expected = [100 * size + 10 * RATES[0] + 0.5 for size in SIZES]
    assert lines[0].get_ydata() == pytest.approx(expected)
    assert lines[0].get_label() == "learning_rate 0.003, optimizer.name muon"


def test_words_and_what_is_not_set_are_side_by_side_and_one_setting_needs_no_legend():
    axes, (line,), _ = drawn({"pretraining.optimizer.name": ["muon", "adamw", "muon"]}, [1, 3, 2])
    assert [text.get_text() for text in axes.get_xticklabels()] == ["muon", "adamw"]
    assert line.get_ydata() == pytest.approx([1.5, 3]) and not axes.get_legend_handles_labels()[1]
    axes, _, _ = drawn({"pretraining.optimizer.max_grad_norm": [None, 1.0]}, [1, 2])
    assert [text.get_text() for text in axes.get_xticklabels()] == ["not set", "1"]
    assert drawn({}, [1])[2] == "Line plot without data."
