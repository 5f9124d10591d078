import { fileURLToPath } from "node:url";

/** The folder with the schema of gRPC, which loaders of `.proto` files take as their include path. */
export const protoFolder: string = fileURLToPath(new URL("../../proto", import.meta.url));
