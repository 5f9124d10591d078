import {
  create,
  type DescMethod,
  type DescMethodServerStreaming,
  type DescMethodUnary,
  type Message,
  type MessageInitShape,
  type MessageShape,
} from "@bufbuild/protobuf";
import { ConnectError, type Transport } from "@connectrpc/connect";
import { createConnectTransport, createGrpcWebTransport } from "@connectrpc/connect-node";
import { status } from "@grpc/grpc-js";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "../../../gen/google/rpc/error_details_pb.js";
import { grpcDefinition } from "../../../src/lib/grpc-definition.js";
import { errorFacts, GrpcClient, metadataOf } from "../../support/grpc-client.js";
import type { RunningService } from "../../support/start-service.js";

/** An error that a client has received, in a form that is the same for every protocol. */
export interface RpcFailure {
  /** gRPC status code; Connect has the same numbers. */
  readonly code: number;
  readonly message: string;
  /** Reason in google.rpc.ErrorInfo; undefined without one. */
  readonly reason: string | undefined;
  readonly type: string | undefined;
  readonly param: string | undefined;
  /** Field paths in google.rpc.BadRequest. */
  readonly fields: readonly string[];
  readonly retryDelayMs: number | null;
  readonly metadata: ReadonlyMap<string, string>;
}

export interface RpcOutcome<O> {
  /** All received messages; a successful unary call has one. */
  readonly messages: readonly O[];
  readonly requestId: string | null;
  /** Metadata received before the answer; empty for a rejected call. */
  readonly head: ReadonlyMap<string, string>;
  /** Null for a successful call. */
  readonly failure: RpcFailure | null;
}

export interface CallSettings {
  readonly authorization?: string | null;
  readonly headers?: Readonly<Record<string, string>>;
  readonly timeoutMs?: number;
  /** The client disconnects after this number of messages. */
  readonly stopAfter?: number;
  readonly signal?: AbortSignal;
  /** Called after each message with their number. */
  readonly onMessage?: (count: number) => void;
}

/** One protocol, as implemented by a client library. */
export interface RpcWay {
  readonly name: WayName;
  call<M extends DescMethod>(
    method: M,
    request: MessageInitShape<M["input"]>,
    settings?: CallSettings,
  ): Promise<RpcOutcome<MessageShape<M["output"]>>>;
  close(): void;
}

export const wayNames = ["grpc", "connect json", "connect binary", "grpc-web"] as const;
export type WayName = (typeof wayNames)[number];

/** Calls use the service's read_write key unless the settings override it; null: no credential. */
export function openWay(name: WayName, service: Pick<RunningService, "grpc" | "http" | "key">): RpcWay {
  const authorization = `Bearer ${service.key}`;
  return name === "grpc" ? new GrpcWay(service.grpc, authorization) : new ConnectWay(name, service.http, authorization);
}

function headersOf({ authorization, headers }: CallSettings, fallback: string): Record<string, string> {
  const credential = authorization === undefined ? fallback : authorization;
  return { ...(credential === null ? {} : { authorization: credential }), ...headers };
}

class GrpcWay implements RpcWay {
  readonly name = "grpc";
  readonly #address: string;
  readonly #authorization: string;
  readonly #clients = new Map<string, GrpcClient>();

  constructor(address: string, authorization: string) {
    this.#address = address;
    this.#authorization = authorization;
  }

