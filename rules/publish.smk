# Publishing on the Hugging Face Hub: results/publish/*.json say what went where.
# The rules are local: the token is where snakemake itself runs, and need not travel.

PUBLISH_RECORDS = [
    *(["results/publish/tokenizer.json"] if settings.publish.tokenizer else []),
    *[f"results/publish/model-{run}.json" for run in settings.publish.runs_of(RUNS)],
]
# What the cards say of the origin of the text.
ORIGIN = settings.corpus.only("source", "hub").as_param()


rule publish:
    """Publish everything that the configuration names a repository for. A target."""
    input:
        # Snakemake would show any other exception with wildcards and a traceback.
        lambda w: PUBLISH_RECORDS
        or sys.exit(
            "publish: no repository is named. Set publish.tokenizer or publish.model in the "
            "configuration, each to owner/name; what is null is not published"
        ),


rule publish_tokenizer:
    """Publish the tokenizer with a card."""
    input:
        tokenizer=TOKENIZER_FILES,
        record="results/tokenizer/tokenizer_stats.json",
    output:
        "results/publish/tokenizer.json",
    log:
        "logs/publish_tokenizer/publish_tokenizer.log",
    localrule: True
    conda:
        "../envs/environment.yaml"
    params:
        publish=settings.publish.of_tokenizer().as_param(),
        corpus=ORIGIN,
        code=code_of("publish", "publish_tokenizer"),
    script:
        "../scripts/jobs/publish.py"


# Publish a run's model with its card and its figures.
use rule publish_tokenizer as publish_model with:
    input:
        **MODEL_FILES,
        evaluation="results/runs/{run}/evaluation.json",
    output:
        "results/publish/model-{run}.json",
    log:
        "logs/publish_model/{run}.log",
    params:
        publish=lambda w: settings.publish.of_model(w.run).as_param(),
        prompt=lambda w: EVALUATIONS[w.run].card_prompt(
            embedded=settings.corpus.source == "embedded"
        ),
        code=code_of("publish", "publish_model"),
