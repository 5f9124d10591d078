import type {
  DescMessage,
  DescMethod,
  DescMethodServerStreaming,
  DescMethodUnary,
  DescService,
  Message,
  MessageInitShape,
  MessageShape,
} from "@bufbuild/protobuf";
import { type Timestamp, timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import type { CallContext } from "../call/call-context.js";
import { refuse } from "../call/service-error.js";

/** A streamed response whose headers can be sent now. */
export interface RpcStream<O> {
  readonly items: AsyncIterable<O>;
  /** Merges two messages that wait for a slow reader; null if they cannot be merged. */
  readonly merge?: (waiting: O, next: O) => O | null;
  /** Estimated memory of a message that waits for its reader. Absent: the messages are few and small. */
  readonly bytesOf?: (message: O) => number;
  /** Metadata to send after the last message, or with the error of a stream that failed; names and values alternately. */
  readonly trailers?: () => readonly string[];
}

/**
 * Sets metadata of the response, names and values alternately. The implementation must call it before its promise resolves.
 */
export type RpcHead = (metadata: readonly string[]) => void;

/** The implementation of one RPC. A unary one returns the fields of its response. Rejects with ServiceError. */
export type RpcMethod<M extends DescMethod> =
  M extends DescMethodUnary<infer I, infer O>
    ? (request: MessageShape<I>, ctx: CallContext, head: RpcHead) => Promise<MessageInitShape<O>>
    : M extends DescMethodServerStreaming<infer I, infer O>
      ? (request: MessageShape<I>, ctx: CallContext, head: RpcHead) => Promise<RpcStream<MessageShape<O>>>
      : never;

export type RpcMethods<S extends DescService> = { readonly [K in keyof S["method"]]: RpcMethod<S["method"][K]> };

/** An RPC without its message types, so that transports can serve all RPCs with the same code. */
export type RpcHandler =
  | {
      readonly kind: "unary";
      readonly method: DescMethodUnary;
      /** Resolves to the fields of the response, of which the transport creates the message. */
      readonly call: (request: Message, ctx: CallContext, head: RpcHead) => Promise<MessageInitShape<DescMessage>>;
    }
  | {
      readonly kind: "server_streaming";
      readonly method: DescMethodServerStreaming;
      readonly call: (request: Message, ctx: CallContext, head: RpcHead) => Promise<RpcStream<Message>>;
    };

/** A service that every RPC transport can serve. */
export interface RpcService {
  readonly desc: DescService;
  /** One per method of the descriptor, in its order. */
  readonly handlers: readonly RpcHandler[];
}

/** Binds implementations to a descriptor. The compiler checks that all exist and match their messages. */
export function rpcService<S extends DescService>(desc: S, methods: RpcMethods<S>): RpcService {
  const calls: Readonly<Record<string, unknown>> = methods;
  const handlers = desc.methods.map((method) => {
    // The parameter type has checked the messages against the descriptor.
    return { kind: method.methodKind, method, call: calls[method.localName] } as RpcHandler;
  });
  return { desc, handlers };
}

/** A time as a protobuf Timestamp; undefined (an absent field) for null. */
export function timestampOf(atMs: number | null): Timestamp | undefined {
  return atMs === null ? undefined : timestampFromMs(atMs);
}

/** Milliseconds of a Timestamp in a request; null if it is absent. */
export function instantOf(timestamp: Timestamp | undefined): number | null {
  return timestamp === undefined ? null : timestampMs(timestamp);
}

/** The value of an enum in a request; null when it is not set. Enums are open: a newer client may send an unknown number. */
export function enumValueOf<E extends number, V>(values: ReadonlyMap<E, V>, value: E, param: string): V | null {
  if (value === 0) return null;
  return values.get(value) ?? refuse("invalid_value", param, `'${param}' has the unknown value ${value}.`);
}

/** The number of an enum's value for a response. */
export function enumNumberOf<E extends number, V>(values: ReadonlyMap<E, V>, wanted: V): E {
  return [...values].find(([, value]) => value === wanted)?.[0] ?? (0 as E);
}
