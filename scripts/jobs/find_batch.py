"""Rule `find_batch`: the largest per-replica batch that fits each TPU target."""

from job_adapter import run


def main(job):
    from mlm.accelerators.batch_search import LARGEST_BATCH, find_batches
    from mlm.accelerators.compiler import require_compiler

    require_compiler()
    settings = {
        "name": job.wildcards.run,
        "model": job.params.model,
        "pretraining": job.params.pretraining,
        "accelerator": {"precision": "auto"},
        "seed": job.params.seed,
        "sequence_length": job.params.sequence_length,
        "holes": None,
    }
    files = {
        "tokenizer": job.input.tokenizer,
        "manifests": {"train": job.input.train, "validation": job.input.validation},
    }
    find_batches(
        {"settings": settings, "files": files},
        targets=list(job.params.targets),
        batch=job.params.pretraining["per_replica_batch_size"],
        largest=LARGEST_BATCH,
        output=job.output[0],
    )


if __name__ == "__main__":
    run(main, snakemake)
