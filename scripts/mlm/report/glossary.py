# ruff: noqa: E501
"""The names in the report: of its figures and baselines, and what each name means.

An entry of the glossary says in plain words what the figure is, its unit, how it is computed, and
its source.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

Figures = TypeVar("Figures")


@dataclass(frozen=True)
class Term:
    """An entry: the name that it stands under, and what it means."""

    name: str
    meaning: str


GLOSSARY = {
    "accuracy": Term("Accuracy", "Share of predictions, in percent, whose first guess is the true token. From evaluation.json; while training, from the run's log."),
    "baseline": Term("Baseline", "Predicts the same tokens by counting in train alone. The unigram knows how frequent each token is; bigram and trigram also see one or two neighbours on either side. “Same view”: they see what the model sees; “all neighbours”: they also see the tokens that are hidden from the model."),
    "beside": Term("Beside a baseline", "The model's loss less that of the baseline in nats, where the answer is hidden from both: below 0 the model is better. Beyond chance: the interval of the paired difference leaves out 0. From evaluation.json."),
    "bits": Term("Bits a character", "The loss where the answer is hidden, in bits, summed over the predictions and divided by the characters that they stand for. Compares across tokenizers. From evaluation.json."),
    "calibration": Term("Calibration error", "Mean distance between how sure the model is of its first guess and how often it is right, over bins of confidence weighted by their predictions; 0 is perfect. From evaluation.json."),
    "change": Term("What it changes", "Settings of a run that differ from those of the configuration all runs share. From the configuration."),
    "characters": Term("Characters", "Unicode code points of the documents kept. From the corpus's file of the split."),
    "cluster": Term("Cluster of near-duplicates", "Documents that share most of their words; one stays and the others are removed. Counted in documents. From the corpus's file of the split."),
    "digest": Term("sha256", "Fingerprint of a file's bytes, or of a stage's code: two that are the same have the same content."),
    "difference": Term("To the best", "Loss of the run less that of the best run, in nats, on the same predictions, with its paired interval. From the evaluation of both."),
    "documents": Term("Documents", "Texts of a split after all filters. From the corpus's file of the split."),
    "f1": Term("Macro F1", "Harmonic mean of precision and recall for each label, averaged over labels; 1 is perfect. From metrics.json."),
    "folds": Term("Folds, mean ± spread", "Mean and sample standard deviation of the score over the parts held out in turn. From metrics.json."),
    "filters": Term("Read, removed and kept", "Documents that were read, that each filter removed, and that stayed. Duplicate: the same text again in its split; leaked: the same text in another split; empty, too short, too long: by their length. From the corpus's file of the split."),
    "groups": Term("Groups", "Documents that belong together, such as versions of one address, and are never divided between splits. Intervals draw whole groups. From the corpus's file of the split."),
    "interval": Term("Interval", "What the figure could be on another test text like this: a bootstrap draws groups of test text anew and again, and the interval holds the middle of the outcomes (95 % unless configured). From evaluation.json."),
    "learning_rate": Term("Learning rate", "Size of an update at each step, no unit. From the run's log."),
    "loss": Term("Loss", "Mean of −ln p over the predictions, in nats, where p is what the model gives to the true token; less is better. Test loss is over the test split, train and validation loss over theirs; “where hidden” leaves out tokens the model could see. From evaluation.json or the run's log."),
    "pair": Term("Minimal pair", "Two sentences, one acceptable and one not. Scores: sum of ln p of each token when hidden alone, in nats; right: the acceptable one scores higher. From evaluation.json."),
    "overlap": Term("Words that train has too", "Share of the split's words in runs of 13 words, in lower case and without punctuation, that train has too. From the corpus's file of the split."),
    "package": Term("Package", "Python package and the version in use when the run was trained. From training.json."),
    "padding": Term("Padding", "Share or number of places in samples that hold no token. From the manifest of the split."),
    "parameters": Term("Parameters", "Numbers that the training adjusts. From training.json."),
    "part": Term("Part of the predictions", "The predictions of one kind: by place in the word, or by what the model was shown in the token's place. From evaluation.json."),
    "perplexity": Term("Perplexity", "e to the power of the loss: as unsure as a uniform choice among this many tokens. From evaluation.json."),
    "position": Term("Position in the sample", "Place of the token in its sample, from 0; the loss is the mean over the predictions there. From evaluation.json."),
    "predictions": Term("Predictions", "Number of masked tokens that were predicted. From evaluation.json."),
    "preflight": Term("Preflight", "What the compiler for a TPU says of a step without one: memory in GiB or MiB a replica, FLOPs a step, and a least time that is computed, not measured. From preflight.json."),
    "rule": Term("Rule", "A rule of quality or another that was on, with the documents and characters that it took. From the corpus's file of the split."),
    "run": Term("Run", "One training: the configuration with the run's own changes laid over it."),
    "sample": Term("Sample", "What the model reads at once: a fixed number of tokens. From the manifest of the split."),
    "score": Term("Score of fine-tuning", "Accuracy, or the root of the mean squared error (RMSE), on passages held out; a difference is the first model's score less the second's. From metrics.json."),
    "seed": Term("Seed", "Number that all draws of a run depend on. From the configuration."),
    "setting": Term("Setting", "A key of the configuration, or what a run resolved from it; docs/configuration.md explains each. From training.json."),
    "shard": Term("Shard", "File of packed samples. From the manifest of the split."),
    "share": Term("Share", "Documents of the split, in percent of those of all splits."),
    "size": Term("Size", "Bytes, in kB, MB or GB of powers of 1000: of the text in the corpus, of the files in shards."),
    "source": Term("Source", "Where text came from. From the corpus's file of the split."),
    "special": Term("Special tokens in the text", "Times that the text itself spells a special token. From tokenizer_stats.json."),
    "split": Term("Split", "Part of the text: train is learnt from, validation watched while training, test looked at once at the end."),
    "spread": Term("Mean ± spread", "Mean and sample standard deviation over runs that differ in the seed alone."),
    "steps": Term("Steps", "Updates of the parameters. From training.json."),
    "tokens": Term("Tokens", "Pieces of text from the tokenizer's vocabulary. A word or byte takes so many on average; unknown: the share that the vocabulary cannot spell; vocabulary used: how many different ones occur. From tokenizer_stats.json and the manifests."),
    "top5": Term("Top 5", "Share of predictions, in percent, with the true token among the first five guesses. From evaluation.json."),
    "weight": Term("Weight", "How many times the documents of a source are taken into train. From the configuration."),
    "what": Term("What or model", "What was measured: the model on a split, a baseline, or one of the fine-tuned models."),
    "words": Term("Words", "Runs of characters between spaces, in the documents kept. From the corpus's file of the split."),
}  # fmt: skip


@dataclass(frozen=True)
class FigureName:
    """A figure's chapter, heading, and the entry of the glossary for what it shows."""

    chapter: str
    heading: str
    term: str


