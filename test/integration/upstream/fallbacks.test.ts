import { afterEach, describe, expect, it } from "vitest";
import { type RunningService, startService } from "../../support/start-service.js";
import { answerBytes, type RawAnswer, RawUpstream } from "../../support/upstream/raw-upstream.js";

let service: RunningService | null = null;
let upstream: RawUpstream | null = null;

afterEach(async () => {
  await service?.close();
  await upstream?.close();
  service = null;
  upstream = null;
});

/** Sends a chat to the model `large` of an upstream, which has the fallback `small` in this process. */
async function chat(url: string, stream = false): Promise<Response> {
  service = await startService({
    config: {
      upstreams: { gpu: { url, kind: "generic", discover: "off" } },
      models: [
        { id: "large", engine: "openai", upstream: "gpu", model: "big", fallbacks: ["small"] },
        { id: "small", engine: "scripted", scripted: { text: "Hello." } },
      ],
    },
  });
  return await fetch(`${service.api}/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${service.key}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "large", stream, messages: [{ role: "user", content: "Hi" }] }),
  });
}

/** A server that lists its model and answers every request for it with an error. */
const failing =
  (status: string): RawAnswer =>
  (socket, { path }) => {
    const models = JSON.stringify({ object: "list", data: [{ id: "big", object: "model" }] });
    const error = JSON.stringify({ error: { message: "no such voice" } });
    const isList = path === "/v1/models";
    socket.write(answerBytes(isList ? "200 OK" : status, "application/json", isList ? models : error));
  };
const serverError = failing("500 Internal Server Error");

describe("a fallback of a model on an upstream server", () => {
  it.each([false, true])("answers when the server fails (stream: %s) (REL-21)", async (stream) => {
    upstream = await RawUpstream.start(serverError);
    const response = await chat(upstream.url, stream);
    expect(response.status).toBe(200);
    expect(await response.text()).toContain("Hello.");
    expect(response.headers.get("x-uis-model")).toBe("small");
    expect(response.headers.get("x-uis-attempts")).toBe("2");
  });

  it("does not answer a request that the server rejects as invalid (REL-21)", async () => {
    upstream = await RawUpstream.start(failing("400 Bad Request"));
    const response = await chat(upstream.url);
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { message: "no such voice", type: "invalid_request_error" } });
  });

  it("answers when no server listens, without waiting for the model to load (REL-21)", async () => {
    upstream = await RawUpstream.start(serverError);
    const { url } = upstream;
    await upstream.close();
    upstream = null;
    const response = await chat(url);
    expect(response.status).toBe(200);
    expect(response.headers.get("x-uis-model")).toBe("small");
  });
});
