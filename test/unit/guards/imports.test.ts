import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { fileCircles, folderCircles, readSources, sourceFile } from "../../../scripts/import-graph.js";
import { forbiddenImports } from "../../../scripts/import-rules.js";
import { measureShape, shapeFaults } from "../../../scripts/shape.js";

const sources = readSources();

/** Imports that the table forbids, and words of the error message. */
const forbidden: readonly (readonly [from: string, imports: string, message: string])[] = [
  ["src/lib/x.ts", "../contract/errors.js", "owns the concept"],
  ["src/lib/x.ts", "../../gen/unified/catalog/v1/model_pb.js", "owns the concept"],
  ["src/contract/x.ts", "../domain/core.js", "import the contract"],
  ["src/contract/x.ts", "../app/compose.js", "import the contract"],
  ["src/domain/x.ts", "../state/embedded/open.js", "Declare a port"],
  ["src/domain/inference/x.ts", "../../engines/scripted/scripted-engine.js", "Declare a port"],
  ["src/domain/inference/x.ts", "../../transports/grpc/grpc-listener.js", "Declare a port"],
  ["src/domain/access/x.ts", "../../telemetry/logger.js", "Declare a port"],
  ["src/domain/access/x.ts", "../../app/compose.js", "Declare a port"],
  ["src/domain/webhooks/x.ts", "../../outbound/webhook-sender.js", "Declare a port"],
  ["src/domain/routing/x.ts", "../catalog/catalog-model.js", "pass them in"],
  ["src/domain/routing/x.ts", "../../../gen/unified/catalog/v1/model_pb.js", "pass them in"],
  ["src/domain/x.ts", "node:crypto", "Declare a port"],
  ["src/domain/x.ts", "node:fs/promises", "Declare a port"],
  ["src/domain/x.ts", "fs", "Declare a port"],
  ["src/domain/x.ts", "@grpc/grpc-js", "Declare a port"],
  ["src/domain/x.ts", "zod", "Declare a port"],
  ["src/engines/llama/x.ts", "../scripted/choices.js", "Declare a port"],
  ["src/engines/llama/child/x.ts", "../../../model-store/gguf/format.js", "Declare a port"],
  ["src/engines/scripted/x.ts", "../openai/openai-engine.js", "Declare a port"],
  ["src/engines/scripted/x.ts", "../../state/redis/x.js", "Declare a port"],
  ["src/state/embedded/x.ts", "../redis/ledger.js", "Declare a port"],
  ["src/state/embedded/x.ts", "../../transports/openai/x.js", "Declare a port"],
  ["src/state/embedded/x.ts", "../../outbound/target.js", "Declare a port"],
  ["src/transports/openai/x.ts", "../grpc/grpc-listener.js", "Declare a port"],
  ["src/transports/openai/x.ts", "../../engines/scripted/x.js", "Declare a port"],
  ["src/transports/openai/x.ts", "../../outbound/target.js", "Declare a port"],
  ["src/transports/connect/deep/x.ts", "../../openai/routes.js", "Declare a port"],
  ["src/transports/connect/x.ts", "../../transports/grpc/grpc-listener.js", "Declare a port"],
  ["src/transports/grpc/x.ts", "../../app/compose.js", "Declare a port"],
  ["src/transports/ops/x.ts", "../openai/routes.js", "Declare a port"],
  ["src/transports/dashboard/x.ts", "../openai/routes.js", "Declare a port"],
  ["src/transports/http/x.ts", "../openai/routes.js", "Declare a port"],
  ["src/dashboard/x.ts", "../domain/core.js", "runs in browsers"],
  ["src/dashboard/pages/x.ts", "../../lib/ids.js", "runs in browsers"],
  ["src/dashboard/pages/x.ts", "node:path", "runs in browsers"],
  ["src/model-store/gguf/x.ts", "../../engines/llama/x.js", "Declare a port"],
  ["src/telemetry/x.ts", "../transports/grpc/grpc-listener.js", "Declare a port"],
  ["src/telemetry/metrics/x.ts", "../../outbound/target.js", "Declare a port"],
  ["src/outbound/x.ts", "../telemetry/logger.js", "Declare a port"],
  ["src/app/process/lifecycle.ts", "../../state/embedded/open.js", "take the port instead"],
  ["src/app/process/lifecycle.ts", "../../outbound/webhook-sender.js", "take the port instead"],
  ["src/app/commands/x.ts", "../../engines/scripted/scripted-engine.js", "take the port instead"],
  ["src/elsewhere/x.ts", "../domain/core.js", "does not name"],
];

