import { beforeAll, describe, expect, it } from "vitest";
import { eventually } from "../../support/eventually.js";
import { type ClientAnswer, ServiceClient } from "../../support/service-client.js";
import { type DebugState, startService } from "../../support/start-service.js";
import { faults } from "../../support/upstream/faults.js";
import { RawUpstream } from "../../support/upstream/raw-upstream.js";

/** Status and code of the answer by the engine's code, as docs/upstreams.md has them. */
const answered: Readonly<Record<string, readonly [status: number, code: string]>> = {
  timeout: [504, "upstream_timeout"],
  upstream_error: [502, "upstream_error"],
  unauthorized: [502, "upstream_unauthorized"],
  rate_limited: [503, "upstream_rate_limited"],
  bad_input: [400, "invalid_value"],
  overloaded: [503, "server_is_overloaded"],
  model_loading: [503, "model_loading"],
};

/** Limit of the first byte and of pauses, half of the limit of a whole call. Longer than all requests take in parallel. */
const limitMs = 3_000;
const patienceMs = 5_000;

const cases = Object.entries(faults).flatMap(([name, fault]) =>
  [false, true].map((stream) => ({ name, ...fault, stream, form: stream ? "stream" : "unary" })),
);
const idOf = (at: number): string => `m${at}`;

interface Seen extends ClientAnswer {
  readonly tookMs: number;
}

describe("clients of an upstream server with a fault", () => {
  const answers = new Map<string, Seen>();
  let atRest: DebugState;
  let lines: ReadonlyMap<string, Record<string, unknown>>;

  beforeAll(async () => {
    const upstream = await RawUpstream.start((socket, request) => {
      const { model } = JSON.parse(request.body) as { model: string };
      cases[Number(model.slice(1))]?.answer(socket, request);
    });
    // Each model has an upstream of its own, because a 401 or 429 pauses the key of an upstream. Azure lists no models.
    const settings = { kind: "azure", first_byte: `${limitMs}ms`, idle: `${limitMs}ms`, total: `${2 * limitMs}ms` };
    const service = await startService({
      config: {
        upstreams: Object.fromEntries(cases.map((_, at) => [`u${at}`, { url: upstream.url, ...settings }])),
        models: cases.map((_, at) => ({ id: idOf(at), engine: "openai", upstream: `u${at}` })),
      },
    });
    const client = new ServiceClient(service.api, service.key);
    await Promise.all(
      cases.map(async ({ stream }, at) => {
        const sentAtMs = performance.now();
        const answer = await client.chat(idOf(at), { stream });
        answers.set(idOf(at), { ...answer, tookMs: performance.now() - sentAtMs });
      }),
    );
    const requests = () => service.logs.filter(({ msg }) => msg === "request");
    await eventually(() => requests().length === cases.length, "a line of the log for each request");
    lines = new Map(requests().map((line) => [String(line["model"]), line]));
    atRest = await service.debugState();
    await service.close();
    await upstream.close();
  }, 60_000);

  it.each(cases.map((given, at) => ({ ...given, id: idOf(at) })))(
    "$name, $form: get the documented error within the limit (REL-6, ERR-28)",
    ({ id, code, stream }) => {
      const answer = answers.get(id);
      if (answer === undefined) throw new Error("there was no answer");
      expect(answer.tookMs).toBeLessThan(2 * limitMs + patienceMs);
      if (code === null) {
        expect([answer.status, answer.text.match(/"error"/g)]).toEqual([200, null]);
        expect(lines.get(id)).toMatchObject({ outcome: "completed" });
        expect(lines.get(id)?.["completion_tokens"]).toBeGreaterThan(0);
        return;
      }
      const [status, publicCode] = answered[code] ?? [];
      // A stream that had begun has the error as its last event.
      const isEvent = stream && answer.status === 200;
      if (!isEvent) expect(answer.status, answer.text).toBe(status);
      expect(answer.text.match(/"code":"[^"]*"/g)).toEqual([`"code":"${publicCode}"`]);
      expect(answer.text).not.toContain("[DONE]");
      if (!isEvent) expect(answer.text).not.toContain("Hello");
      expect(lines.get(id)).toMatchObject({ outcome: "failed", error: publicCode });
      if (answer.text.includes("Hello")) expect(lines.get(id)?.["completion_tokens"]).toBeGreaterThan(0);
    },
  );

  it("leave nothing behind: every request is settled, and every slot and lease is free", () => {
    const { requests, models, live_leases, streams, timers } = atRest;
    expect(requests).toMatchObject({ running: 0, waiting: 0 });
    expect(models.filter(({ busy, waiting }) => busy + waiting > 0)).toEqual([]);
    expect([live_leases, streams, timers]).toEqual([0, 0, 0]);
  });

  it("get the Retry-After of the upstream's 429 (RETRY-1)", () => {
    const limited = cases.findIndex(({ name }) => name === "answers 429");
    expect(answers.get(idOf(limited))?.headers.get("retry-after")).toBe("7");
  });
});
