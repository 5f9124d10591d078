import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { ChatCompletionParamsSchema, Role } from "../../../../gen/unified/inference/v1/chat_pb.js";
import { EmbeddingParamsSchema } from "../../../../gen/unified/inference/v1/embedding_pb.js";
import type { Operation } from "../../../../src/contract/operations.js";
import { type AnswerReader, CallDetails, type CallLine, CallTimes } from "../../../../src/domain/call/observer.js";
import { tokenAdministrator } from "../../../../src/domain/call/principal.js";
import { ServiceError } from "../../../../src/domain/call/service-error.js";
import { ContentTranscript, contentCharsMax } from "../../../../src/domain/request-log/content-transcript.js";
import type { RequestLogEntry } from "../../../../src/domain/request-log/request-log-store.js";
import { RequestRecorder } from "../../../../src/domain/request-log/request-recorder.js";
import { AbortSource } from "../../../../src/lib/abort-source.js";
import { withoutSecrets } from "../../../../src/telemetry/logger.js";
import { FakeClock } from "../../../support/fake-clock.js";
import { silentLog } from "../../../support/silent-log.js";

const aKey = "sk-uis-q3Tq2bXW1c0aPLANTEDSECRETfE5kN9mJr7VwYz0Dh4Gs6";

function line(number: number, changes: { operation?: Operation; details?: CallDetails } = {}): CallLine {
  const { operation = "create_chat_completion", details = null } = changes;
  const caller = {
    authorization: aKey,
    deadlineAtMs: 1,
    abort: new AbortSource(),
    transport: "grpc",
    address: "",
  } as const;
  const end = {
    requestId: `req_${number}`,
    operation,
    transport: "grpc",
    model: "m",
    why: "completed",
    code: "ok",
    stage: "delivering",
    clientLeft: false,
    usage: null,
    receivedAtMs: 5,
    durationMs: 7,
    times: new CallTimes(0),
    route: null,
    traceparent: undefined,
    details,
  } as const;
  return { end, principal: tokenAdministrator, caller, error: null, traceId: undefined, labels: null };
}

/** A recorder whose store calls `append` for each batch. */
function openRecorder(append: (ids: readonly string[]) => Promise<void>, keepsContent = false) {
  const clock = new FakeClock();
  const appended: RequestLogEntry[] = [];
  const warnings: object[] = [];
  const log = { ...silentLog, warn: (fields: object) => void warnings.push(fields) };
  const store = {
    append: async (entries: readonly RequestLogEntry[]) => {
      await append(entries.map(({ record }) => record.id));
      appended.push(...entries);
    },
  };
  const recorder = new RequestRecorder({ store, clock, log, redact: withoutSecrets, keep: 10, keepsContent });
  return { recorder, clock, warnings, appended, ids: () => appended.map(({ record }) => record.id) };
}