const allowed: readonly (readonly [from: string, imports: string])[] = [
  ["src/contract/x.ts", "../lib/ids.js"],
  ["src/contract/x.ts", "../../gen/unified/inference/v1/chat_pb.js"],
  ["src/domain/inference/x.ts", "../../../gen/unified/inference/v1/chat_pb.js"],
  ["src/domain/inference/x.ts", "../../contract/limits.js"],
  ["src/domain/x.ts", "@bufbuild/protobuf/wire"],
  ["src/engines/llama/child/x.ts", "../structure/grammar-builder.js"],
  ["src/engines/scripted/x.ts", "../../domain/engine/engine.js"],
  ["src/transports/connect/x.ts", "@connectrpc/connect/protocol-grpc"],
  ["src/transports/grpc/x.ts", "../http/call.js"],
  ["src/dashboard/pages/keys/x.ts", "../../ui/table.js"],
  ["src/dashboard/x.ts", "../../gen/unified/admin/v1/system_pb.js"],
  ["src/outbound/x.ts", "../domain/webhooks/webhook-sender.js"],
  ["src/outbound/x.ts", "ipaddr.js"],
  ["src/app/compose/compose.ts", "../transports/openai/routes.js"],
  ["src/app/process/lifecycle.ts", "../../domain/core.js"],
];

const importing = (path: string, specifier: string) => sourceFile(path, `export { a } from "${specifier}";\n`);

describe("the table of imports", () => {
  it("holds for every file under src", () => {
    expect(sources.flatMap(forbiddenImports)).toEqual([]);
  });

  it.each(forbidden)("forbids %s to import %s and names the alternative", (from, imports, message) => {
    expect(forbiddenImports(importing(from, imports))).toEqual([expect.stringContaining(message)]);
  });

  it.each(allowed)("allows %s to import %s", (from, imports) => {
    expect(forbiddenImports(importing(from, imports))).toEqual([]);
  });

  it.each([
    'import type { A } from "../app/compose.js";',
    'export * from "../app/compose.js";',
    'export const later = () => import("../app/compose.js");',
    'export type B = typeof import("../app/compose.js");',
  ])("recognizes every form of import: %s", (text) => {
    expect(forbiddenImports(sourceFile("src/domain/x.ts", text))).toHaveLength(1);
  });

  it("allows src/domain to import one package, @bufbuild/protobuf", () => {
    const { dependencies, optionalDependencies } = JSON.parse(readFileSync("package.json", "utf8")) as Record<
      "dependencies" | "optionalDependencies",
      Record<string, string>
    >;
    const packages = Object.keys({ ...dependencies, ...optionalDependencies });
    const free = packages.filter((name) => forbiddenImports(importing("src/domain/x.ts", name)).length === 0);
    expect(free).toEqual(["@bufbuild/protobuf"]);
  });
});

describe("import cycles", () => {
  it("do not exist in src, neither among its files nor among its folders", () => {
    expect(fileCircles(sources)).toEqual([]);
    expect(folderCircles(sources)).toEqual([]);
  });

  it("are also found if one of the imports is a type import", () => {
    const files = [
      sourceFile("src/domain/a/x.ts", 'import type { B } from "../b/y.js";'),
      sourceFile("src/domain/b/y.ts", 'import { c } from "../c/z.js";'),
      sourceFile("src/domain/c/z.ts", 'export * from "../a/x.js";'),
      sourceFile("src/domain/c/other.ts", 'import { a } from "../a/x.js";'),
    ];
    expect(fileCircles(files)).toEqual([["src/domain/a/x.ts", "src/domain/b/y.ts", "src/domain/c/z.ts"]]);
    expect(folderCircles(files)).toEqual([["src/domain/a", "src/domain/b", "src/domain/c"]]);
  });
});

describe("the shape of src", () => {
  it("meets the limits of `npm run shape`: number of small files, size of folders, length of files", () => {
    expect(shapeFaults(measureShape(sources))).toEqual([]);
  });
});