  async call<M extends DescMethod>(
    method: M,
    request: MessageInitShape<M["input"]>,
    settings: CallSettings = {},
  ): Promise<RpcOutcome<MessageShape<M["output"]>>> {
    const messages: MessageShape<M["output"]>[] = [];
    const input = create(method.input, request);
    const metadata = metadataOf(headersOf(settings, this.#authorization));
    const options = settings.timeoutMs === undefined ? {} : { deadline: Date.now() + settings.timeoutMs };
    // A unary call is sent as a stream with a single message: both have the same bytes.
    const call = this.#client(method).stream(method.localName, input, metadata, options);
    settings.signal?.addEventListener("abort", () => call.cancel());
    let requestId: string | null = null;
    let head: ReadonlyMap<string, string> = new Map();
    call.on("metadata", (received) => {
      head = new Map(Object.entries(received.getMap()).map(([key, value]) => [key, String(value)]));
      requestId = head.get("x-request-id") ?? "";
    });
    call.on("data", (message: MessageShape<M["output"]>) => {
      messages.push(message);
      settings.onMessage?.(messages.length);
      if (messages.length === settings.stopAfter) call.cancel();
    });
    const end = await new Promise<Parameters<typeof errorFacts>[0]>((resolve) => call.once("status", resolve));
    const trailers = new Map(Object.entries(end.metadata.getMap()).map(([key, value]) => [key, String(value)]));
    requestId ??= trailers.get("x-request-id") ?? null;
    if (end.code === status.OK) return { messages, requestId, head, failure: null };
    const { info, ...facts } = errorFacts(end);
    return {
      messages,
      requestId,
      head,
      failure: { ...facts, type: info?.["type"], param: info?.["param"], metadata: trailers },
    };
  }

  close(): void {
    for (const client of this.#clients.values()) client.close();
  }

  #client({ parent }: DescMethod): GrpcClient {
    const known = this.#clients.get(parent.typeName);
    if (known !== undefined) return known;
    const client = new GrpcClient(grpcDefinition(parent), this.#address);
    this.#clients.set(parent.typeName, client);
    return client;
  }
}

class ConnectWay implements RpcWay {
  readonly name: WayName;
  readonly #transport: Transport;
  readonly #authorization: string;

  constructor(name: WayName, baseUrl: string, authorization: string) {
    this.name = name;
    this.#authorization = authorization;
    this.#transport =
      name === "grpc-web"
        ? createGrpcWebTransport({ baseUrl, httpVersion: "1.1" })
        : createConnectTransport({ baseUrl, httpVersion: "1.1", useBinaryFormat: name === "connect binary" });
  }

  async call<M extends DescMethod>(
    method: M,
    request: MessageInitShape<M["input"]>,
    settings: CallSettings = {},
  ): Promise<RpcOutcome<MessageShape<M["output"]>>> {
    const messages: Message[] = [];
    const header = headersOf(settings, this.#authorization);
    const stop = new AbortController();
    const signal = settings.signal === undefined ? stop.signal : AbortSignal.any([stop.signal, settings.signal]);
    let requestId: string | null = null;
    let head: ReadonlyMap<string, string> = new Map();
    try {
      if (method.methodKind === "unary") {
        const rpc = method as DescMethodUnary;
        const response = await this.#transport.unary(rpc, signal, settings.timeoutMs, header, request);
        head = new Map(response.header);
        requestId = head.get("x-request-id") ?? null;
        messages.push(response.message);
      } else {
        const rpc = method as DescMethodServerStreaming;
        const response = await this.#transport.stream(rpc, signal, settings.timeoutMs, header, once(request));
        head = new Map(response.header);
        requestId = head.get("x-request-id") ?? null;
        for await (const message of response.message) {
          messages.push(message);
          settings.onMessage?.(messages.length);
          if (messages.length === settings.stopAfter) stop.abort();
        }
      }
      return { messages: messages as MessageShape<M["output"]>[], requestId, head, failure: null };
    } catch (thrown) {
      const failure = failureOf(ConnectError.from(thrown));
      requestId ??= failure.metadata.get("x-request-id") ?? null;
      return { messages: messages as MessageShape<M["output"]>[], requestId, head, failure };
    }
  }

  close(): void {}
}

async function* once<T>(value: T): AsyncIterable<T> {
  yield value;
}

function failureOf(error: ConnectError): RpcFailure {
  const info = error.findDetails(ErrorInfoSchema)[0];
  const retry = error.findDetails(RetryInfoSchema)[0]?.retryDelay;
  return {
    code: error.code,
    message: error.rawMessage,
    reason: info?.reason,
    type: info?.metadata["type"],
    param: info?.metadata["param"],
    fields: error.findDetails(BadRequestSchema).flatMap((bad) => bad.fieldViolations.map(({ field }) => field)),
    retryDelayMs: retry === undefined ? null : Number(retry.seconds) * 1000 + retry.nanos / 1e6,
    metadata: new Map(error.metadata),
  };
}
