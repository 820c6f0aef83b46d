"""Rule `preflight_finetune`: compile a fine-tuning's step for every target and judge."""

from job_adapter import run_as_job


@run_as_job
def main(job):
    from mlm.accelerators.artefacts import Lowering
    from mlm.accelerators.compiler import require_compilers
    from mlm.accelerators.preflight import preflight_finetuning
    from mlm.config.accelerator import Preflight
    from mlm.config.finetune import Finetune

    lowering, params = Lowering.read(job.input.lowering), job.params
    sections = Preflight.of_param(params.preflight), Finetune.of_param(params.finetune)
    require_compilers(sections[0].targets)
    verdict = preflight_finetuning(*sections, lowering, job.input.examples, dict(params.precisions))
    verdict.write(job.output[0])
