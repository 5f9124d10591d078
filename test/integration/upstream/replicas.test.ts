import { describe, expect, it, onTestFinished } from "vitest";
import { ServiceClient } from "../../support/service-client.js";
import { startService } from "../../support/start-service.js";
import { answerBytes, streamHead } from "../../support/upstream/raw-upstream.js";
import { start, text, whole } from "../../support/upstream/test-upstream.js";

/** Sends a chat to an upstream of this kind, which gives `answers` in turn and then repeats the last one. */
async function ask(kind: string, answers: readonly string[], stream: boolean) {
  let sent = 0;
  const upstream = await start((socket, { method }) => {
    if (method === "GET") return void socket.end(answerBytes("404 Not Found", "text/plain", "none"));
    socket.end(answers[Math.min(sent, answers.length - 1)] ?? "");
    sent += 1;
  });
  const service = await startService({
    config: {
      upstreams: { up: { url: upstream.url, kind } },
      models: [{ id: "m", engine: "openai", upstream: "up" }],
    },
  });
  onTestFinished(() => service.close());
  const reply = await new ServiceClient(service.http, service.key).chat("m", { stream });
  return { status: reply.status, attempts: reply.headers.get("x-uis-attempts"), text: reply.text, sent };
}

const crash = answerBytes("500 Internal Server Error", "text/plain", "Internal Server Error");
const full = answerBytes("503 Service Unavailable", "text/plain", "Request dropped due to backpressure");

describe.each([false, true])("the only deployment of a model, streamed: %s", (stream) => {
  it("is tried again at Ray Serve, where a further try reaches another replica (REL-8)", async () => {
    const answered = await ask("ray", [crash, crash, whole], stream);
    expect(answered).toMatchObject({ status: 200, attempts: "3", sent: 3 });
    expect(answered.text).toContain("Hello");
    expect(await ask("ray", [crash], stream)).toMatchObject({ status: 502, sent: 3 });
  });

  it("is tried only once if it is a single server, if Ray is overloaded, and after content reached the client", async () => {
    expect(await ask("generic", [crash, whole], stream)).toMatchObject({ status: 502, sent: 1 });
    expect(await ask("ray", [full, whole], stream)).toMatchObject({ status: 503, sent: 1 });
    if (stream)
      expect(await ask("ray", [streamHead + text("a"), whole], stream)).toMatchObject({ status: 200, sent: 1 });
  });
});
