import { createRequire } from "node:module";
import { type DescFile, type DescService, fromBinary, toBinary } from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import {
  type Server,
  ServerInterceptingCall,
  type ServerInterceptingCallInterface,
  ServerListenerBuilder,
  status,
} from "@grpc/grpc-js";
import { HealthImplementation, service as healthDefinition } from "grpc-health-check";
import { file_google_rpc_error_details } from "../../../gen/google/rpc/error_details_pb.js";
import { file_google_rpc_status } from "../../../gen/google/rpc/status_pb.js";
import { fixedLimits } from "../../contract/limits.js";
import { limitMessages } from "./http2.js";

/**
 * Adds `grpc.health.v1.Health` for the server as a whole (the empty name) and each service, all NOT_SERVING at first.
 * Returns the function that sets the status of all names.
 */
export function addHealth(server: Server, services: readonly DescService[]): (on: boolean) => void {
  const names = ["", ...services.map(({ typeName }) => typeName)];
  const health = new HealthImplementation(Object.fromEntries(names.map((name) => [name, "NOT_SERVING"])));
  health.addToServer(server);
  let isServing = false;
  return (on) => {
    // setStatus sends a message to all `Watch` calls, also for an unchanged status: a drain would send it with their end.
    if (on === isServing) return;
    isServing = on;
    for (const name of names) health.setStatus(name, on ? "SERVING" : "NOT_SERVING");
  };
}

/** Adds server reflection, v1 and v1alpha, for these services, health and the error details. */
export function addReflection(server: Server, services: readonly DescService[]): void {
  const files = new Map<string, Buffer>();
  const collect = (file: DescFile): void => {
    if (files.has(file.name)) return;
    files.set(file.name, Buffer.from(toBinary(FileDescriptorProtoSchema, file.proto)));
    file.dependencies.forEach(collect);
  };
  for (const { file } of services) collect(file);
  collect(file_google_rpc_error_details);
  collect(file_google_rpc_status);
  // Loaded here, because reflection is off by default.
  const { ReflectionService } = createRequire(import.meta.url)("@grpc/reflection") as typeof import("@grpc/reflection");
  // The library's type is the output of proto-loader, but it reads only these bytes.
  const definition = { files: { fileDescriptorProtos: [...files.values(), healthFile()] } };
  new ReflectionService(definition as unknown as ConstructorParameters<typeof ReflectionService>[0]).addToServer(
    server,
  );
}

/**
 * The descriptor of `grpc.health.v1`. proto-loader keeps it with the types of the methods, with names that are not
 * qualified and a map entry whose name lacks its suffix: both are corrected here, else clients cannot read the file.
 */
function healthFile(): Buffer {
  const [check] = Object.values(healthDefinition) as unknown as {
    requestType: { fileDescriptorProtos: readonly Uint8Array[] };
  }[];
  const file = fromBinary(FileDescriptorProtoSchema, check?.requestType.fileDescriptorProtos[0] ?? new Uint8Array());
  for (const message of file.messageType) {
    const inner = new Map(message.enumType.map(({ name }) => [name, name]));
    for (const entry of message.nestedType) {
      inner.set(entry.name, `${entry.name}Entry`);
      entry.name += "Entry";
    }
    for (const field of [message, ...message.nestedType].flatMap((each) => each.field)) {
      if (field.typeName === "" || field.typeName.startsWith(".")) continue;
      const local = inner.get(field.typeName);
      field.typeName = `.${file.package}.${local === undefined ? field.typeName : `${message.name}.${local}`}`;
    }
  }
  return Buffer.from(toBinary(FileDescriptorProtoSchema, file));
}

/** Running calls of health and reflection, which need no credential. A `Watch` call never ends by itself. */
export class OpenWatches {
  readonly #live = new Set<ServerInterceptingCall>();

  intercept(call: ServerInterceptingCallInterface): ServerInterceptingCall {
    limitMessages(call, fixedLimits.sessionMessageBytesMax);
    const listener = new ServerListenerBuilder().withOnCancel(() => this.#live.delete(intercepted)).build();
    const intercepted = new ServerInterceptingCall(call, { start: (next) => next(listener) });
    this.#live.add(intercepted);
    return intercepted;
  }

  /** Ends all these calls, so that a `Watch` does not delay a drain. Queued messages are sent before the status. */
  endAll(): void {
    for (const call of [...this.#live]) {
      call.sendStatus({ code: status.UNAVAILABLE, details: "The service is stopping." });
    }
  }
}
