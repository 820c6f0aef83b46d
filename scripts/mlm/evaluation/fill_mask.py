"""The most probable tokens in place of the mask of a prompt."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mlm.config.evaluation import mask_problem
from mlm.config.families import first_position
from mlm.config.pretraining import engine_for
from mlm.evaluation.artefacts import FilledToken, Prompt
from mlm.evaluation.exported_model import load_tokenizer
from mlm.foundations.atomic import read_json
from mlm.foundations.errors import MlmError, listed
from mlm.model.network import Network, ops_of
from mlm.model.weights import read_exported


def use_cpu(threads: int) -> None:
    """Compute on `threads` threads of the CPU, for the same digits; call before all TensorFlow."""
    if engine_for("auto") == "jax":
        from mlm.training.in_jax.devices import prepare_jax

        prepare_jax("cpu", threads, None)
        return
    from mlm.foundations.tensorflow_setup import tf

    tf.config.set_visible_devices([], "GPU")
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)


def answers(
    directory: str | Path, prompts: Sequence[str], top_k: int, setting: str = "evaluation.prompts"
) -> list[Prompt]:
    """The prompts with their `top_k` answers, those of transformers' fill-mask pipeline. Raises
    MlmError with every prompt of `setting` that is too long or does not hold one mask token."""
    tokenizer, (architecture, weights) = load_tokenizer(directory), read_exported(directory)
    positions = read_json(Path(directory) / "config.json").get("max_position_embeddings") or 2**31
    longest = positions - first_position(architecture.family)
    encoded, problems = [tokenizer(prompt)["input_ids"] for prompt in prompts], []
    for prompt, ids in zip(prompts, encoded, strict=True):
        if (masks := ids.count(tokenizer.mask_token_id)) != 1:
            problems.append(mask_problem(prompt, tokenizer.mask_token, masks))
        elif len(ids) > longest:
            problems.append(f"{prompt!r} has {len(ids)} tokens; the model takes at most {longest}")
    if problems:
        raise MlmError(f"{setting}:\n{listed(problems)}")
    network, filled_prompts = Network(architecture, ops_of(engine_for("auto"))), []
    for prompt, ids in zip(prompts, encoded, strict=True):
        place, rows = ids.index(tokenizer.mask_token_id), np.array([ids], np.int32)
        hidden = network.hidden_states(weights, rows, np.ones_like(rows))
        logits = np.asarray(network.logits(weights, hidden[:, place]))[0].astype(np.float64)
        probabilities = np.exp(logits - logits.max())
        probabilities /= probabilities.sum()
        filled = []
        # The model may have more rows than the tokenizer has ids.
        for i in np.argsort(-probabilities[: len(tokenizer)], kind="stable")[:top_k].tolist():
            ids[place] = i
            sequence = tokenizer.decode(ids, skip_special_tokens=True)
            filled.append(FilledToken(tokenizer.decode([i]), sequence, float(probabilities[i])))
        filled_prompts.append(Prompt(prompt, filled))
    return filled_prompts
