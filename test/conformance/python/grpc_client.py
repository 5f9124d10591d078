"""Calls a service with the C-core gRPC client and prints what it saw: one JSON document.

Usage: grpc_client.py STUBS ADDRESS KEY
"""

import json
import sys
import time

stubs, address, key = sys.argv[1:]
sys.path.insert(0, stubs)

import grpc  # noqa: E402
from google.rpc import error_details_pb2  # noqa: E402
from grpc_status import rpc_status  # noqa: E402
from unified.catalog.v1 import catalog_service_pb2, catalog_service_pb2_grpc  # noqa: E402
from unified.inference.v1 import chat_pb2, inference_service_pb2, inference_service_pb2_grpc  # noqa: E402

channel = grpc.insecure_channel(address, options=[("grpc.max_send_message_length", -1)])
inference = inference_service_pb2_grpc.InferenceServiceStub(channel)
catalog = catalog_service_pb2_grpc.CatalogServiceStub(channel)
credential = (("authorization", f"Bearer {key}"),)


def params(model, text="Say something.", **fields):
    message = chat_pb2.Message(role=chat_pb2.ROLE_USER, content=[chat_pb2.ContentPart(text=text)])
    return chat_pb2.ChatCompletionParams(model=model, messages=[message], **fields)


def whole(model, **fields):
    return inference_service_pb2.CreateChatCompletionRequest(params=params(model, **fields))


def streamed(model, **fields):
    return inference_service_pb2.StreamChatCompletionRequest(params=params(model, **fields))


def failure(call):
    """The error of a call that must fail."""
    try:
        call()
    except grpc.RpcError as error:
        seen = {"code": error.code().name, "metadata": {k: v for k, v in error.trailing_metadata() if isinstance(v, str)}}
        status = rpc_status.from_call(error)
        for detail in status.details if status else []:
            info, bad = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
            if detail.Unpack(info):
                seen["reason"], seen["domain"], seen["info"] = info.reason, info.domain, dict(info.metadata)
            elif detail.Unpack(bad):
                seen["fields"] = [violation.field for violation in bad.field_violations]
        return seen
    return {"code": "OK"}


def unary():
    answer, call = inference.CreateChatCompletion.with_call(whole("m"), metadata=credential)
    return {
        "content": answer.completion.choices[0].message.content,
        "finish_reason": answer.completion.choices[0].finish_reason,
        "total_tokens": answer.completion.usage.total_tokens,
        "request_id": dict(call.initial_metadata()).get("x-request-id"),
    }


def stream():
    chunks = [answer.chunk for answer in inference.StreamChatCompletion(streamed("m"), metadata=credential)]
    return {
        "content": "".join(choice.delta.content for chunk in chunks for choice in chunk.choices),
        "total_tokens": chunks[-1].usage.total_tokens,
    }


def cancel():
    call = inference.StreamChatCompletion(streamed("hangs"), metadata=credential)
    next(call)
    call.cancel()
    return failure(lambda: list(call))


def deadline():
    started = time.monotonic()
    seen = failure(lambda: inference.CreateChatCompletion(whole("hangs"), metadata=credential, timeout=0.2))
    return {**seen, "seconds": time.monotonic() - started}


def gzip():
    answer = inference.CreateChatCompletion(whole("m"), metadata=credential, compression=grpc.Compression.Gzip)
    return {"content": answer.completion.choices[0].message.content}


def sizes():
    def of(mebibytes):
        return failure(
            lambda: inference.CreateChatCompletion(whole("m", text="x" * (mebibytes << 20)), metadata=credential)
        )

    return {"5": of(5)["code"], "21": of(21)}


scenarios = {
    "unary": unary,
    "stream": stream,
    "models": lambda: [
        model.id for model in catalog.ListModels(catalog_service_pb2.ListModelsRequest(), metadata=credential).models
    ],
    "unknown_model": lambda: failure(lambda: inference.CreateChatCompletion(whole("none"), metadata=credential)),
    "bad_value": lambda: failure(
        lambda: list(inference.StreamChatCompletion(streamed("m", temperature=3), metadata=credential))
    ),
    "no_credential": lambda: failure(lambda: inference.CreateChatCompletion(whole("m"))),
    "overloaded": lambda: failure(lambda: inference.CreateChatCompletion(whole("overloaded"), metadata=credential)),
    "large_metadata": lambda: failure(
        lambda: inference.CreateChatCompletion(whole("m"), metadata=(*credential, ("x-large", "a" * 40_960)))
    ),
    "cancel": cancel,
    "deadline": deadline,
    "gzip": gzip,
    "sizes": sizes,
}

print(json.dumps({name: scenario() for name, scenario in scenarios.items()}))
