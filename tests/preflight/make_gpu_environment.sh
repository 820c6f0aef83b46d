#!/bin/sh
# Make .venv-preflight-gpu, in which the tests compile for GPUs.
set -eu
cd "$(dirname "$0")/../.."
[ -x .venv-preflight-gpu/bin/python ] || python3.11 -m venv .venv-preflight-gpu
.venv-preflight-gpu/bin/pip install --quiet --no-deps --no-compile --require-hashes -r envs/requirements-preflight-gpu.txt
