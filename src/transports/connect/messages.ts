import type { IncomingMessage } from "node:http";
import {
  create,
  type DescMessage,
  fromBinary,
  fromJson,
  isMessage,
  type JsonValue,
  type Message,
  toBinary,
  toJsonString,
} from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { EmbeddingListSchema } from "../../../gen/unified/inference/v1/embedding_pb.js";
import {
  type CreateEmbeddingsResponse,
  CreateEmbeddingsResponseSchema,
} from "../../../gen/unified/inference/v1/inference_service_pb.js";
import type { ErrorCode } from "../../contract/errors.js";
import type { ServiceLimits } from "../../contract/limits.js";
import { ServiceError } from "../../domain/call/service-error.js";
import { checkMessageBounds } from "../../domain/rpc/message-bounds.js";
import { Turns } from "../../lib/clock.js";
import { jsonTextOf } from "../http/json-object.js";
import { largeBodyBytesMin, parseLargeJson } from "../http/large-json.js";
import { endFlags, envelopeBytes, type RpcForm, type RpcProtocol } from "./protocol.js";

/** An error for a request whose message cannot be read. */
export class UnreadableMessage extends ServiceError {
  /** The code for Connect and gRPC-Web: clients expect `internal` for bytes that are not a message. */
  readonly rpcCode: Code;

  constructor(code: ErrorCode, rpcCode: Code, text: string) {
    super(code, text);
    this.rpcCode = rpcCode;
  }
}

function unreadable(code: ErrorCode, rpcCode: Code, reason: unknown): UnreadableMessage {
  const text = reason instanceof Error ? reason.message : String(reason);
  return new UnreadableMessage(code, rpcCode, `The request's message cannot be read: ${text}`);
}

/** Header that names the compression of messages. */
const encodingHeaders: Readonly<Record<RpcProtocol, string>> = {
  connect_unary: "content-encoding",
  connect_stream: "connect-content-encoding",
  grpc_web: "grpc-encoding",
};

/** Throws for compressed messages. Compression is not supported, because inference messages are small or are streamed. */
export function checkEncoding(protocol: RpcProtocol, { headers }: IncomingMessage): void {
  const encoding = headers[encodingHeaders[protocol]];
  if (encoding === undefined || encoding === "identity") return;
  const text = `Compressed messages ('${encoding}') are not supported: send the message with the encoding 'identity'.`;
  throw new UnreadableMessage("unsupported_media_type", Code.Unimplemented, text);
}

/** Size limit of a request body whose message may have up to `messageBytesMax` bytes. */
export function bodyBytesMax(protocol: RpcProtocol, messageBytesMax: number): number {
  return protocol === "connect_unary" ? messageBytesMax : messageBytesMax + envelopeBytes;
}

/**
 * Reads the only message of a whole body. Returns a promise for large JSON, which is parsed in several turns of the event
 * loop. Throws or rejects with ServiceError, also for a message that would become too many objects.
 */
export function readMessage(
  form: RpcForm,
  desc: DescMessage,
  body: Buffer,
  limits: ServiceLimits,
): Message | Promise<Message> {
  const { protocol, isJson } = form;
  const message = protocol === "connect_unary" ? body : messageInEnvelope(body, endFlags[protocol]);
  if (isJson) return readJson(desc, message, limits);
  checkMessageBounds(desc, message, limits);
  try {
    // Decodes a Uint8Array: from a Buffer, fields of type bytes would be Buffers, whose slice() does not copy. Unknown
    // fields are dropped, because each one that is kept would become an object.
    const bytes = new Uint8Array(message.buffer, message.byteOffset, message.length);
    return fromBinary(desc, bytes, { readUnknownFields: false });
  } catch (thrown) {
    throw unreadable("invalid_value", Code.Internal, thrown);
  }
}

function readJson(desc: DescMessage, message: Buffer, limits: ServiceLimits): Message | Promise<Message> {
  const unparsable = (thrown: unknown): never => {
    throw unreadable("invalid_json", Code.InvalidArgument, thrown);
  };
  if (message.length >= largeBodyBytesMin) {
    return parseLargeJson(message, limits).then((value) => messageOf(desc, value as JsonValue), unparsable);
  }
  let value: JsonValue;
  try {
    value = JSON.parse(jsonTextOf(message, limits));
  } catch (thrown) {
    return unparsable(thrown);
  }
  return messageOf(desc, value);
}

function messageOf(desc: DescMessage, value: JsonValue): Message {
  try {
    return fromJson(desc, value, { ignoreUnknownFields: true });
  } catch (thrown) {
    throw unreadable("invalid_value", Code.InvalidArgument, thrown);
  }
}

/** Flag of an envelope with a compressed message. */
const compressedFlag = 1;

/** The only message in the envelopes of a body. Envelopes with `endFlag` are skipped. */
function messageInEnvelope(body: Buffer, endFlag: number): Buffer {
  let message: Buffer | null = null;
  for (let at = 0; at < body.length; ) {
    const start = at + envelopeBytes;
    const end = start > body.length ? Number.POSITIVE_INFINITY : start + body.readUInt32BE(at + 1);
    if (end > body.length) throw unreadable("invalid_value", Code.InvalidArgument, "its envelope is incomplete");
    const flags = body[at] ?? 0;
    if ((flags & compressedFlag) !== 0) throw unreadable("invalid_value", Code.Internal, "it is compressed");
    if ((flags & endFlag) === 0) {
      if (message !== null) throw unreadable("invalid_value", Code.Unimplemented, "the body has more than one message");
      message = body.subarray(start, end);
    }
    at = end;
  }
  if (message === null) throw unreadable("invalid_value", Code.Unimplemented, "the body has no message");
  return message;
}

/** Encodes a message of an answer. Throws when it does not fit its descriptor. */
export function encodeMessage({ isJson }: RpcForm, desc: DescMessage, message: Message): Uint8Array | string {
  return isJson ? toJsonString(desc, message) : toBinary(desc, message);
}

/** Encodes the message of a unary answer. JSON of embeddings is written in several turns of the event loop (EMB-11). */
export function encodeAnswer(
  form: RpcForm,
  desc: DescMessage,
  message: Message,
): Uint8Array | string | Promise<string> {
  if (form.isJson && isMessage(message, CreateEmbeddingsResponseSchema)) return embeddingsJson(message);
  return encodeMessage(form, desc, message);
}

/** The JSON of embeddings, written here because the protobuf library writes base64 character by character. */
async function embeddingsJson({ embeddings }: CreateEmbeddingsResponse): Promise<string> {
  if (embeddings === undefined) return "{}";
  const turns = new Turns();
  const rows: string[] = [];
  for (const { index, vector } of embeddings.data) {
    const bytes = Buffer.from(vector.buffer, vector.byteOffset, vector.length);
    // Protobuf JSON omits a field with its default value.
    rows.push(`{${index === 0 ? "" : `"index":${index},`}"vector":"${bytes.toString("base64")}"}`);
    await turns.next();
  }
  const { model, usage } = embeddings;
  const rest = toJsonString(EmbeddingListSchema, create(EmbeddingListSchema, { model, usage })).slice(1, -1);
  const members = [`"data":[${rows.join(",")}]`, rest].filter((text) => text !== "");
  return `{"embeddings":{${members.join(",")}}}`;
}
