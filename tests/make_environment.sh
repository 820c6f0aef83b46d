#!/bin/sh
# Make .venv-NAME from envs/requirements-NAME.txt for the tests that need an environment of their own:
# pytorch, transformers4 (its classes in TensorFlow and Flax) or preflight-gpu.
set -eu
name=$1
cd "$(dirname "$0")/.."
[ -x ".venv-$name/bin/python" ] || python3.11 -m venv ".venv-$name"
pip=".venv-$name/bin/python -m pip install --quiet --no-deps --no-compile"
$pip --require-hashes -r "envs/requirements-$name.txt"
# By version, not by hash: each platform has a build of its own. The lock has what it needs.
[ "$name" != pytorch ] || .venv-pytorch/bin/python -m pip install --quiet torch==2.13.0
