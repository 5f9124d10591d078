import { type ClientRequest, request } from "node:http";
import { createClient, type Transport } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from "@connectrpc/connect-node";
import { Role } from "../../../gen/unified/inference/v1/chat_pb.js";
import { InferenceService } from "../../../gen/unified/inference/v1/inference_service_pb.js";
import type { RunningService } from "../../support/start-service.js";

/** The kinds of requests. Only REST has responses. */
export type Kind = "stream" | "unary" | "response" | "streamed response" | "embeddings" | "rerank";

/** A request in flight that its client can cancel. */
export interface Sent {
  /** Resolves with the first message or event of a stream. */
  readonly firstItem: Promise<void>;
  /** Closes the socket or cancels the call. */
  leave(): void;
  /** Settles when the client has finished with the request. */
  readonly over: Promise<void>;
}

export interface SendOptions {
  readonly model: string;
  readonly kind: Kind;
  /** Text of the user's message; default "Hi". */
  readonly text?: string;
  /** The client's own deadline. */
  readonly timeoutMs?: number;
}

/** Sends requests in one protocol with a usual client of that protocol. */
export interface Way {
  readonly name: string;
  send(options: SendOptions): Sent;
}

/** The four protocols of a started service. */
export function allWays(service: RunningService): readonly Way[] {
  const interceptors = [
    (next: Parameters<NonNullable<Parameters<typeof createConnectTransport>[0]["interceptors"]>[number]>[0]) =>
      (call: Parameters<typeof next>[0]) => {
        call.header.set("authorization", `Bearer ${service.key}`);
        return next(call);
      },
  ];
  const http = { baseUrl: service.http, httpVersion: "1.1", interceptors } as const;
  return [
    { name: "REST", send: (options) => sendRest(service, options, restPaths, {}) },
    rpcWay("Connect", createConnectTransport(http)),
    rpcWay("gRPC-Web", createGrpcWebTransport(http)),
    rpcWay("gRPC", createGrpcTransport({ baseUrl: `http://${service.grpc}`, interceptors })),
  ];
}

const ranked = { query: "Hi", documents: ["Hi", "Ho"] };

const restPaths: Record<Kind, string> = {
  stream: "/v1/chat/completions",
  unary: "/v1/chat/completions",
  response: "/v1/responses",
  "streamed response": "/v1/responses",
  embeddings: "/v1/embeddings",
  rerank: "/v1/rerank",
};

/** Anthropic's Messages API, for the kinds `stream` and `unary`. */
export function messagesWay(service: RunningService): Way {
  const paths = { ...restPaths, stream: "/v1/messages", unary: "/v1/messages" };
  return { name: "Messages", send: (options) => sendRest(service, options, paths, { max_tokens: 900_000 }) };
}

function sendRest(
  service: RunningService,
  { model, kind, text = "Hi", timeoutMs }: SendOptions,
  paths: Record<Kind, string>,
  more: object,
): Sent {
  const chat = { messages: [{ role: "user", content: text }], ...more };
  const fields: Record<Kind, object> = {
    stream: { ...chat, stream: true },
    unary: chat,
    response: { input: text },
    "streamed response": { input: text, stream: true },
    embeddings: { input: "Hi" },
    rerank: ranked,
  };
  const sent: ClientRequest = request(service.http + paths[kind], {
    method: "POST",
    agent: false,
    headers: {
      authorization: `Bearer ${service.key}`,
      "content-type": "application/json",
      ...(timeoutMs === undefined ? {} : { "x-request-timeout": String(timeoutMs / 1000) }),
    },
  });
  const firstItem = new Promise<void>((resolve) =>
    sent.once("response", (response) => response.once("data", () => resolve())),
  );
  const over = new Promise<void>((resolve) => sent.once("close", () => resolve()));
  sent.on("error", () => {});
  sent.end(JSON.stringify({ model, ...fields[kind] }));
  return { firstItem, over, leave: () => sent.destroy() };
}

function rpcWay(name: string, transport: Transport): Way {
  const client = createClient(InferenceService, transport);
  return {
    name,
    send({ model, kind, text = "Hi", timeoutMs }) {
      const abort = new AbortController();
      const options = { signal: abort.signal, ...(timeoutMs === undefined ? {} : { timeoutMs }) };
      const params = {
        model,
        messages: [{ role: Role.USER, content: [{ part: { case: "text" as const, value: text } }] }],
      };
      let gotFirst = (): void => {};
      const firstItem = new Promise<void>((resolve) => {
        gotFirst = resolve;
      });
      const run = async (): Promise<void> => {
        if (kind === "unary") await client.createChatCompletion({ params }, options);
        else if (kind === "embeddings") await client.createEmbeddings({ params: { model, input: ["Hi"] } }, options);
        else if (kind === "rerank") await client.rerank({ params: { model, ...ranked } }, options);
        else for await (const _ of client.streamChatCompletion({ params }, options)) gotFirst();
      };
      // The client's own error is ignored: these tests check the effect on the service.
      return { firstItem, leave: () => abort.abort(), over: run().catch(() => {}) };
    },
  };
}
