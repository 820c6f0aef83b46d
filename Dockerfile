# The image of the workflow's jobs on Kubernetes (profiles/gke). From the repository's root:
#   docker build --tag REGION-docker.pkg.dev/PROJECT/REPOSITORY/mlm-from-scratch:TAG .
# For TensorFlow on TPU node pools: --build-arg PACKAGES=tpu; for NVIDIA GPUs: gpu; else the default,
# for CPUs and for JAX on TPUs.
FROM python:3.11-slim-bookworm

ARG PACKAGES=gke
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONUNBUFFERED=1

COPY envs/requirements-${PACKAGES}.txt /tmp/requirements.txt
# --no-deps: the file names every package, and leaves out what is not needed, such as the
# tensorflow that tensorflow-cpu or tensorflow-tpu replaces.
RUN python -m pip install --no-deps --require-hashes -r /tmp/requirements.txt

# The sources come with each job. Nothing here runs as root.
RUN useradd --create-home --uid 1000 mlm && mkdir /workdir && chown mlm /workdir
USER mlm
WORKDIR /workdir
