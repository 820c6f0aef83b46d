"""Rule `tokenizer`: train one on the train split, and measure it on all three."""

import os

from job_adapter import run_as_job


@run_as_job
def main(job):
    # Before the library of that name is loaded: the jobs beside this one have cores as well.
    os.environ.setdefault("RAYON_NUM_THREADS", str(job.threads))
    from mlm.config.tokenizer import Tokenizer
    from mlm.corpus.split_documents import SplitDocuments
    from mlm.tokenizer.tokenizer_building import make_tokenizer

    splits = ("train", "validation", "test")
    corpora = dict(zip(splits, map(SplitDocuments.described, job.input.records), strict=True))
    section = Tokenizer.of_param(job.params.tokenizer)
    make_tokenizer(corpora, section, job.params.families, job.output)
