"""The most probable tokens in place of the mask of a prompt."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.special import softmax

from mlm.config.evaluation import mask_problem
from mlm.config.families import first_position
from mlm.evaluation.artefacts import FilledToken, Prompt
from mlm.evaluation.exported_model import load_tokenizer
from mlm.foundations.atomic import read_json
from mlm.foundations.errors import MlmError, listed
from mlm.model.model_files import read_exported
from mlm.model.network import Network, ops_of
from mlm.training.in_jax.devices import prepare_jax


def answers(
    directory: str | Path,
    prompts: Sequence[str],
    top_k: int,
    cpu_threads: int = 2,
    setting: str = "evaluation.prompts",
) -> list[Prompt]:
    """The prompts with their `top_k` answers, those of transformers' fill-mask pipeline, computed
    on a CPU for the same digits. Raises MlmError with every prompt of `setting` that is too long or
    does not hold one mask token."""
    prepare_jax("cpu", cpu_threads, None)
    import jax

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
    network, filled_prompts = Network(architecture, ops_of("jax")), []
    # The model may have rows for ids that the tokenizer lacks.
    pieces = np.sort([*tokenizer.get_vocab().values()])

    @jax.jit
    def logits_at(weights, rows, attention, position):
        hidden = network.hidden_states(weights, rows, attention, positions=position)
        return network.logits(weights, hidden)[0, 0]

    # Of one length, for one compilation.
    length = max(map(len, encoded), default=0)
    for prompt, ids in zip(prompts, encoded, strict=True):
        place, padding = ids.index(tokenizer.mask_token_id), length - len(ids)
        rows = np.array([ids + [tokenizer.pad_token_id] * padding], np.int32)
        attention = np.array([[1] * len(ids) + [0] * padding], np.int32)
        logits = logits_at(weights, rows, attention, np.array([[place]], np.int32))
        probabilities, filled = softmax(np.asarray(logits, np.float64)), []
        for i in pieces[np.argsort(-probabilities[pieces], kind="stable")[:top_k]].tolist():
            ids[place] = i
            sequence = tokenizer.decode(ids, skip_special_tokens=True)
            filled.append(FilledToken(tokenizer.decode([i]), sequence, float(probabilities[i])))
        filled_prompts.append(Prompt(prompt, filled))
    return filled_prompts
