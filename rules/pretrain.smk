# Pretraining: one model for each run of the configuration.
#
# Requires  results/tokenizer/tokenizer.json and the files beside it
#           results/manifests/{train,validation}.json and the shards they name
# Gives     results/runs/{run}/trained/ what a training has just made
#           results/runs/{run}/model/   the model in the Hugging Face layout
#           results/runs/{run}/training.csv, training.json
# Keeps     state/{run}/{fingerprint}/  what an interrupted training goes on from
# Pushes    checkpoints to the Hub meanwhile, where publish.checkpoints.every asks for it
from mlm.config.publish import model_repository

TRAINED_FILES = {
    "weights": "model/model.safetensors",
    "config": "model/config.json",
    "card": "model/README.md",
    "tokenizer": "model/tokenizer.json",
    "tokenizer_config": "model/tokenizer_config.json",
    "special_tokens_map": "model/special_tokens_map.json",
    "log": "training.csv",
    "summary": "training.json",
}


rule pretrain:
    """Train a masked language model from scratch, into a directory of its own."""
    input:
        train="results/manifests/train.json",
        validation="results/manifests/validation.json",
        staged=staged_shards("train", "validation"),
        tokenizer="results/tokenizer/tokenizer.json",
        tokenizer_config="results/tokenizer/tokenizer_config.json",
        special_tokens_map="results/tokenizer/special_tokens_map.json",
        record=TOKENIZER_RECORD,
        # A TPU is rented by the minute: training on one waits for a preflight that passed. How
        # the preflight is made changes no weight, so that its date does not count.
        preflight=(
            [ancient("results/runs/{run}/preflight/passed.txt")]
            if settings["accelerator"]["kind"] == "tpu" and settings["preflight"]["required"]
            else []
        ),
    output:
        **{name: f"results/runs/{{run}}/trained/{file}" for name, file in TRAINED_FILES.items()},
    log:
        "logs/pretrain/{run}.log",
    benchmark:
        "logs/benchmarks/pretrain/{run}.tsv"
    conda:
        "../envs/environment.yaml"
    threads: 2
    # Where and how often states are saved changes no result. It travels as resources, since a
    # changed param would train again.
    resources:
        # The same holds for the TPU's name, which differs after each preemption.
        **THE_TPU,
        mem_mb=memory_of_training,
        runtime=720,
        checkpoint_every=setting_of_run("pretraining", "checkpoint", "every"),
        checkpoint_keep=setting_of_run("pretraining", "checkpoint", "keep"),
        checkpoint_directory=setting_of_run("pretraining", "checkpoint", "directory"),
        # For a TPU that accelerator.kind: auto finds on the machine that trains.
        preflight_required=int(settings["preflight"]["required"]),
        # The same holds for checkpoints pushed to the Hub; 0: none.
        push_every=settings["publish"]["checkpoints"]["every"] or 0,
        push_repository=lambda wildcards: model_repository(settings["publish"], wildcards.run) or "",
        push_branch=settings["publish"]["checkpoints"]["branch"],
        push_private=int(settings["publish"]["private"]),
        push_attempts=settings["publish"]["attempts"],
        push_wait=settings["publish"]["checkpoints"]["wait"],
    params:
        code=code("pretrain"),
        model=model_of,
        pretraining=of_run("pretraining", without="checkpoint"),
        seed=settings["seed"],
        accelerator=of_accelerator("cpu_threads", "kind", "precision", "virtual_replicas"),
        sequence_length=settings["shards"]["sequence_length"],
        corpus=settings["corpus"]["source"],
    script:
        "../scripts/pretrain.py"


rule keep_model:
    """Put a finished training where everything reads it: the model before it stays until then.

    Snakemake deletes the outputs of a job before it begins, and again if it fails.
    """
    input:
        **{name: f"results/runs/{{run}}/trained/{file}" for name, file in TRAINED_FILES.items()},
    output:
        **{name: f"results/runs/{{run}}/{file}" for name, file in TRAINED_FILES.items()},
    log:
        "logs/keep_model/{run}.log",
    benchmark:
        "logs/benchmarks/keep_model/{run}.tsv"
    conda:
        "../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=500,
        runtime=30,
    params:
        code=code("keep_model"),
    script:
        "../scripts/keep_model.py"
