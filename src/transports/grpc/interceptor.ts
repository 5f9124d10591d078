import type { DescMethod } from "@bufbuild/protobuf";
import {
  type Metadata,
  type MetadataValue,
  ServerInterceptingCall,
  type ServerInterceptingCallInterface,
  type ServerInterceptor,
  type ServerListener,
  ServerListenerBuilder,
} from "@grpc/grpc-js";
import type { ServiceLimits } from "../../contract/limits.js";
import { messageBytesMax, type Operation, operationByRpcPath } from "../../contract/operations.js";
import type { IdSource } from "../../domain/call/ports.js";
import { ServiceError } from "../../domain/call/service-error.js";
import type { Core } from "../../domain/core.js";
import type { RpcService } from "../../domain/rpc/rpc-service.js";
import { unknownRpc } from "../../domain/rpc/rpc-status.js";
import type { MemberList } from "../../lib/collections.js";
import { grpcPath } from "../../lib/grpc-definition.js";
import { callerFromHeaders } from "../http/call.js";
import { grpcStatus, OpenCall, type OpenCallDeps } from "./call.js";
import { browserOfForwarded, type ForwardedReader } from "./forwarded.js";
import { RefusedMessage } from "./handlers.js";
import { closeHalfOpen, unknownRpcHeader, unknownRpcPath } from "./http2.js";
import type { OpenWatches } from "./standard-services.js";

export interface OpenInterceptorDeps extends OpenCallDeps {
  readonly core: Pick<Core, "open">;
  readonly ids: IdSource;
  /** Null: no client is a trusted gateway, and forwarded fields are ignored. */
  readonly forwarded: ForwardedReader | null;
  readonly limits: OpenCallDeps["limits"] & Pick<ServiceLimits, "http2HeaderBytesMax">;
}

/**
 * Authenticates each call of our services by its metadata, before its message is read. Calls of the other services of the
 * server (health, reflection) need no credential.
 */
export function createOpenInterceptor(
  deps: OpenInterceptorDeps,
  services: readonly RpcService[],
  calls: MemberList<OpenCall>,
  watches: OpenWatches,
): ServerInterceptor {
  const rpcs = new Map<string, { method: DescMethod; operation: Operation }>();
  for (const { handlers } of services) {
    for (const { method } of handlers) {
      const path = grpcPath(method);
      const operation = operationByRpcPath.get(path);
      if (operation === undefined) throw new Error(`${path} is missing from the table of operations`);
      rpcs.set(path, { method, operation });
    }
  }
  return ({ path }, call) => {
    const rpc = rpcs.get(path);
    if (path === unknownRpcPath) return refuseUnknown(call, deps.ids.requestId());
    return rpc === undefined ? watches.intercept(call) : openOnMetadata(deps, rpc.method, rpc.operation, call, calls);
  };
}

/** Rejects a call of an unknown RPC, whose path is in the metadata. */
function refuseUnknown(call: ServerInterceptingCallInterface, requestId: string): ServerInterceptingCall {
  const listener = new ServerListenerBuilder()
    .withOnReceiveMetadata((metadata) => {
      const error = unknownRpc(textOf(metadata.get(unknownRpcHeader)) ?? "");
      call.sendStatus(grpcStatus(error, null, requestId));
      closeHalfOpen(call, 0);
    })
    .build();
  return new ServerInterceptingCall(call, { start: (next) => next(listener) });
}

function openOnMetadata(
  deps: OpenInterceptorDeps,
  method: DescMethod,
  operation: Operation,
  call: ServerInterceptingCallInterface,
  calls: MemberList<OpenCall>,
): ServerInterceptingCall {
  const bytesMax = messageBytesMax(operation, deps.limits);
  const open = new OpenCall(deps, method, call, deps.ids.requestId(), bytesMax);
  calls.add(open);

  async function openCall(metadata: Metadata, deliver: (metadata: Metadata) => void): Promise<void> {
    try {
      const fields = metadata.toJSON();
      checkMetadataSize(fields, deps.limits.http2HeaderBytesMax);
      const field = (name: string): string | undefined => textOf(fields[name]);
      const forwarded = deps.forwarded === null ? null : deps.forwarded(field, grpcPath(method), operation);
      if (forwarded !== null) open.isForwarded(forwarded);
      const caller = callerFromHeaders(field, {
        deadlineAtMs: open.deadlineAtMs,
        abort: open.abort,
        transport: forwarded?.transport ?? "grpc",
        address: forwarded?.address ?? call.getConnectionInfo().remoteAddress ?? "",
        browser: forwarded === null ? undefined : browserOfForwarded(forwarded),
        requestId: open.requestId,
        isForwarded: forwarded !== null,
      });
      if (!open.opened(await deps.core.open(forwarded?.operation ?? operation, caller), metadata)) return;
    } catch (thrown) {
      open.refuse(thrown);
      return;
    }
    deliver(metadata);
  }

  const listener: ServerListener = {
    onReceiveMetadata: (metadata, deliver) => void openCall(metadata, deliver),
    onReceiveMessage(message, deliver) {
      if (message instanceof RefusedMessage) open.refuse(message.error);
      else deliver(message);
    },
    onReceiveHalfClose(deliver) {
      // A refused call already has its status; grpc-js would send another one because the message is missing.
      if (open.isAnswered) return;
      open.requestComplete();
      deliver();
    },
    onCancel() {
      calls.delete(open);
      open.over();
    },
  };
  return new ServerInterceptingCall(call, {
    start: (next) => next(listener),
    sendStatus: (status, next) => {
      open.statusPassed();
      next(status);
    },
  });
}

type MetadataFields = ReturnType<Metadata["toJSON"]>;

/** Overhead of each entry in the size of a header list (RFC 9113, section 6.5.2). */
const entryOverheadBytes = 32;

/** Checks the size of the metadata as an HTTP/2 header list, without pseudo headers and headers that grpc-js removes. */
function checkMetadataSize(fields: MetadataFields, bytesMax: number): void {
  let bytes = 0;
  for (const name of Object.keys(fields)) {
    for (const value of fields[name] ?? []) {
      // Values of `-bin` entries are sent as base64.
      const encoded = typeof value === "string" ? value.length : Math.ceil(value.length / 3) * 4;
      bytes += entryOverheadBytes + name.length + encoded;
    }
  }
  if (bytes <= bytesMax) return;
  const message = `The metadata has ${bytes} bytes; at most ${bytesMax} are allowed.`;
  throw new ServiceError("request_headers_too_large", message);
}

/** The first value of an entry, if it is text. */
function textOf(values: readonly MetadataValue[] | undefined): string | undefined {
  const value = values?.[0];
  return typeof value === "string" ? value : undefined;
}
