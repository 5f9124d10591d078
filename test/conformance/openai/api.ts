import { expect } from "vitest";
import type { ErrorCode } from "../../../src/contract/errors.js";
import type { RunningService } from "../../support/start-service.js";

export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The parsed body. Loosely typed on purpose: the tests assert its content. */
  // biome-ignore lint/suspicious/noExplicitAny: a client sees untyped JSON
  readonly json: any;
}

export type Changes = Readonly<Record<string, string>>;

/** A plain client of one service. */
export interface Api {
  get(path: string, changes?: Changes): Promise<Reply>;
  send(method: string, path: string, body: string | undefined, changes?: Changes): Promise<Reply>;
  post(path: string, body: object, changes?: Changes): Promise<Reply>;
  /** `POST /v1/chat/completions` for the model `test-chat`, unless the fields say otherwise. */
  chat(fields?: object, changes?: Changes): Promise<Reply>;
  /** `POST /v1/responses` for the model `test-chat`, unless the fields say otherwise. */
  response(fields?: object, changes?: Changes): Promise<Reply>;
  completion(fields?: object): Promise<Reply>;
  embeddings(fields?: object): Promise<Reply>;
  rerank(fields?: object): Promise<Reply>;
  /** `POST /v1/messages`. */
  message(fields?: object): Promise<Reply>;
  /** `POST /v1/messages/count_tokens`. */
  countTokens(fields?: object): Promise<Reply>;
}

export const user = { role: "user", content: "Hi" };

export function createApi(service: Pick<RunningService, "http" | "key">): Api {
  const send = async (
    method: string,
    path: string,
    body: string | undefined,
    changes: Changes = {},
  ): Promise<Reply> => {
    const headers = new Headers({ authorization: `Bearer ${service.key}`, "content-type": "application/json" });
    for (const [name, value] of Object.entries(changes)) {
      if (value === "") headers.delete(name);
      else headers.set(name, value);
    }
    const response = await fetch(service.http + path, {
      method,
      headers,
      redirect: "manual",
      ...(body !== undefined && { body }),
    });
    const text = await response.text();
    const isJson = response.headers.get("content-type")?.startsWith("application/json");
    return {
      status: response.status,
      headers: response.headers,
      text,
      json: isJson && text !== "" ? JSON.parse(text) : null,
    };
  };
  const post = (path: string, body: object, changes?: Changes) => send("POST", path, JSON.stringify(body), changes);
  return {
    send,
    post,
    get: (path, changes) => send("GET", path, undefined, { "content-type": "", ...changes }),
    chat: (fields = {}, changes = {}) =>
      post("/v1/chat/completions", { model: "test-chat", messages: [user], ...fields }, changes),
    response: (fields = {}, changes = {}) =>
      post("/v1/responses", { model: "test-chat", input: "Hi", ...fields }, changes),
    completion: (fields = {}) => post("/v1/completions", { model: "test-chat", prompt: "a b", ...fields }),
    embeddings: (fields = {}) => post("/v1/embeddings", { model: "test-embed", input: "a b", ...fields }),
    rerank: (fields = {}) => post("/v1/rerank", { model: "test-rerank", query: "a b", documents: ["a c"], ...fields }),
    message: (fields = {}) =>
      post("/v1/messages", { model: "test-chat", messages: [user], max_tokens: 100, ...fields }),
    countTokens: (fields = {}) =>
      post("/v1/messages/count_tokens", { model: "test-chat", messages: [user], ...fields }),
  };
}

/** Expects an error envelope with these values, and every property that all errors share (ERR-1, DEC-2). */
export function expectError(reply: Reply, status: number, code: ErrorCode, param: string | null = null): void {
  expect({
    status: reply.status,
    code: reply.json?.error?.code,
    param: reply.json?.error?.param,
    text: reply.text,
  }).toEqual({
    status,
    code,
    param,
    text: reply.text,
  });
  expect(Object.keys(reply.json)).toEqual(["error"]);
  expect(Object.keys(reply.json.error).sort()).toEqual(["code", "message", "param", "type"]);
  expect(typeof reply.json.error.message).toBe("string");
  expect(reply.headers.get("x-request-id")).toMatch(/^req_[0-9a-f]{32}$/);
}

/** The payloads of a stream's events, in order; the end marker as text. */
// biome-ignore lint/suspicious/noExplicitAny: as Reply.json
export function eventsOf(text: string): any[] {
  return text
    .split("\n\n")
    .filter((event) => event !== "")
    .map((event) => event.replace(/^(: keep-alive\n)*(event: \S+\n)?/, "").slice("data: ".length))
    .map((payload) => (payload === "[DONE]" ? payload : JSON.parse(payload)));
}
