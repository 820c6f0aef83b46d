"""Rule `tokenizer`: train one on the train split, and measure it on all three."""

from job_adapter import Done, limit_tokenizer_threads, run_as_job


@run_as_job
def main(job):
    limit_tokenizer_threads(job.threads)
    from mlm.config.fields import SPLITS
    from mlm.config.tokenizer import Tokenizer
    from mlm.corpus.split_documents import SplitDocuments
    from mlm.tokenizer.tokenizer_building import make_tokenizer

    corpora = dict(zip(SPLITS, map(SplitDocuments.described, job.input.records), strict=True))
    section = Tokenizer.of_param(job.params.tokenizer)
    made = make_tokenizer(corpora, section, job.params.families, job.output)
    train = made.splits["train"]
    length = train.bytes / max(train.tokens, 1)
    return Done(f"vocabulary of {made.vocabulary_size:,}, {length:.2f} bytes a token")
