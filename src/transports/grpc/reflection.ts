import { type DescFile, type DescService, toBinary } from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import type { Server } from "@grpc/grpc-js";
import { ReflectionService } from "@grpc/reflection";

/** Adds server reflection, v1 and v1alpha, for these services and all that their files import. */
export function addReflection(server: Server, services: readonly DescService[]): void {
  const files = new Map<string, Buffer>();
  const collect = (file: DescFile): void => {
    if (files.has(file.name)) return;
    files.set(file.name, Buffer.from(toBinary(FileDescriptorProtoSchema, file.proto)));
    file.dependencies.forEach(collect);
  };
  for (const service of services) collect(service.file);
  // The library wants what proto-loader makes of .proto files, and reads nothing but these bytes of it.
  const entry = { fileDescriptorProtos: [...files.values()] };
  new ReflectionService({ files: entry } as unknown as ConstructorParameters<typeof ReflectionService>[0]).addToServer(
    server,
  );
}
