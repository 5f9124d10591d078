"""Converts a GGUF file of the llama architecture to a folder that vLLM loads: weights in bf16, configuration, tokenizer.

    gguf_to_folder.py FILE.gguf FOLDER
"""

import json
import os
import sys

import numpy as np
import torch
from gguf import GGUFReader, dequantize
from safetensors.torch import save_file
from transformers import AutoTokenizer

path, folder = sys.argv[1], sys.argv[2]
reader = GGUFReader(path)


def value(key, default=None):
    field = reader.fields.get(key)
    return default if field is None else field.contents()


heads, kv_heads = value("llama.attention.head_count"), value("llama.attention.head_count_kv")
config = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": value("llama.embedding_length"),
    "intermediate_size": value("llama.feed_forward_length"),
    "num_hidden_layers": value("llama.block_count"),
    "num_attention_heads": heads,
    "num_key_value_heads": kv_heads,
    "max_position_embeddings": value("llama.context_length"),
    "rms_norm_eps": value("llama.attention.layer_norm_rms_epsilon"),
    "rope_theta": value("llama.rope.freq_base", 10000.0),
    "hidden_act": "silu",
    "torch_dtype": "bfloat16",
    "bos_token_id": value("tokenizer.ggml.bos_token_id"),
    "eos_token_id": value("tokenizer.ggml.eos_token_id"),
}
whole = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
of_layer = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}


def rotary(weights, count):
    """llama.cpp stores queries and keys with interleaved rotary pairs."""
    pairs = weights.reshape(count, weights.shape[0] // count // 2, 2, *weights.shape[1:])
    return pairs.swapaxes(1, 2).reshape(weights.shape)


tensors = {}
for tensor in reader.tensors:
    shape = tuple(reversed([int(size) for size in tensor.shape]))
    weights = dequantize(tensor.data, tensor.tensor_type).astype(np.float32).reshape(shape)
    name = whole.get(tensor.name)
    if name is None:
        _, layer, part, _ = tensor.name.split(".")
        name = f"model.layers.{layer}.{of_layer[part]}.weight"
        if part in ("attn_q", "attn_k"):
            weights = rotary(weights, heads if part == "attn_q" else kv_heads)
    tensors[name] = torch.from_numpy(np.ascontiguousarray(weights)).to(torch.bfloat16)
config["vocab_size"] = tensors["model.embed_tokens.weight"].shape[0]
config["tie_word_embeddings"] = "lm_head.weight" not in tensors

os.makedirs(folder, exist_ok=True)
save_file(tensors, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
with open(os.path.join(folder, "config.json"), "w") as file:
    json.dump(config, file, indent=1)
source = os.path.abspath(path)
AutoTokenizer.from_pretrained(os.path.dirname(source), gguf_file=os.path.basename(source)).save_pretrained(folder)
