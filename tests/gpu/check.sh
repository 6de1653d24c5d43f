#!/usr/bin/env bash
# On a machine with a CUDA device: the tests marked gpu, then steps a second on the CPU and on the device, in under
# eight minutes. From anywhere in an environment where the project and its test extra are installed:
#     tests/gpu/check.sh
set -uo pipefail
cd "$(dirname "$0")/../.."
export OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false
out="$(mktemp -d)"
trap 'rm -rf "$out"' EXIT

python -c 'import torch, sys; ok = torch.cuda.is_available(); print(torch.cuda.get_device_name() if ok else "no CUDA device"); sys.exit(not ok)' || exit 1
timeout 180 python -m pytest -q -m gpu tests/gpu || exit 1

rate() { # DEVICE NUM_ENVS: steps a second, games made before
  timeout 130 cbr run recipes/quickstart.yaml --device "$1" --set "run.num_envs=$2" --set evaluation.splits=[] \
    --out "$out/$1-$2" >"$out/log" 2>&1 || { tail -3 "$out/log" >&2; echo -; return; }
  python -c 'import json, sys; print(round(json.load(open(sys.argv[1]))["steps_per_second"], 1))' "$out/$1-$2/timing.json"
}

cbr run recipes/quickstart.yaml --set run.episodes=1 --out "$out/warm" >"$out/log" 2>&1 || { tail -3 "$out/log"; exit 1; }
printf '%-8s %10s %10s   quickstart, training steps a second\n' games CPU CUDA
for games in 1 5; do
  printf '%-8s %10s %10s\n' "$games" "$(rate cpu $games)" "$(rate cuda $games)"
done
