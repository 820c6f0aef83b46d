# Pretraining: from shards to results/runs/{run}/. Snakemake deletes a job's outputs before it runs
# the job: `pretrain` writes trained/, and `keep_model` copies that to the run once it is complete.
# States are saved in state/, which no rule declares, so that a kill or a failed job costs time only.
from mlm.config.memory_of_jobs import memory_of_training

TRAINED_FILES = {
    "weights": "model/model.safetensors",
    "config": "model/config.json",
    "card": "model/README.md",
    **{name.removesuffix(".json"): f"model/{name}" for name in TOKENIZER_NAMES},
    "log": "training.csv",
    "summary": "training.json",
}


rule pretrain:
    """Train a masked language model, from its newest saved state if there is one."""
    input:
        **TRAINED_ON,
        staged=staged_shards("train", "validation"),
        tokenizer_config="results/tokenizer/tokenizer_config.json",
        special_tokens_map="results/tokenizer/special_tokens_map.json",
        start=checkpoint_of_run,
        # The run that this one continues trains first: the job reads that run's saved states, which
        # another training of it with the same start leaves as they are (`ancient`).
        continued=lambda w: [
            ancient(f"results/runs/{parent.name}/training.json")
            for parent in [TRAININGS[w.run].operation.parent]
            if parent is not None
        ],
    output:
        **in_directory("results/runs/{run}/trained", TRAINED_FILES),
    log:
        "logs/pretrain/{run}.log",
    benchmark:
        "logs/benchmarks/pretrain/{run}.tsv"
    conda:
        "../envs/environment.yaml"
    threads: 2
    resources:
        mem_mb=lambda w, input: memory_of_training(
            TRAININGS[w.run], VOCABULARY, stored_tokens(input.train)
        ),
        runtime=720,
    params:
        # A change of these reruns the job: settings, content of a published encoder, code. Whether
        # it then resumes or starts over, `mlm.training.state_basis` decides.
        training=lambda w: TRAININGS[w.run].as_param("operation"),
        start=lambda w: identities(checkpoint_of_run(w)),
        code=code_of("pretrain", "pretrain"),
        # A change of this does not (NotCompared): which states are saved, and where.
        operation=lambda w: NotCompared(**TRAININGS[w.run].operation.model_dump()),
    script:
        "../scripts/jobs/pretrain.py"


rule keep_model:
    """Copy a finished training to where all other rules read it, over the previous model."""
    input:
        **in_directory("results/runs/{run}/trained", TRAINED_FILES),
    output:
        **in_directory("results/runs/{run}", TRAINED_FILES),
    log:
        "logs/keep_model/{run}.log",
    conda:
        "../envs/environment.yaml"
    params:
        code=code_of("pretrain", "keep_model"),
    script:
        "../scripts/jobs/pretrain.py"
