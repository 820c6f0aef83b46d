"""The figures of an evaluation, from per-position arrays alone."""

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pyarrow as pa

from mlm.corpus.artefacts import CorpusSplit, EmbeddedSource
from mlm.corpus.embedded_corpus import address_of
from mlm.corpus.groups_and_splits import group_ids
from mlm.evaluation.artefacts import ClusterSums, FrequencyBand, Summary
from mlm.evaluation.bits_by_group import TextOfGroups
from mlm.evaluation.hidden_sets import Answers, Positions, Scores
from mlm.evaluation.intervals import Clusters, Estimate, bits_of, mean_of, sums_by_cluster

#: Rows of sums that evaluation.json holds at most, however many clusters there are.
MOST_CLUSTER_SUMS = 2000
#: Upper ranks of the bands of token frequency; a last band has the rest.
_LAST_RANKS = (10, 100, 1000)


def authors_of_groups(described: CorpusSplit | None) -> dict[int, int] | None:
    """The author of each group, by their numbers, if the text of a split has authors."""
    source = described and described.source
    if not isinstance(source, EmbeddedSource):
        return None
    ids = group_ids(pa.array(list(map(address_of, source.speeches))))
    authors = np.unique(source.presidents, return_inverse=True)[1]
    return dict(zip(ids.tolist(), authors.tolist(), strict=True))


def means_over(answers: Answers) -> dict[str, float]:
    """The means over all predictions that a model and a baseline share."""
    loss = float(np.mean(answers.loss))
    return {
        "loss": loss,
        # Capped at the largest float, so that it can be written as JSON.
        "perplexity": math.exp(min(loss, 709.0)),
        "accuracy": float(np.mean(answers.correct)),
    }


def summary_of(
    positions: Positions,
    scores: Scores,
    cluster: np.ndarray,
    tokens_per_character: float | None,
    unknown_share: float,
    sums: ClusterSums,
) -> Summary:
    """The figures over all predictions, with intervals over the `cluster` of each. Bits per
    character, by which tokenizers compare, are a pseudo-likelihood; their interval takes the
    density as constant unless `sums` has each cluster's."""
    means, loss = means_over(scores), mean_of(cluster, scores.loss)
    bits = loss * (tokens_per_character / math.log(2)) if tokens_per_character else None
    if bits and sums.tokens and sums.characters:
        table = np.transpose([sums.loss, sums.tokens, sums.characters, sums.predictions])
        bits = replace(Estimate.of(table, bits_of), value=bits.value)
    return Summary(
        **means,
        top5_accuracy=float(np.mean(scores.rank <= 5)),
        num_predictions=len(scores),
        num_samples=len(np.unique(positions.sample)),
        num_groups=len(np.unique(positions.group)),
        num_clusters=len(np.unique(cluster)),
        unknown_share=unknown_share,
        loss_interval=loss.interval,
        accuracy_interval=mean_of(cluster, scores.correct).share_interval,
        bits_per_character=bits and bits.value,
        bits_per_character_interval=bits and bits.interval,
    )


def frequency_bands(
    truth: np.ndarray, scores: Answers, counts: np.ndarray, uppers: Iterable[int] = _LAST_RANKS
) -> list[FrequencyBand]:
    """Bands by the true token's rank in train, whose counts are `counts` [vocabulary]; of equals,
    the lower id first. `uppers` are the bands' last ranks; a last band takes the rest."""
    ranks = np.empty(len(counts), np.int64)
    ranks[np.argsort(-counts, kind="stable")] = np.arange(1, len(counts) + 1)
    rank, bands, first = ranks[truth], [], 1
    for last in [*sorted(set(uppers)), None]:
        chosen = (rank >= first) & (rank <= (last or len(counts)))
        number = int(np.count_nonzero(chosen))
        loss, accuracy = (
            float(np.mean(values[chosen])) if number else None
            for values in (scores.loss, scores.correct)
        )
        label = f"{first:,} to {last:,}" if last else f"{first:,} and rarer"
        bands.append(FrequencyBand(loss, accuracy, number, label, first, last))
        first = (last or 0) + 1
    return bands


def cluster_sums(
    clusters: Clusters, scores: Scores, texts: TextOfGroups | None = None
) -> ClusterSums:
    """Sums by cluster, neighbours added up beyond `MOST_CLUSTER_SUMS`: bundles of whole clusters
    are independent draws as well. With `texts`, all clusters of the text have a row with its tokens
    and characters, so that the rows of two vocabularies are of the same clusters."""
    predicted = clusters.of_predictions
    table = sums_by_cluster(predicted, scores.loss, scores.correct)
    if texts is not None and clusters.by != "sample":
        of_groups = clusters.of_groups(texts.ids)
        text = sums_by_cluster(of_groups, texts.tokens, texts.characters)[:, :2]
        whole = np.zeros((len(text), table.shape[1]))
        whole[np.searchsorted(np.unique(of_groups), np.unique(predicted))] = table
        table = np.column_stack([whole, text])
    if len(table) > MOST_CLUSTER_SUMS:
        starts = np.arange(MOST_CLUSTER_SUMS) * len(table) // MOST_CLUSTER_SUMS
        table = np.add.reduceat(table, starts)
    return ClusterSums(table[:, 0].tolist(), *table[:, 1:].T.astype(int).tolist())
