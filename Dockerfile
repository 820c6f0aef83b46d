# The image of the workflow's jobs on Kubernetes (profiles/gke). From the repository's root:
#   docker build --tag REGION-docker.pkg.dev/PROJECT/REPOSITORY/mlm-from-scratch:TAG .
# For NVIDIA GPUs: --build-arg PACKAGES=gpu; the default is for CPUs and TPUs.
FROM python:3.11-slim-bookworm

ARG PACKAGES=gke
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONUNBUFFERED=1

COPY envs /tmp/envs
RUN python -m pip install --no-deps --require-hashes -r /tmp/envs/requirements-${PACKAGES}.txt

# The sources come with each job. Nothing here runs as root.
RUN useradd --create-home --uid 1000 mlm && mkdir /workdir && chown mlm /workdir
USER mlm
WORKDIR /workdir
