#!/bin/sh
# Make .venv-pytorch, in which the tests open exported models with PyTorch's transformers.
set -eu
cd "$(dirname "$0")/../.."
[ -x .venv-pytorch/bin/python ] || python3.11 -m venv .venv-pytorch
.venv-pytorch/bin/pip install --quiet --require-hashes -r envs/requirements-pytorch.txt
.venv-pytorch/bin/pip install --quiet --no-deps torch==2.13.0+cpu \
    --extra-index-url https://download.pytorch.org/whl/cpu
