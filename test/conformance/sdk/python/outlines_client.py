"""Uses the outlines package, as for a vLLM server, against a running service and prints what it saw as one JSON object.

Reads {"api", "key", "choices", "count"} from stdin.
"""

import json
import sys
from typing import Literal

import openai
import outlines
import pydantic


class Person(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=8)
    age: int = pydantic.Field(ge=0, le=150)


given = json.load(sys.stdin)
client = openai.OpenAI(base_url=given["api"], api_key=given["key"], max_retries=0)
model = outlines.from_vllm(client, "m")
choice = Literal[tuple(given["choices"])]

seen = {
    "choices": [model("What is for dinner?", choice, seed=seed, max_tokens=100) for seed in range(given["count"])],
    "regex": model("A telephone number?", outlines.regex(r"[0-9]{3}-\d{4}"), seed=1, max_tokens=100),
    "person": json.loads(model("Who are you?", Person, seed=1, max_tokens=400)),
}
print(json.dumps(seen))
