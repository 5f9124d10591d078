import {
  type DescMessage,
  type DescMethod,
  type DescService,
  fromBinary,
  type Message,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import type { MethodDefinition, ServiceDefinition } from "@grpc/grpc-js";

/**
 * The grpc-js definition of a protobuf-es service, for servers and clients: one entry per RPC under its lower-camel
 * name. Serializers throw when a message does not fit its descriptor.
 */
export function grpcDefinition(service: DescService, decodeRequest: DecodeRequest = fromBinary): ServiceDefinition {
  return Object.fromEntries(
    service.methods.map((method) => [method.localName, methodDefinition(method, decodeRequest)]),
  );
}

/** Decodes the message of a request. */
export type DecodeRequest = (desc: DescMessage, bytes: Uint8Array) => Message;

/** Path of an RPC: `/package.Service/Method`. */
export function grpcPath(method: DescMethod): string {
  return `/${method.parent.typeName}/${method.name}`;
}

function methodDefinition(
  method: DescMethod,
  decodeRequest: DecodeRequest,
): MethodDefinition<MessageShape<DescMethod["input"]>, object> {
  const { input, output, methodKind } = method;
  return {
    path: grpcPath(method),
    requestStream: methodKind === "client_streaming" || methodKind === "bidi_streaming",
    responseStream: methodKind === "server_streaming" || methodKind === "bidi_streaming",
    requestSerialize: (message) => bufferView(toBinary(input, message)),
    requestDeserialize: (bytes) => decodeRequest(input, plainView(bytes)) as MessageShape<typeof input>,
    responseSerialize: (message) => bufferView(toBinary(output, message as MessageShape<typeof output>)),
    responseDeserialize: (bytes) => fromBinary(output, plainView(bytes)),
  };
}

/** A Buffer over the same memory, as grpc-js needs. */
function bufferView(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** Decodes from a Uint8Array: fields of type bytes of a Buffer would be Buffers, whose slice() does not copy. */
function plainView(bytes: Buffer): Uint8Array {
  return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
