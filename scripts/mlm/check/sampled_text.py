"""A sample of the corpus, and how large the whole is: read in moments, also where it is large."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from mlm.config.corpus import encoding_name
from mlm.config.fields import SPLITS
from mlm.corpus.decompression import ReadingPosition
from mlm.corpus.embedded import PACKAGE, address_of, paragraphs, speeches_by_split
from mlm.corpus.file_patterns import file_format, matched_files, used_settings
from mlm.corpus.formats import Reading, read_documents, read_range
from mlm.corpus.groups import Document
from mlm.corpus.parts import undivided
from mlm.foundations.errors import MlmError

#: Bytes of text that the rehearsal of a run gets.
SAMPLE = 1_100_000
#: A corpus of no more bytes on disk is read whole, so that its size is known and not estimated.
READ_WHOLE = 16_000_000
#: Places at which a larger one is looked into, and bytes read at each.
_PLACES, _AT_A_PLACE = 20, 100_000
#: Of a file that can only be read from its beginning.
_HEAD = 1_000_000


@dataclass(frozen=True)
class SampledText:
    """Documents of the train split, and by split how many bytes of text and documents there are.

    `whole` are the texts of all of train, where they were read. `source` says in words what was
    found. Sizes are None where they are not known.
    """

    documents: list[Document]
    bytes: dict[str, float] | None
    counts: dict[str, float] | None
    whole: list[str] | None
    source: str

    @property
    def is_all(self) -> bool:
        """Whether the sample is the whole train split."""
        return self.whole is not None and len(self.documents) == len(self.whole)


def sampled_text(corpus: dict, seed: int) -> SampledText:
    """What section `corpus` of the configuration comes to.

    A dataset of the Hub is not asked for: text that is here stands in for its own, to have
    something that can be timed. Raises MlmError where the corpus is not there or unreadable.
    """
    if corpus["source"] == "files":
        return _of_files(corpus)
    # What the Hub holds is not here.
    shares = {"validation": 0.05, "test": 0.05}
    if corpus["source"] == "embedded":
        shares = used_settings(corpus, seed)["held_out"]
    speeches = speeches_by_split(seed, shares)
    texts = {s: [p for t in of.values() for p in paragraphs(t)] for s, of in speeches.items()}
    train = [
        Document(p, address_of(n))
        for n, text in speeches["train"].items()
        for p in paragraphs(text)
    ]
    if corpus["source"] == "embedded":
        sizes = {s: float(sum(map(_size, found))) for s, found in texts.items()}
        counts = {s: float(len(found)) for s, found in texts.items()}
        number = sum(map(len, speeches.values()))
        words = f"{number} speeches of {PACKAGE}"
        return SampledText(_spread(train), sizes, counts, texts["train"], words)
    hub = corpus["hub"]
    words = f"the dataset {hub['dataset']} of the Hub, which was not asked for"
    return SampledText(_spread(train), None, None, None, words)


def _of_files(corpus: dict) -> SampledText:
    files = matched_files({split: corpus["files"][split] for split in SPLITS})
    sizes = {s: sum(Path(p).stat().st_size for p in paths) for s, paths in files.items()}
    on_disk = sum(sizes.values())
    read = {split: _Read([], 0.0) for split in SPLITS}
    for split, paths in files.items():
        if on_disk <= READ_WHOLE:
            read[split] = _read_whole(paths, corpus)
        elif paths:
            read[split] = _looked_into(paths, sizes[split], corpus)
    documents = read["train"].documents
    if not documents:
        raise MlmError(
            f"corpus.files.train: no document was found in {files['train'][0]}"
            f"{' and the others that were read' if len(files['train']) > 1 else ''}. Look at what "
            "it holds, at corpus.text_column and corpus.files.document_per"
        )
    bytes_ = {s: r.text_per_byte * sizes[s] for s, r in read.items()}
    mean = {s: bytes_[s] / max(1, sum(_size(d.text) for d in r.documents)) for s, r in read.items()}
    counts = {s: len(r.documents) * mean[s] for s, r in read.items()}
    for split, share in used_settings(corpus, 0)["held_out"].items():
        bytes_[split], counts[split] = share * bytes_["train"], share * counts["train"]
    left = 1 - sum(used_settings(corpus, 0)["held_out"].values())
    bytes_["train"], counts["train"] = left * bytes_["train"], left * counts["train"]
    number = sum(map(len, files.values()))
    words = f"{number:,} file{'s' if number > 1 else ''} of {shown(on_disk)}"
    whole = [d.text for d in documents] if on_disk <= READ_WHOLE else None
    return SampledText(_spread(documents), bytes_, counts, whole, words)


@dataclass(frozen=True)
class _Read:
    """Documents, and how many bytes of text a byte on disk comes to."""

    documents: list[Document]
    text_per_byte: float


def _reading(corpus: dict) -> Reading:
    return Reading(
        text_column=corpus["text_column"],
        errors=corpus["encoding_errors"],
        encoding=encoding_name(corpus["encoding"]),
        document_per=corpus["files"]["document_per"],
        quoted_fields=corpus["files"]["quoted_fields"],
        group_by=corpus["group_by"],
    )


def _read_whole(paths: Sequence[str], corpus: dict) -> _Read:
    documents, position = [], ReadingPosition(0)
    for path in paths:
        kind, compression = file_format(path)
        with position.opened(path, compression) as stream:
            found = read_documents(stream, path, kind, _reading(corpus))
            documents += [_grouped(d, path, corpus) for d in found]
    size = sum(Path(path).stat().st_size for path in paths)
    return _Read(documents, sum(_size(d.text) for d in documents) / size if size else 0.0)


def _looked_into(paths: Sequence[str], total: int, corpus: dict) -> _Read:
    """Documents from all over `paths`, of `total` bytes on disk."""
    documents, text, disk, heads = [], 0.0, 0.0, set()
    offset, places = 0, [(i * total) // _PLACES for i in range(_PLACES)]
    for path in paths:
        size = Path(path).stat().st_size
        here = [place - offset for place in places if offset <= place < offset + size]
        offset += size
        for start in here:
            kind, _ = file_format(path)
            if kind == "parquet" or undivided(path, corpus):
                if path in heads:
                    continue
                heads.add(path)
                found, used = _head(path, size, corpus)
            else:
                stop = min(size, start + _AT_A_PLACE)
                with open(path, "rb") as stream:
                    found = list(read_range(stream, path, kind, _reading(corpus), start, stop))
                used = stop - start
            documents += [_grouped(d, path, corpus) for d in found]
            text += sum(_size(d.text) for d in found)
            disk += used
    return _Read(documents, text / disk if disk else 0.0)


def _head(path: str, size: int, corpus: dict) -> tuple[list[Document], float]:
    """The first documents of a file, and the bytes on disk that they take."""
    kind, compression = file_format(path)
    if kind == "parquet":
        return _rows(path, size, corpus)
    position = ReadingPosition(size)
    with position.opened(path, compression) as stream:
        head = bytearray()
        while len(head) < _HEAD and (part := stream.read(1 << 16)):
            head += part
        used = (position.share() or 0.0) * size
        whole = len(head) < _HEAD
    if kind == "txt" and corpus["files"]["document_per"] == "file":
        with ReadingPosition(size).opened(path, compression) as stream:
            return list(read_documents(stream, path, kind, _reading(corpus))), size
    if not whole:
        cut = head.rfind(b"\n") + 1 or len(head)
        used *= cut / len(head)
        del head[cut:]
    return list(_until_the_cut(io.BytesIO(bytes(head)), path, kind, corpus, whole)), used


def _until_the_cut(
    stream: io.BytesIO, path: str, kind: str, corpus: dict, whole: bool
) -> Iterator[Document]:
    number = 0
    try:
        for document in read_documents(stream, path, kind, _reading(corpus)):
            number += 1
            yield document
    except MlmError:
        # A quoted field may go on after the cut.
        if whole or not number:
            raise


def _rows(path: str, size: int, corpus: dict) -> tuple[list[Document], float]:
    import pyarrow.parquet as pq

    with open(path, "rb") as stream:
        found = list(islice(read_documents(stream, path, "parquet", _reading(corpus)), 1024))
        rows = pq.ParquetFile(path).metadata.num_rows
    return found, size * len(found) / max(1, rows)


def _grouped(document: Document, path: str, corpus: dict) -> Document:
    return document._replace(group=path) if corpus["group_per"] == "file" else document


def _spread(documents: list[Document]) -> list[Document]:
    """Documents at equal distances, of about `SAMPLE` bytes in all."""
    total = sum(_size(d.text) for d in documents)
    return documents[:: max(1, round(total / SAMPLE))]


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def shown(size: float) -> str:
    """A size in kB, MB, GB or TB."""
    for unit, least in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if size >= least:
            return f"{size / least:.3g} {unit}"
    return f"{size / 1e3:.0f} kB"
