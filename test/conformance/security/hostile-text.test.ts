import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type RunningService, startService } from "../../support/start-service.js";
import { type Api, createApi, eventsOf, user } from "../openai/api.js";

/** Texts by which a model could try to break out of an SSE event, a header or a terminal. */
const hostile = [
  "a\n\ndata: [DONE]\n\ndata: {}\n\n",
  "line\r\nevent: done\r\nid: 1\r\n\r\n",
  ": comment\nretry: 1\n\n",
  "sep\u2028\u2029end",
  "\u001b]52;c;ZXZpbA==\u0007\u001b[2J",
  "\u0000\u007f\ufeff",
  '"}}]}\n\n{"error":',
];

describe("hostile text of a model or a caller", () => {
  let service: RunningService;
  let api: Api;
  beforeAll(async () => {
    const models = [{ id: "echo", engine: "scripted", scripted: {} }];
    service = await startService({ config: { models } });
    api = createApi(service);
  });
  afterAll(() => service.close());

  it.each(hostile)("stays content of a stream (%j) (SEC-24)", async (text) => {
    const { text: raw } = await api.chat({ model: "echo", stream: true, messages: [{ ...user, content: text }] });
    const lines = raw.split("\n");
    expect(lines.filter((line) => line !== "" && !line.startsWith("data: {"))).toEqual(["data: [DONE]"]);
    const contents = eventsOf(raw)
      .slice(0, -1)
      .map((event) => event.choices[0]?.delta.content ?? "");
    expect(contents.join("")).toBe(text);
  });

  it.each(hostile)("stays content of a whole answer (%j) (SEC-24)", async (text) => {
    const { json } = await api.chat({ model: "echo", messages: [{ ...user, content: text }] });
    expect(json.choices[0].message.content).toBe(text);
  });

  it("does not get into a header if a caller sends it as the name of a model (SEC-24)", async () => {
    const { status, headers } = await api.chat({ model: "x\r\nset-cookie: a=b" }, { "x-client-request-id": "plain" });
    expect(status).toBe(404);
    expect(headers.get("set-cookie")).toBeNull();
  });
});
