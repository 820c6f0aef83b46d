# Pretraining: one model for each run of the configuration.
#
# Requires  results/tokenizer/tokenizer.json and the files beside it
#           results/manifests/{train,validation}.json and the shards they name
# Gives     results/runs/{run}/model/   the model in the Hugging Face layout
#           results/runs/{run}/training.csv, training.json
# Keeps     state/{run}/{fingerprint}/  what an interrupted training goes on from
# Pushes    checkpoints to the Hub meanwhile, where publish.checkpoints.every asks for it
from mlm.config.publish import model_repository


rule pretrain:
    """Train a masked language model from scratch and export it."""
    input:
        train="results/manifests/train.json",
        validation="results/manifests/validation.json",
        shards=staged_shards("train", "validation"),
        tokenizer="results/tokenizer/tokenizer.json",
        tokenizer_config="results/tokenizer/tokenizer_config.json",
        special_tokens_map="results/tokenizer/special_tokens_map.json",
        # A TPU is rented by the minute: training on one waits for a preflight that passed. How
        # the preflight is made changes no weight, so that its date does not count.
        preflight=(
            [ancient("results/runs/{run}/preflight/passed.txt")]
            if settings["accelerator"]["kind"] == "tpu" and settings["preflight"]["required"]
            else []
        ),
        code=code("pretrain"),
    output:
        weights="results/runs/{run}/model/model.safetensors",
        config="results/runs/{run}/model/config.json",
        card="results/runs/{run}/model/README.md",
        tokenizer="results/runs/{run}/model/tokenizer.json",
        tokenizer_config="results/runs/{run}/model/tokenizer_config.json",
        special_tokens_map="results/runs/{run}/model/special_tokens_map.json",
        log="results/runs/{run}/training.csv",
        summary="results/runs/{run}/training.json",
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
        # So does the TPU's name, which is another after each preemption.
        **THE_TPU,
        mem_mb=4000,
        runtime=720,
        checkpoint_every=setting_of_run("pretraining", "checkpoint", "every"),
        checkpoint_keep=setting_of_run("pretraining", "checkpoint", "keep"),
        checkpoint_directory=setting_of_run("pretraining", "checkpoint", "directory"),
        # Asked of a TPU that accelerator.kind: auto finds where it trains.
        preflight_required=int(settings["preflight"]["required"]),
        # So do checkpoints pushed to the Hub; 0: none.
        push_every=settings["publish"]["checkpoints"]["every"] or 0,
        push_repository=lambda wildcards: model_repository(settings["publish"], wildcards.run) or "",
        push_branch=settings["publish"]["checkpoints"]["branch"],
        push_private=int(settings["publish"]["private"]),
        push_attempts=settings["publish"]["attempts"],
        push_wait=settings["publish"]["checkpoints"]["wait"],
    params:
        model=model_of,
        pretraining=of_run("pretraining", without="checkpoint"),
        seed=settings["seed"],
        accelerator=of_accelerator("cpu_threads", "kind", "precision", "virtual_replicas"),
        sequence_length=settings["shards"]["sequence_length"],
        corpus=settings["corpus"]["source"],
    script:
        "../scripts/pretrain.py"
