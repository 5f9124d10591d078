import type {
  DescMethod,
  DescMethodServerStreaming,
  DescMethodUnary,
  DescService,
  Message,
  MessageShape,
} from "@bufbuild/protobuf";
import { type Timestamp, timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { CallContext } from "../call/call-context.js";

/** A streamed response, committed: its headers can be sent. */
export interface RpcStream<O> {
  readonly items: AsyncIterable<O>;
  /** Merges two messages for readers that are slower than the engine; null: keep both. */
  readonly merge?: (waiting: O, next: O) => O | null;
}

/** Sets metadata of the response; call it before the implementation's promise resolves. */
export type RpcHead = (metadata: Readonly<Record<string, string>>) => void;

/** The implementation of one RPC. Rejects with ServiceError. */
export type RpcMethod<M extends DescMethod> =
  M extends DescMethodUnary<infer I, infer O>
    ? (request: MessageShape<I>, ctx: CallContext, head: RpcHead) => Promise<MessageShape<O>>
    : M extends DescMethodServerStreaming<infer I, infer O>
      ? (request: MessageShape<I>, ctx: CallContext, head: RpcHead) => Promise<RpcStream<MessageShape<O>>>
      : never;

export type RpcMethods<S extends DescService> = { readonly [K in keyof S["method"]]: RpcMethod<S["method"][K]> };

/** An RPC without its message types, so that transports serve all of them alike. */
export type RpcHandler =
  | {
      readonly kind: "unary";
      readonly method: DescMethodUnary;
      readonly call: (request: Message, ctx: CallContext, head: RpcHead) => Promise<Message>;
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

/** A timestamp field to spread into a message; absent for null. */
export function optionalTime<K extends string>(field: K, atMs: number | null): { readonly [F in K]?: Timestamp } {
  const present: { [F in K]?: Timestamp } = {};
  if (atMs !== null) present[field] = timestampFromMs(atMs);
  return present;
}
