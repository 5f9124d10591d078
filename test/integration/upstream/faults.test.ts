import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { LoadedModel } from "../../../src/domain/engine/engine.js";
import type { UpstreamDefinition } from "../../../src/domain/engine/upstream.js";
import { eventually } from "../../support/eventually.js";
import { makeAuthority } from "../../support/receivers/authority.js";
import {
  chatRequest,
  loadUpstreamModel,
  runEvents,
  textOf,
  upstreamSettings,
} from "../../support/upstream/engine-calls.js";
import { faults, limits, wholeStream, writeAndEnd } from "../../support/upstream/faults.js";
import { type RawAnswer, RawUpstream } from "../../support/upstream/raw-upstream.js";

describe("an upstream server with a fault (REL-6)", () => {
  let upstream: RawUpstream;
  let model: LoadedModel;
  let isFaulty = true;
  let fault: RawAnswer = () => {};

  beforeAll(async () => {
    upstream = await RawUpstream.start((socket, request) => {
      (isFaulty ? fault : writeAndEnd(wholeStream))(socket, request);
    });
    // The kind azure has no list of models, so the server receives no other request.
    model = await loadUpstreamModel(upstreamSettings(upstream.url, { kind: "azure", ...limits }));
  });
  afterEach(() => {
    isFaulty = true;
  });
  afterAll(async () => {
    await model.unload(0);
    await upstream.close();
  });

  it.each(
    // Faults that end at a limit are tested with unary callers in fault-answers.test.ts.
    Object.entries(faults).flatMap(([name, given]) => [
      { name, caller: "streaming", deltas: "each" as const, ...given },
      ...(given.limitMs === undefined ? [{ name, caller: "unary", deltas: "joined" as const, ...given }] : []),
    ]),
  )("$name: a $caller caller gets $code within the limit", async ({ answer, code, deltas, limitMs = 0 }) => {
    fault = answer;
    const startedAtMs = performance.now();
    const { events: seen, error } = await runEvents(model, chatRequest({ deltas }));
    expect(error?.code ?? null, String(error?.cause)).toBe(code);
    expect(performance.now() - startedAtMs).toBeLessThan(limitMs + 1_000);
    if (code === null) expect(textOf(seen)).toBe("Hello world");
    expect(seen.some(({ type }) => type === "usage")).toBe(code === null);
    expect(model.stats().slotsBusy).toBe(0);
    isFaulty = false;
    expect((await runEvents(model, chatRequest({ deltas }))).error).toBeNull();
    await eventually(() => upstream.isIdle, "the closed connections");
  });

  it("the error of a 429 has its Retry-After, that of a timeout during an answer the usage until then", async () => {
    fault = faults["answers 429"]?.answer ?? fault;
    expect((await runEvents(model, chatRequest())).error?.retryAfterMs).toBe(7_000);
    fault = faults["falls silent after the first content"]?.answer ?? fault;
    expect((await runEvents(model, chatRequest())).error?.usage).toMatchObject({ outTokens: 1 });
  });
});

describe("an upstream server that cannot be connected to (REL-6)", () => {
  const codeOf = async (settings: UpstreamDefinition): Promise<{ code: string | undefined; tookMs: number }> => {
    const model = await loadUpstreamModel(settings);
    const startedAtMs = performance.now();
    const { error } = await runEvents(model, chatRequest());
    await model.unload(0);
    return { code: error?.code, tookMs: performance.now() - startedAtMs };
  };

  it("a refused connection is upstream_error", async () => {
    const closed = await RawUpstream.start(() => {});
    const { url } = closed;
    await closed.close();
    expect((await codeOf(upstreamSettings(url, { kind: "azure", ...limits }))).code).toBe("upstream_error");
  });

  it("a name that does not exist is upstream_error", async () => {
    expect((await codeOf(upstreamSettings("http://upstream.invalid/v1", { kind: "azure", ...limits }))).code).toBe(
      "upstream_error",
    );
  });

  it("a connection that is never established is timeout, within the limit", async () => {
    // A TCP server that never answers the TLS handshake.
    const silent = await RawUpstream.start(() => {});
    const url = silent.url.replace("http:", "https:");
    const { code, tookMs } = await codeOf(upstreamSettings(url, { kind: "azure", ...limits }));
    expect(code).toBe("timeout");
    expect(tookMs).toBeLessThan(limits.connectMs + 1_000);
    await silent.close();
  });

  it("TLS: only a certificate of the configured authority is accepted, and a client certificate is sent", async () => {
    const authority = makeAuthority();
    const other = makeAuthority();
    const identity = authority.issue(["127.0.0.1"]);
    const client = authority.issue(["client"]);
    const upstream = await RawUpstream.start(writeAndEnd(wholeStream), {
      ...identity,
      ca: authority.ca,
      requestCert: true,
      rejectUnauthorized: true,
    });
    const tls = { ca: authority.ca, ...client };
    const settings = (changes: { ca?: string | null; cert?: null; key?: null }) =>
      upstreamSettings(upstream.url, { kind: "azure", ...limits, tls: { ...tls, ...changes } });
    expect((await codeOf(settings({}))).code).toBeUndefined();
    expect((await codeOf(settings({ ca: null }))).code).toBe("upstream_error");
    expect((await codeOf(settings({ ca: other.ca }))).code).toBe("upstream_error");
    expect((await codeOf(settings({ cert: null, key: null }))).code).toBe("upstream_error");
    await upstream.close();
    authority.close();
    other.close();
  });
});
