import type { RequestLogEntry } from "../../../src/domain/request-log/request-log-store.js";
import { requestLogEntry, requestRecord } from "../records.js";

const question = JSON.stringify({
  model: "qwen3-4b-instruct",
  messages: [{ role: "ROLE_USER", content: [{ text: "What is a reverse proxy?" }] }],
});

/** The last requests of the company, the oldest first: one of each kind that the page shows differently. */
export function companyRequests(keyId: string, nowMs: number): readonly RequestLogEntry[] {
  const agoMs = (minutes: number) => nowMs - minutes * 60_000;
  const ofKey = { account: "default", keyId } as const;
  const limited = requestLogEntry(1, {
    ...ofKey,
    model: "smollm2-1.7b-instruct",
    code: "rate_limit_exceeded",
    receivedAtMs: agoMs(41),
    durationMs: 0.8,
    queueMs: 0,
    promptTokens: 0,
    completionTokens: 0,
    attempts: 0,
    tries: [],
  });
  const failed = requestLogEntry(2, {
    ...ofKey,
    model: "qwen3-4b-instruct",
    code: "upstream_timeout",
    isStream: true,
    receivedAtMs: agoMs(22),
    durationMs: 60_040,
    completionTokens: 0,
    tries: [
      {
        deployment: "gpu-1/qwen3-4b",
        model: "qwen3-4b-instruct",
        beganMs: 2,
        durationMs: 60_037,
        code: "upstream_timeout",
      },
    ],
  });
  const embedding = requestLogEntry(3, {
    ...ofKey,
    operation: "embeddings",
    model: "all-minilm-l6-v2",
    receivedAtMs: agoMs(9),
    promptTokens: 210,
    completionTokens: 0,
    costNano: 2_100,
    labels: { user: "customer-4711" },
  });
  const record = requestRecord(4, {
    ...ofKey,
    model: "qwen3-4b-instruct",
    fallbackModel: "smollm2-1.7b-instruct",
    isStream: true,
    receivedAtMs: agoMs(2),
    durationMs: 1_480,
    admitMs: 1.2,
    queueMs: 240,
    firstTokenMs: 820,
    promptTokens: 412,
    completionTokens: 96,
    cachedTokens: 80,
    costNano: 79_600,
    attempts: 2,
    tries: [
      {
        deployment: "gpu-1/qwen3-4b",
        model: "qwen3-4b-instruct",
        beganMs: 243,
        durationMs: 310,
        code: "upstream_error",
      },
      {
        deployment: "smollm2-1.7b-instruct",
        model: "smollm2-1.7b-instruct",
        beganMs: 560,
        durationMs: 905,
        code: "ok",
      },
    ],
    labels: { user: "customer-4711", metadata: { ticket: "T-1" } },
  });
  const content = {
    request: question,
    answers: ["A reverse proxy accepts requests on behalf of other servers."],
    errorMessage: "",
    isCut: false,
  };
  return [limited, failed, embedding, { record, content }];
}
