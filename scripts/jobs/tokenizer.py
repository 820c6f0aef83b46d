"""The tokenizer: trained on the train split, and measured on all three."""

from pathlib import Path
from typing import Any

from job_adapter import Done, limit_tokenizer_threads, run_as_job


@run_as_job("tokenizer")
def build_tokenizer(job: Any):
    limit_tokenizer_threads(job.threads)
    from mlm.config.tokenizer import Tokenizer
    from mlm.corpus.corpus_reading import SplitDocuments
    from mlm.tokenizer.tokenizer_statistics import make_tokenizer

    corpora = {Path(path).stem: SplitDocuments.described(path) for path in job.input.records}
    section = Tokenizer.model_validate(job.params.tokenizer)
    files = Path(job.output.tokenizer), Path(job.output.stats)
    statistics = make_tokenizer(corpora, section, job.params.families, *files)
    train = statistics.splits["train"]
    length = train.bytes / max(train.tokens, 1)
    return Done(f"vocabulary of {statistics.vocabulary_size:,}, {length:.2f} bytes per token")
