"""Uses the openai package against a running service and prints what it saw as one JSON object.

Reads {"api", "key", "read_key"} from stdin. Works with openai 1.50 and later.
"""

import json
import sys

import openai
import pydantic

CHAT = "org/chat:tag"
HI = [{"role": "user", "content": "Hi"}]
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in ("weather", "clock")]


def create(client):
    raw = client.chat.completions.with_raw_response.create(model=CHAT, messages=HI)
    completion = raw.parse()
    return {"completion": completion.model_dump(), "request_id": raw.headers["x-request-id"]}


def stream(client):
    chunks = client.chat.completions.create(model=CHAT, messages=HI, stream=True, stream_options={"include_usage": True})
    return [chunk.model_dump(exclude_unset=True) for chunk in chunks]


def stream_helper(client):
    """The helper concatenates strings and adds numbers of all deltas, so a value that is sent twice is visible."""
    completions = client.chat.completions if hasattr(client.chat.completions, "stream") else client.beta.chat.completions
    with completions.stream(model="tools", messages=HI, tools=TOOLS, stream_options={"include_usage": True}) as events:
        for _ in events:
            pass
        return events.get_final_completion().model_dump()


def embeddings(client):
    def vectors(**options):
        answer = client.embeddings.create(model="vectors", input=["red", "green"], **options)
        return [item.embedding for item in answer.data]

    return {"default": vectors(), "float": vectors(encoding_format="float")}


def models(client):
    return {
        "listed": [model.id for model in client.models.list()],
        "retrieved": client.models.retrieve(CHAT).model_dump(),
    }


def legacy(client):
    chunks = client.completions.create(model=CHAT, prompt="Hi", stream=True)
    return {
        "text": client.completions.create(model=CHAT, prompt="Hi").choices[0].text,
        "streamed": "".join(chunk.choices[0].text for chunk in chunks),
    }


class Place(pydantic.BaseModel):
    city: str
    mild: bool


def responses(client):
    """Returns None for versions without the API."""
    if not hasattr(client, "responses"):
        return None
    with client.responses.stream(model=CHAT, input="Hi") as events:
        deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
        streamed = events.get_final_response()
    return {
        "created": client.responses.create(model=CHAT, input="Hi").model_dump(),
        "deltas": deltas,
        "streamed": streamed.output_text,
        "parsed": client.responses.parse(model="json", input="Hi", text_format=Place).output_parsed.model_dump(),
        "tools": response_tools(client),
    }


def response_tools(client):
    """Sends the output back with the results of its calls, until an answer has no calls."""
    parameters = {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    }
    tools = [{"type": "function", "name": "weather", "parameters": parameters, "strict": True}]
    items = [{"role": "user", "content": "How is the weather in Oslo?"}]
    called_with = []
    for _ in range(5):
        response = client.responses.create(model="agent", input=items, tools=tools)
        items += response.output
        calls = [item for item in response.output if item.type == "function_call"]
        if not calls:
            return {"answer": response.output_text, "called_with": called_with}
        called_with += [call.arguments for call in calls]
        items += [{"type": "function_call_output", "call_id": call.call_id, "output": "12"} for call in calls]
    raise AssertionError("the answers did not stop calling the tool")


def raised(call):
    """The properties of the error of a failing call."""
    try:
        call()
    except openai.APIError as error:
        status = getattr(error, "status_code", None)
        return {"class": type(error).__name__, "status": status, "code": error.code, "type": error.type, "param": error.param}
    raise AssertionError("nothing was raised")


def refusals(client, read_key):
    def chat(client=client, **change):
        return raised(lambda: client.chat.completions.create(**{"model": CHAT, "messages": HI, **change}))

    return {
        "bad_key": chat(client.with_options(api_key="sk-not-a-key")),
        "read_key": chat(client.with_options(api_key=read_key)),
        "unknown_model": chat(model="nobody"),
        "bad_value": chat(temperature=9),
        "too_large": chat(messages=[{"role": "user", "content": "x" * 70_000}]),
    }


def death_in_stream(client):
    text = []

    def read():
        for chunk in client.chat.completions.create(model="dies-late", messages=HI, stream=True):
            text.append(chunk.choices[0].delta.content or "")

    return {"error": raised(read), "text": "".join(text)}


def retries(client):
    patient = client.with_options(max_retries=2)
    return patient.chat.completions.with_raw_response.create(model="fails-once", messages=HI).retries_taken


def main():
    target = json.load(sys.stdin)
    client = openai.OpenAI(base_url=target["api"], api_key=target["key"], max_retries=0)
    seen = {
        "version": openai.__version__,
        "create": create(client),
        "stream": stream(client),
        "stream_helper": stream_helper(client),
        "embeddings": embeddings(client),
        "models": models(client),
        "legacy": legacy(client),
        "responses": responses(client),
        "refusals": refusals(client, target["read_key"]),
        "death_in_stream": death_in_stream(client),
        "retries": retries(client),
    }
    json.dump(seen, sys.stdout)


main()
