# Preflight: what would fail on a TPU or a GPU, found by its compiler on a machine that has none:
# results/runs/{run}/preflight.json, and preflight/passed.txt beside it and results/preflight.txt if passed.
from mlm.config.accelerator import Accelerator
from mlm.config.targets import replicas_of

STEP_ACCELERATOR = of_section("accelerator", "precision", "deterministic", "attention")
ACCELERATOR = Accelerator.model_validate(settings["accelerator"])
PREFLIGHT = canonical({key: settings["preflight"][key] for key in ("targets", "effort")})
# A replica's part of evaluation.batch_size, and with it the program, depends on their number.
PREFLIGHT_REPLICAS = sorted({replicas_of(t) for t in settings["preflight"]["targets"]})
EVALUATION_STEPS = expand(
    "results/runs/{{run}}/preflight/evaluation_step-{replicas}-replicas.stablehlo",
    replicas=PREFLIGHT_REPLICAS,
)


rule lower_train_step:
    """Lower the very steps of training, validation and evaluation to StableHLO; check XLA's rules."""
    input:
        **TRAINED_ON,
    output:
        program="results/runs/{run}/preflight/train_step.stablehlo",
        validation="results/runs/{run}/preflight/validation_step.stablehlo",
        evaluation=EVALUATION_STEPS,
        summary="results/runs/{run}/preflight/lowering.json",
    threads: 2
    resources:
        mem_mb=5000,
        runtime=60,
    params:
        model=model_of,
        pretraining=pretraining_of,
        seed=settings["seed"],
        accelerator=STEP_ACCELERATOR,
        sequence_length=settings["shards"]["sequence_length"],
        evaluation=of_run(
            "evaluation", "batch_size", "mlm_probability", "mask_token", "random_token"
        ),
        replicas=PREFLIGHT_REPLICAS,
    script:
        "../scripts/jobs/lower_train_step.py"


rule find_batch:
    """Search for the largest per-replica batch that fits each target, in either precision."""
    input:
        **TRAINED_ON,
    output:
        "results/runs/{run}/preflight/batches.json",
    threads: 2
    resources:
        mem_mb=5000,
        runtime=1440,
    params:
        model=model_of,
        pretraining=pretraining_of,
        seed=settings["seed"],
        accelerator=STEP_ACCELERATOR,
        sequence_length=settings["shards"]["sequence_length"],
        targets=settings["preflight"]["targets"],
    script:
        "../scripts/jobs/find_batch.py"


rule compile_train_step:
    """Compile the lowered steps for every target, measure their memory, and judge."""
    input:
        program="results/runs/{run}/preflight/train_step.stablehlo",
        validation="results/runs/{run}/preflight/validation_step.stablehlo",
        evaluation=EVALUATION_STEPS,
        lowering="results/runs/{run}/preflight/lowering.json",
        train="results/manifests/train.json",
        batches=["results/runs/{run}/preflight/batches.json"] * settings["preflight"]["find_batch"],
    output:
        "results/runs/{run}/preflight.json",
    threads: 2
    resources:
        mem_mb=5000,
        runtime=240,
    params:
        preflight=PREFLIGHT,
        replicas=PREFLIGHT_REPLICAS,
        gpu_precision=ACCELERATOR.precision_on("gpu"),
        pretraining=of_run("pretraining", "steps", "epochs", "tokens"),
        state_directory=lambda wildcards: run_section(settings, wildcards.run, "pretraining")[
            "checkpoint"
        ]["directory"],
    script:
        "../scripts/jobs/compile_train_step.py"


rule preflight_finetune:
    """Compile the step of a fine-tuning for every target, before there are weights."""
    input:
        lowering="results/runs/{run}/preflight/lowering.json",
        examples="results/finetune/examples.csv",
        record="results/finetune/examples.json",
    output:
        "results/runs/{run}/preflight_finetune.json",
    resources:
        mem_mb=5000,
        runtime=240,
    params:
        preflight=PREFLIGHT,
        finetune=of_section("finetune", *FINETUNE_STEP),
        precisions={kind: ACCELERATOR.precision_on(kind) for kind in ("tpu", "gpu")},
    script:
        "../scripts/jobs/preflight_finetune.py"


rule preflight_passed:
    """Let a training begin: only where its preflight found nothing that would fail."""
    input:
        reports=["results/runs/{run}/preflight.json"],
    output:
        "results/runs/{run}/preflight/passed.txt",
    resources:
        mem_mb=200,
        runtime=5,
    params:
        prices={},
    script:
        "../scripts/jobs/preflight.py"


rule preflight:
    """Show what the compilers say of every run, and fail if one of them would fail."""
    input:
        reports=expand(
            "results/runs/{run}/{name}.json",
            name=["preflight", *["preflight_finetune"] * FINETUNE_WANTED],
            run=RUNS,
        ),
    output:
        "results/preflight.txt",
    resources:
        mem_mb=200,
        runtime=5,
    params:
        prices=settings["preflight"]["prices"],
    script:
        "../scripts/jobs/preflight.py"