FIGURES = {
    "piece_lengths": FigureName("Tokenizer", "Length of the vocabulary's pieces", "tokens"),
    "training_loss": FigureName("Training", "Loss during training", "loss"),
    "training_accuracy": FigureName("Training", "Masked accuracy during training", "accuracy"),
    "learning_rate": FigureName("Training", "Learning rate", "learning_rate"),
    "test_loss": FigureName("Evaluation", "Test loss beside the baselines", "loss"),
    "test_accuracy": FigureName("Evaluation", "Test accuracy beside the baselines", "accuracy"),
    "frequency_bands": FigureName("Evaluation", "Accuracy by frequency of the token", "accuracy"),
    "positions": FigureName("Evaluation", "Loss by position in the sample", "position"),
    "calibration": FigureName("Evaluation", "Calibration", "calibration"),
}

#: Figures of a stage that runs only when asked.
FINETUNING_FIGURES = {
    "finetuning_curves": FigureName("Fine-tuning", "Fine-tuning by epoch", "score"),
    "finetuning_predictions": FigureName(
        "Fine-tuning", "Fine-tuned: predicted against true", "score"
    ),
}

#: Baselines in the order of what they know. Others come after them, by their own key.
BASELINES = {
    "unigram": "unigram baseline",
    "bigram_hidden": "bigram baseline, same view",
    "bigram": "bigram baseline, all neighbours",
    "trigram_hidden": "trigram baseline, same view",
    "trigram": "trigram baseline, all neighbours",
}


def ordered_baselines(found: Mapping[str, Figures]) -> list[tuple[str, str, Figures]]:
    """Key, name and figures of each baseline of an evaluation, in a fixed order."""
    keys = [k for k in BASELINES if k in found] + sorted(found.keys() - BASELINES.keys())
    return [(k, BASELINES.get(k, f"{k.replace('_', ' ')} baseline"), found[k]) for k in keys]
