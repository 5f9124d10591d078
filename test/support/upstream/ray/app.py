"""Ray Serve with two replicas of a small application that has OpenAI's API. Prints a line when it is ready."""

import asyncio, json, os, sys

import ray
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import StreamingResponse
from ray import serve

folder, port = sys.argv[1], int(sys.argv[2])
app = FastAPI()


def event(value):
    return f"data: {json.dumps(value)}\n\n"


def chunk(delta, finish=None):
    return event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


@serve.deployment(
    num_replicas=2,
    # One replica could carry three times the load of the test.
    max_ongoing_requests=16,
    max_queued_requests=32,
    health_check_period_s=1,
    ray_actor_options={"num_cpus": 0.1},
)
@serve.ingress(app)
class Chat:
    def __init__(self):
        self.running = 0
        self.note()

    def note(self, change=0):
        """Writes the number of this process's running requests to a file that the test reads."""
        self.running += change
        path = os.path.join(folder, f"running-{os.getpid()}")
        with open(path + ".new", "w") as file:
            file.write(str(self.running))
        os.rename(path + ".new", path)

    @app.get("/v1/models")
    async def models(self):
        return {"object": "list", "data": [{"id": "chat", "object": "model", "max_model_len": 2048}]}

    @app.post("/v1/chat/completions")
    async def chat(self, request: Request):
        body = await request.json()
        if body["model"] != "chat":
            raise HTTPException(404, f"no model {body['model']}")
        if body.get("temperature", 1) > 1:
            raise HTTPException(400, "temperature is above 1")
        words = body["messages"][-1]["content"].split()
        if words[0] == "crash":
            raise RuntimeError("crashed")
        # `pace 20 100`: 20 tokens, one every 100 ms.
        count, pause = (int(words[1]), int(words[2]) / 1000) if words[0] == "pace" else (3, 0.01)

        async def events():
            self.note(1)
            try:
                for i in range(count):
                    await asyncio.sleep(pause)
                    yield chunk({"content": f"word{i} "})
                yield chunk({}, "stop")
                usage = {"prompt_tokens": len(words), "completion_tokens": count}
                yield event({"choices": [], "usage": usage})
                yield "data: [DONE]\n\n"
            finally:
                self.note(-1)

        return StreamingResponse(events(), media_type="text/event-stream")


ray.init(num_cpus=2, include_dashboard=False, object_store_memory=80_000_000, _temp_dir=os.path.join(folder, "ray"))
serve.start(http_options={"host": "127.0.0.1", "port": port})
serve.run(Chat.bind())
print("ready", flush=True)
sys.stdin.read()
serve.shutdown()
ray.shutdown()
