"""Documents packed into samples of equal length, across their ends, as by RoBERTa's FULL-SENTENCES
without the limit of a document (Liu et al., 2019, section 4.2)."""

import itertools
from collections.abc import Callable

import numpy as np

from mlm.config.tokenizer import Shards
from mlm.corpus.document_groups import group_ids
from mlm.corpus.split_documents import SplitDocuments
from mlm.samples.tfrecord import NO_GROUP, SampleWriter
from mlm.tokenizer.encoding import Encoder

#: Documents read, and characters given to the tokenizer, at a time: they bound the memory.
DOCUMENTS_AT_A_TIME, _CHARACTERS_AT_A_TIME = 1000, 2_000_000


def write_packed(
    section: Shards,
    encoder: Encoder,
    corpus: SplitDocuments,
    documents: range,
    writer: SampleWriter,
    progress: Callable[[int], None] = lambda done: None,
) -> tuple[int, int]:
    """Tokenise and pack `documents` for `writer`. Tokens that do not fill a sample begin the next;
    the last is padded. Returns the tokens that came in, and the special literals in the text;
    `progress` is told of the documents done."""
    length, done, tokens_in, literals = section.sequence_length, 0, 0, 0
    # Tokens, and their groups, that do not fill a sample yet.
    waiting = [np.empty(0, np.int32), np.empty(0, np.int64)]
    for rows in corpus.batches(["text", "group"], DOCUMENTS_AT_A_TIME, documents):
        texts, groups = rows.column("text").to_pylist(), group_ids(rows.column("group"))
        # Runs of texts of about so many characters.
        ends = np.cumsum(list(map(len, texts))) // _CHARACTERS_AT_A_TIME
        for part in np.split(np.arange(len(texts)), np.flatnonzero(np.diff(ends)) + 1):
            portion = texts[part[0] : part[-1] + 1]
            literals += encoder.count_special_literals(portion)
            encoded = encoder.encode(portion)
            tokens = np.fromiter(itertools.chain.from_iterable(encoded), np.int32)
            of_tokens = np.repeat(groups[part], list(map(len, encoded)))
            waiting = [np.append(*both) for both in zip(waiting, (tokens, of_tokens), strict=True)]
            full = len(waiting[0]) // length * length
            ids, of_ids = (stream[:full].reshape(-1, length) for stream in waiting)
            writer.write(ids, np.full(len(ids), length), of_ids)
            waiting = [stream[full:] for stream in waiting]
            tokens_in += len(tokens)
            done += len(portion)
            progress(done)
    if left := len(waiting[0]):
        last = np.full((1, length), encoder.special_ids.pad, np.int32)
        of_last = np.full((1, length), NO_GROUP, np.int64)
        last[0, :left], of_last[0, :left] = waiting
        writer.write(last, np.array([left]), of_last)
    return tokens_in, literals