/** Lets the recorder continue after a promise of the store. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
}

it("the recorder writes requests that run a model, and no others, in batches every quarter of a second", async () => {
  const { recorder, clock, ids } = openRecorder(async () => {});
  recorder.record(line(1));
  recorder.record(line(2, { operation: "list_models" }));
  recorder.record(line(3));
  clock.advance(249);
  await turns();
  expect(ids()).toEqual([]);
  clock.advance(1);
  await turns();
  expect(ids()).toEqual(["req_1", "req_3"]);
  expect(clock.pending).toBe(0);
});

it("the recorder keeps records that the store does not accept, and writes them in order once the store answers again", async () => {
  let isUp = false;
  const { recorder, clock, ids, warnings } = openRecorder(async () => {
    if (!isUp) throw new ServiceError("storage_unavailable", "away");
  });
  for (let number = 0; number < 150; number += 1) recorder.record(line(number));
  await turns();
  clock.advance(1_000);
  await turns();
  expect([ids(), warnings]).toEqual([[], []]);
  isUp = true;
  clock.advance(1_000);
  await turns();
  expect(ids()).toEqual(Array.from({ length: 150 }, (_, number) => `req_${number}`));
  expect(recorder.dropped).toBe(0);
});

it("the recorder drops records beyond 10,000 that wait, counts them, and logs one line a minute", async () => {
  const { recorder, clock, warnings } = openRecorder(() => new Promise(() => {}));
  for (let number = 0; number < 10_200; number += 1) recorder.record(line(number));
  // The first batch of 100 is on its way to the store.
  expect(recorder.dropped).toBe(100);
  expect(warnings).toEqual([{ dropped: 1 }]);
  clock.advance(60_000);
  recorder.record(line(1));
  expect(warnings).toEqual([{ dropped: 1 }, { dropped: 100 }]);
});

it("the recorder writes waiting records when it closes, and gives up after two seconds without an answer", async () => {
  const quick = openRecorder(async () => {});
  quick.recorder.record(line(1));
  await quick.recorder.close();
  expect(quick.ids()).toEqual(["req_1"]);
  const stuck = openRecorder(() => new Promise(() => {}));
  for (let number = 0; number < 101; number += 1) stuck.recorder.record(line(number));
  const closing = stuck.recorder.close();
  await turns();
  stuck.clock.advance(2_000);
  await closing;
  expect(stuck.recorder.dropped).toBe(1);
});

it("the recorder drops a batch that the store rejects for another reason than an outage", async () => {
  const { recorder, clock, ids } = openRecorder(async (batch) => {
    if (batch.includes("req_1")) throw new Error("unreadable");
  });
  recorder.record(line(1));
  clock.advance(250);
  await turns();
  recorder.record(line(2));
  clock.advance(250);
  await turns();
  expect([ids(), recorder.dropped]).toEqual([["req_2"], 1]);
});

it("a record describes each try with its begin, duration and outcome", async () => {
  const { recorder, clock, appended } = openRecorder(async () => {});
  const details = new CallDetails();
  const end = line(1, { details });
  details.tryBegan("a", "m", 10);
  details.tryFailed("a", "upstream_timeout", 14.5);
  end.end.times.engineBegan(10, 3);
  details.tryBegan("b", "other", 15);
  end.end.times.engineEnded(40);
  details.settled = { promptTokens: 2, completionTokens: 3, cachedTokens: 1, costNano: 9 };
  recorder.record(end);
  clock.advance(250);
  await turns();
  expect(appended[0]?.record).toMatchObject({
    tries: [
      { deployment: "a", model: "m", beganMs: 10, durationMs: 4.5, code: "upstream_timeout" },
      { deployment: "b", model: "other", beganMs: 15, durationMs: 25, code: "ok" },
    ],
    promptTokens: 2,
    completionTokens: 3,
    cachedTokens: 1,
    costNano: 9,
    queueMs: 3,
  });
  expect(appended[0]?.content).toBeNull();
});

it("a recorder with content enabled stores prompt and answer with credentials redacted (SEC-18)", async () => {
  const { recorder, clock, appended } = openRecorder(async () => {}, true);
  const transcript = recorder.transcript();
  const message = { role: Role.USER, content: [{ part: { case: "text" as const, value: `my key: ${aKey}` } }] };
  transcript?.asked(create(ChatCompletionParamsSchema, { model: "m", messages: [message] }));
  const passedOn: unknown[] = [];
  const reader: AnswerReader = {
    sink: (choice, event) => {
      passedOn.push([choice, event]);
      return undefined;
    },
    restart: () => {},
  };
  const copy = transcript?.copying(reader);
  const text = { type: "text", text: `Bearer ${aKey} is`, outTokens: 1 } as never;
  await copy?.sink(0, { type: "text", text: "of a failed try" } as never);
  copy?.restart?.(0, 1);
  await copy?.sink(0, text);
  await copy?.sink(1, { type: "tool", name: "f", argsDelta: "{}" } as never);
  expect(passedOn[1]).toEqual([0, text]);
  recorder.record({
    ...line(1, { details: new CallDetails(transcript) }),
    error: new ServiceError("upstream_error", "no"),
  });
  clock.advance(250);
  await turns();
  const content = appended[0]?.content;
  expect(content).toMatchObject({ answers: ["Bearer [redacted] is", "\nf {}"], errorMessage: "no", isCut: false });
  expect(JSON.parse(content?.request ?? "")).toMatchObject({
    messages: [{ content: [{ text: "my key: sk-uis-[redacted]" }] }],
  });
  expect(JSON.stringify(appended)).not.toContain("PLANTED");
});

it("a record has the client's labels and the client's request id without credentials (SEC-18)", async () => {
  const { recorder, clock, appended } = openRecorder(async () => {});
  const { caller, ...rest } = line(1);
  const labels = { user: `sent ${aKey}`, metadata: { api_key: "PLANTED", ticket: "T-1" } };
  recorder.record({ ...rest, caller: { ...caller, clientRequestId: `Bearer ${aKey}` }, labels });
  clock.advance(250);
  await turns();
  expect(appended[0]?.record).toMatchObject({
    clientRequestId: "Bearer [redacted]",
    labels: { user: "sent sk-uis-[redacted]", metadata: { api_key: "[redacted]", ticket: "T-1" } },
  });
  expect(JSON.stringify(appended)).not.toContain("PLANTED");
});

it("a transcript cuts long content at its bound and is still valid JSON", () => {
  const transcript = new ContentTranscript((text) => text);
  transcript.asked(create(EmbeddingParamsSchema, { model: "m", input: ["x".repeat(20_000), "y".repeat(20_000), "z"] }));
  const reader: AnswerReader = { sink: () => undefined, restart: null };
  const { sink } = transcript.copying(reader);
  for (let piece = 0; piece < 5; piece += 1) sink(0, { type: "text", text: "w".repeat(10_000) } as never);
  const { request, answers, isCut } = transcript.content("");
  expect(JSON.parse(request).input).toHaveLength(3);
  expect(request.length).toBeLessThan(contentCharsMax + 200);
  expect(answers.map(({ length }) => length)).toEqual([contentCharsMax]);
  expect(isCut).toBe(true);
});
