"""Rule `asked`: what a run's training was shown near the texts that its report shows."""

from job_adapter import Done, run_as_job
from mlm.asking.seen_near import seen_near
from mlm.foundations.phrasing import plural


@run_as_job
def main(job):
    found = seen_near(job.wildcards.run, job.input, dict(job.params.filters))
    found.write(job.output[0])
    passages = sum(len(text.passages) for text in found.texts)
    searched = f"{plural(len(found.texts), 'text')}, {plural(passages, 'passage')} of train"
    return Done("train is too large to be searched" if found.too_large else searched)
