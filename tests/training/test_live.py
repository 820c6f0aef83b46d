"""A training that is shown while it runs ends as one that nobody looks at."""

import pytest
from small_run import in_child, result, run_child, small_job, small_results, write_inputs

pytestmark = pytest.mark.slow

PROMPTS = ["w9[MASK]w7", "no mask", "[MASK]" * 2, "w8[MASK]" + "w7[MASK]" * 30]


def shown_run(root: str, overrides: dict) -> None:
    """Train in this process with a page at each row of the log."""
    from pathlib import Path

    from mlm.training import live
    from mlm.training.pretrain import train_and_export

    live._AT_LEAST = live._AT_MOST = 0.0
    settings, files = small_job(Path(root), "shown", overrides)
    page = live.LiveSettings(f"{root}/live.html", PROMPTS, 5)
    train_and_export(
        settings,
        files,
        small_results(Path(root), "shown"),
        shown=lambda run, framework, state: live.live_page(
            page, run, framework, files.tokenizer, state
        ),
    )


@pytest.mark.parametrize("engine", ["tensorflow", "jax"])
def test_a_page_changes_no_bit(tmp_path, engine):
    write_inputs(tmp_path)
    overrides = {"pretraining": {"engine": engine}}
    assert run_child(tmp_path, "unseen", overrides) == 0
    assert in_child(shown_run, str(tmp_path), overrides) == 0
    assert result(tmp_path, "shown") == result(tmp_path, "unseen")
    page = (tmp_path / "live.html").read_text()
    assert "The training has ended" in page and "Answers at step" in page
    # Of the prompts, the one that can be asked.
    assert page.count('class="answer"') == 1
