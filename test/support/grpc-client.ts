import { fromBinary, type Message } from "@bufbuild/protobuf";
import { findTrailerError } from "@connectrpc/connect/protocol-grpc";
import {
  type CallOptions,
  type ChannelCredentials,
  Client,
  type ClientOptions,
  credentials,
  type ServiceError as GrpcError,
  Metadata,
  type ServiceDefinition,
  type StatusObject,
} from "@grpc/grpc-js";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "../../gen/google/rpc/error_details_pb.js";
import { StatusSchema } from "../../gen/google/rpc/status_pb.js";

/** The outcome of one call as seen by its caller. */
export interface Outcome<O> {
  readonly messages: readonly O[];
  readonly headers: Metadata | null;
  readonly status: StatusObject;
}

/** The parts of an error's details that tests read. */
export interface ErrorFacts {
  readonly code: number;
  /** The code in `grpc-status-details-bin`; undefined when there are no details. */
  readonly detailsCode: number | undefined;
  readonly message: string;
  readonly reason: string | undefined;
  readonly info: Readonly<Record<string, string>> | undefined;
  readonly fields: readonly string[];
  readonly retryDelayMs: number | null;
}

export function errorFacts(status: StatusObject): ErrorFacts {
  const headers = new Headers({
    "grpc-status": String(status.code),
    "grpc-message": encodeURIComponent(status.details),
  });
  const [packed] = status.metadata.get("grpc-status-details-bin");
  if (packed instanceof Buffer) headers.set("grpc-status-details-bin", packed.toString("base64"));
  const error = findTrailerError(headers);
  const info = error?.findDetails(ErrorInfoSchema)[0];
  const retry = error?.findDetails(RetryInfoSchema)[0]?.retryDelay;
  return {
    code: status.code,
    detailsCode: packed instanceof Buffer ? fromBinary(StatusSchema, packed).code : undefined,
    message: status.details,
    reason: info?.reason,
    info: info?.metadata,
    fields: error?.findDetails(BadRequestSchema).flatMap((bad) => bad.fieldViolations.map(({ field }) => field)) ?? [],
    retryDelayMs: retry === undefined ? null : Number(retry.seconds) * 1000 + retry.nanos / 1e6,
  };
}

export function metadataOf(entries: Readonly<Record<string, string>>): Metadata {
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(entries)) metadata.set(name, value);
  return metadata;
}

/** A grpc-js client without generated stubs. */
export class GrpcClient {
  readonly #client: Client;
  readonly #definition: ServiceDefinition;

  constructor(
    definition: ServiceDefinition,
    address: string,
    channel: ChannelCredentials = credentials.createInsecure(),
    options: ClientOptions = {},
  ) {
    this.#definition = definition;
    this.#client = new Client(address, channel, { "grpc.enable_channelz": 0, ...options });
  }

  /** Sends a unary call. Resolves with its outcome also if it fails. */
  async unary<O extends object = Message>(
    method: string,
    request: object,
    metadata = new Metadata(),
    options: CallOptions = {},
  ): Promise<Outcome<O>> {
    const definition = this.#method(method);
    let headers: Metadata | null = null;
    return new Promise((resolve) => {
      let message: O | undefined;
      const call = this.#client.makeUnaryRequest(
        definition.path,
        definition.requestSerialize,
        definition.responseDeserialize,
        request,
        metadata,
        options,
        (error: GrpcError | null, response?: O) => {
          if (error === null) message = response;
        },
      );
      call.on("metadata", (received) => {
        headers = received;
      });
      call.on("status", (status) => resolve({ messages: message === undefined ? [] : [message], headers, status }));
    });
  }

  /** Starts a streamed call and returns it, for tests that read slowly, cancel, or check its events. */
  stream(method: string, request: object, metadata = new Metadata(), options: CallOptions = {}) {
    const definition = this.#method(method);
    const call = this.#client.makeServerStreamRequest(
      definition.path,
      definition.requestSerialize,
      definition.responseDeserialize,
      request,
      metadata,
      options,
    );
    // A cancelled call emits an error even without a listener, which would throw.
    call.on("error", () => {});
    return call;
  }

  /** Runs a streamed call to its end. Resolves with its outcome also if it fails. */
  async collect<O extends object = Message>(
    method: string,
    request: object,
    metadata = new Metadata(),
    options: CallOptions = {},
  ): Promise<Outcome<O>> {
    const call = this.stream(method, request, metadata, options);
    const messages: O[] = [];
    let headers: Metadata | null = null;
    call.on("metadata", (received) => {
      headers = received;
    });
    call.on("data", (message: O) => messages.push(message));
    return new Promise((resolve) => {
      call.on("status", (status) => resolve({ messages, headers, status }));
    });
  }

  close(): void {
    this.#client.close();
  }

  #method(name: string) {
    const definition = this.#definition[name];
    if (definition === undefined) throw new Error(`no method ${name}`);
    return definition;
  }
}
