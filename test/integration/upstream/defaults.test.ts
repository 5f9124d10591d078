import { afterEach, describe, expect, it } from "vitest";
import { type RunningService, startService } from "../../support/start-service.js";
import { answerBytes, type RawUpstream } from "../../support/upstream/raw-upstream.js";
import { modelList } from "../../support/upstream/server-paths.js";
import { start, whole } from "../../support/upstream/test-upstream.js";

let service: RunningService;

afterEach(() => service.close());

/** A server that lists its models, fails for the model `down`, and answers others. */
function server(): Promise<RawUpstream> {
  return start((socket, { path, body }) => {
    const list = JSON.stringify(modelList({ id: "up" }, { id: "down" }));
    if (path === "/v1/models") socket.end(answerBytes("200 OK", "application/json", list));
    else if (body.includes('"model":"down"')) socket.end(answerBytes("500 Internal Server Error", "text/plain", "no"));
    else socket.end(whole);
  });
}

/** Sends a request to a model with defaults, and resolves to the body that its server receives. */
async function received(path: string, request: object, upstream: RawUpstream): Promise<Record<string, unknown>> {
  const deployment = { engine: "openai", upstream: "up" };
  const defaults = { temperature: 0.3, min_p: 0.05, max_tokens: 64, stop: "END", system: "Be brief." };
  service = await startService({
    config: {
      upstreams: { up: { url: upstream.url, kind: "vllm", discover: "off" } },
      models: [
        { id: "m", ...deployment, model: "up", defaults },
        { id: "plain", ...deployment, model: "up" },
        { id: "failing", ...deployment, model: "down", defaults, fallbacks: ["own"] },
        { id: "own", ...deployment, model: "up", defaults: { top_p: 0.1 } },
      ],
    },
  });
  const response = await fetch(`${service.api}${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${service.key}`, "content-type": "application/json" },
    body: JSON.stringify(request),
  });
  expect(response.status).toBe(200);
  await response.text();
  const sent = upstream.requests.filter(({ method }) => method === "POST").at(-1);
  return JSON.parse(sent?.body ?? "") as Record<string, unknown>;
}

const user = { role: "user", content: "Hi" };

describe("defaults of a model on an upstream server", () => {
  it("are sent where the client sets nothing (CHAT-29)", async () => {
    expect(await received("/chat/completions", { model: "m", messages: [user] }, await server())).toMatchObject({
      temperature: 0.3,
      min_p: 0.05,
      max_tokens: 64,
      stop: ["END"],
      messages: [{ role: "system", content: "Be brief." }, user],
    });
  });

  it("are not sent where the client sets its own, and not for a model without defaults (CHAT-29)", async () => {
    const upstream = await server();
    const own = { temperature: 0, max_completion_tokens: 5, stop: ["mine"] };
    const messages = [{ role: "system", content: "Be long." }, user];
    const sent = await received("/chat/completions", { model: "m", messages, ...own }, upstream);
    expect(sent).toMatchObject({ temperature: 0, max_tokens: 5, stop: ["mine"], messages });
    await service.close();
    const plain = await received("/chat/completions", { model: "plain", messages: [user] }, upstream);
    expect(Object.keys(plain).sort()).toEqual(["messages", "model", "stream", "stream_options"]);
  });

  it("apply to text completions, without the system message", async () => {
    const sent = await received("/completions", { model: "m", prompt: "Once", temperature: 1 }, await server());
    expect(sent).toMatchObject({ prompt: "Once", temperature: 1, max_tokens: 64, stop: ["END"] });
  });

  it("of the requested model apply when a fallback model answers, without the fallback's own defaults (CHAT-29)", async () => {
    const sent = await received("/chat/completions", { model: "failing", messages: [user] }, await server());
    expect(sent).toMatchObject({ model: "up", temperature: 0.3, max_tokens: 64 });
    expect(sent).not.toHaveProperty("top_p");
  });
});
