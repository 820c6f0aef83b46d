#!/bin/sh
# Make .venv-pytorch, in which the tests open exported models with PyTorch's transformers.
set -eu
cd "$(dirname "$0")/../.."
[ -x .venv-pytorch/bin/python ] || python3.11 -m venv .venv-pytorch
# --no-deps: the file names every package but torch.
.venv-pytorch/bin/pip install --quiet --require-hashes --no-deps -r envs/requirements-pytorch.txt
# By version, not by hash: each platform has a build of its own.
.venv-pytorch/bin/pip install --quiet torch==2.13.0
