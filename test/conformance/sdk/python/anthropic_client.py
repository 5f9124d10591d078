"""Uses the anthropic package against a running service and prints what it saw as one JSON object.

Reads {"http", "key"} from stdin.
"""

import json
import sys

import anthropic
from anthropic import beta_tool

CHAT = "org/chat:tag"
HI = [{"role": "user", "content": "Hi"}]


def stream_helper(client):
    with client.messages.stream(model=CHAT, max_tokens=100, messages=HI) as stream:
        texts = list(stream.text_stream)
        return {"texts": texts, "message": stream.get_final_message().model_dump()}


def tools(client):
    """The package's runner calls the function and sends its result, until a message has no calls."""
    asked = []

    @beta_tool
    def weather(city: str) -> str:
        """The weather of a city.

        Args:
            city: The name of the city.
        """
        asked.append(city)
        return "12 degrees"

    runner = client.beta.messages.tool_runner(model="agent", max_tokens=100, messages=HI, tools=[weather])
    return {"answer": runner.until_done().content[0].text, "asked": asked}


def refusal(client, **change):
    try:
        client.messages.create(**{"model": CHAT, "max_tokens": 100, "messages": HI, **change})
    except anthropic.APIStatusError as error:
        return {"class": type(error).__name__, "status": error.status_code, "body": error.body}
    raise AssertionError("nothing was raised")


def main():
    target = json.load(sys.stdin)
    client = anthropic.Anthropic(base_url=target["http"], api_key=target["key"], max_retries=0)
    seen = {
        "version": anthropic.__version__,
        "create": client.messages.create(model=CHAT, max_tokens=100, messages=HI).model_dump(),
        "stream_helper": stream_helper(client),
        "tools": tools(client),
        "count": client.messages.count_tokens(model=CHAT, messages=HI).input_tokens,
        "models": [model.id for model in client.models.list()],
        "bad_key": refusal(client.with_options(api_key="sk-not-a-key")),
        "unknown_model": refusal(client, model="nobody"),
    }
    json.dump(seen, sys.stdout)


main()
