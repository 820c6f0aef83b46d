"""Rule `compile_train_step`: compile a run's lowered steps for every target and judge."""

from job_adapter import run_as_job


@run_as_job
def main(job):
    from mlm.accelerators.artefacts import Batches, Lowering
    from mlm.accelerators.compiler import require_compilers
    from mlm.accelerators.preflight import preflight
    from mlm.config.accelerator import Preflight
    from mlm.config.pretraining import Pretraining
    from mlm.samples.manifests import Manifest

    section = Preflight.of_param(job.params.preflight)
    require_compilers(section.targets)
    verdict = preflight(
        section,
        Pretraining.of_param(job.params.pretraining),
        Lowering.read(job.input.lowering),
        Manifest.read(job.input.train),
        {"training": job.input.program, "validation": job.input.validation},
        dict(zip(job.params.replicas, job.input.evaluation, strict=True)),
        state_directory=job.params.state_directory,
        gpu_precision=job.params.gpu_precision,
        batches=Batches.read(job.input.batches[0]) if job.input.batches else None,
    )
    verdict.write(job.output[0])
