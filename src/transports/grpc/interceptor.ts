import type { DescMethod } from "@bufbuild/protobuf";
import {
  type Metadata,
  ServerInterceptingCall,
  type ServerInterceptingCallInterface,
  type ServerInterceptor,
  ServerListenerBuilder,
} from "@grpc/grpc-js";
import { headers } from "../../contract/headers.js";
import type { ServiceLimits } from "../../contract/limits.js";
import { messageBytesMax, type Operation, operationByRpcPath } from "../../contract/operations.js";
import type { IdSource } from "../../domain/call/ports.js";
import { ServiceError } from "../../domain/call/service-error.js";
import type { Core } from "../../domain/core.js";
import type { RpcService } from "../../domain/rpc/rpc-service.js";
import { rpcStatus, unknownRpc } from "../../domain/rpc/rpc-status.js";
import { grpcPath } from "../../lib/grpc-definition.js";
import { callerFromHeaders } from "../http/call.js";
import { grpcStatusObject, OpenCall, type OpenCallDeps, type OpenCalls } from "./call.js";
import { RefusedMessage } from "./handlers.js";
import { unknownRpcHeader, unknownRpcPath } from "./http2-sessions.js";
import { closeHalfOpen } from "./http2-stream.js";
import type { OpenWatches } from "./standard-services.js";

export interface OpenInterceptorDeps extends OpenCallDeps {
  readonly core: Pick<Core, "open">;
  readonly ids: IdSource;
  readonly limits: OpenCallDeps["limits"] & Pick<ServiceLimits, "http2HeaderBytesMax">;
}

/**
 * Opens each call of our services on its metadata, before its message is read. Other services of the server
 * (health, reflection) pass without a credential.
 */
export function createOpenInterceptor(
  deps: OpenInterceptorDeps,
  services: readonly RpcService[],
  calls: OpenCalls,
  watches: OpenWatches,
): ServerInterceptor {
  const rpcs = new Map<string, { method: DescMethod; operation: Operation }>();
  for (const { handlers } of services) {
    for (const { method } of handlers) {
      const path = grpcPath(method);
      const operation = operationByRpcPath.get(path);
      if (operation === undefined) throw new Error(`${path} is in no row of the table of operations`);
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
      const error = unknownRpc(textOf(metadata, unknownRpcHeader) ?? "");
      const refusal = grpcStatusObject(rpcStatus(error, null));
      refusal.metadata.set(headers.requestId, requestId);
      call.sendStatus(refusal);
      closeHalfOpen(call);
    })
    .build();
  return new ServerInterceptingCall(call, { start: (next) => next(listener) });
}

function openOnMetadata(
  deps: OpenInterceptorDeps,
  method: DescMethod,
  operation: Operation,
  call: ServerInterceptingCallInterface,
  calls: OpenCalls,
): ServerInterceptingCall {
  const bytesMax = messageBytesMax(operation, deps.limits);
  const open = new OpenCall(deps, method, call, deps.ids.requestId(), bytesMax);
  calls.add(open);

  async function letIn(metadata: Metadata, deliver: (metadata: Metadata) => void): Promise<void> {
    try {
      checkMetadataSize(metadata, deps.limits.http2HeaderBytesMax);
      const caller = callerFromHeaders((name) => textOf(metadata, name), {
        deadlineAtMs: open.deadlineAtMs,
        abort: open.abort,
        transport: "grpc",
        address: call.getConnectionInfo().remoteAddress ?? "",
        browser: undefined,
        requestId: open.requestId,
      });
      if (!open.opened(await deps.core.open(operation, caller))) return;
    } catch (thrown) {
      open.refuse(thrown);
      return;
    }
    calls.bind(metadata, open);
    deliver(metadata);
  }

  const listener = new ServerListenerBuilder()
    .withOnReceiveMetadata((metadata, deliver) => void letIn(metadata, deliver))
    .withOnReceiveMessage((message, deliver) => {
      if (message instanceof RefusedMessage) open.refuse(message.error);
      else deliver(message);
    })
    .withOnReceiveHalfClose((deliver) => {
      // A refused call has its status; grpc-js would add one for the missing message.
      if (open.isAnswered) return;
      open.requestComplete();
      deliver();
    })
    .withOnCancel(() => {
      calls.remove(open);
      open.over();
    })
    .build();
  return new ServerInterceptingCall(call, {
    start: (next) => next(listener),
    sendStatus: (status, next) => {
      open.statusPassed();
      next(status);
    },
  });
}

function checkMetadataSize(metadata: Metadata, bytesMax: number): void {
  const bytes = metadataBytes(metadata);
  if (bytes <= bytesMax) return;
  throw new ServiceError(
    "request_headers_too_large",
    `The metadata has ${bytes} bytes; at most ${bytesMax} are allowed.`,
  );
}

function textOf(metadata: Metadata, name: string): string | undefined {
  const [value] = metadata.get(name);
  return typeof value === "string" ? value : undefined;
}

/** Overhead of each entry in the size of a header list (RFC 9113, section 6.5.2). */
const entryOverheadBytes = 32;

/** Size of the metadata as an HTTP/2 header list, without pseudo headers and those that grpc-js removes. */
function metadataBytes(metadata: Metadata): number {
  let bytes = 0;
  for (const name of Object.keys(metadata.getMap())) {
    for (const value of metadata.get(name)) {
      bytes += entryOverheadBytes + name.length + encodedLength(value);
    }
  }
  return bytes;
}

/** Values of `-bin` entries are sent as base64. */
function encodedLength(value: string | Buffer): number {
  return typeof value === "string" ? value.length : Math.ceil(value.length / 3) * 4;
}
