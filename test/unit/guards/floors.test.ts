import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { lintPlanted } from "../../support/planted-tree.js";

/** One import that the floor of the file forbids, and the words of the message that tells what to do instead. */
const forbidden: readonly { from: string; imports: string; hint: string }[] = [
  { from: "src/lib/x.ts", imports: "../contract/errors.js", hint: "src/lib imports nothing of ours" },
  {
    from: "src/lib/x.ts",
    imports: "../../gen/unified/catalog/v1/model_pb.js",
    hint: "src/lib imports nothing of ours",
  },
  { from: "src/contract/x.ts", imports: "../domain/core.js", hint: "it imports lib and gen only" },
  { from: "src/contract/x.ts", imports: "../app/compose.js", hint: "it imports lib and gen only" },
  { from: "src/domain/x.ts", imports: "../state/volatile/volatile-state.js", hint: "Declare a small port here" },
  {
    from: "src/domain/inference/x.ts",
    imports: "../../engines/scripted/scripted-engine.js",
    hint: "Declare a small port",
  },
  {
    from: "src/domain/inference/x.ts",
    imports: "../../transports/grpc/grpc-door.js",
    hint: "Declare a small port here",
  },
  { from: "src/domain/access/x.ts", imports: "../../telemetry/logger.js", hint: "Declare a small port here" },
  { from: "src/domain/access/x.ts", imports: "../../app/compose.js", hint: "Declare a small port here" },
  { from: "src/domain/x.ts", imports: "node:crypto", hint: "src/domain runs without Node" },
  { from: "src/domain/x.ts", imports: "node:fs/promises", hint: "src/domain runs without Node" },
  { from: "src/domain/x.ts", imports: "@grpc/grpc-js", hint: "no library but @bufbuild/protobuf" },
  { from: "src/domain/x.ts", imports: "zod", hint: "no library but @bufbuild/protobuf" },
  { from: "src/engines/llama/x.ts", imports: "../scripted/tokens.js", hint: "never imports another engine" },
  { from: "src/engines/llama/x.ts", imports: "../../model-store/gguf/format.js", hint: "Use a port of src/domain" },
  {
    from: "src/engines/llama/child/x.ts",
    imports: "../../../model-store/gguf/format.js",
    hint: "Use a port of src/domain",
  },
  { from: "src/engines/scripted/x.ts", imports: "../openai/openai-engine.js", hint: "never imports another engine" },
  { from: "src/engines/scripted/x.ts", imports: "../../state/redis/x.js", hint: "Use a port of src/domain" },
  { from: "src/state/embedded/x.ts", imports: "../volatile/volatile-ledger.js", hint: "never imports another driver" },
  { from: "src/state/embedded/x.ts", imports: "../../transports/openai/x.js", hint: "Use a port of src/domain" },
  { from: "src/state/volatile/x.ts", imports: "../embedded/embedded-state.js", hint: "never imports another driver" },
  { from: "src/transports/openai/x.ts", imports: "../grpc/grpc-door.js", hint: "never imports another door" },
  { from: "src/transports/openai/x.ts", imports: "../../engines/scripted/x.js", hint: "Use a port of src/domain" },
  {
    from: "src/transports/connect/deep/x.ts",
    imports: "../../openai/openai-door.js",
    hint: "never imports another door",
  },
  { from: "src/transports/connect/x.ts", imports: "../../transports/grpc/grpc-door.js", hint: "another door" },
  { from: "src/transports/grpc/x.ts", imports: "../connect/connect-door.js", hint: "never imports another door" },
  { from: "src/transports/grpc/x.ts", imports: "../../app/compose.js", hint: "Use a port of src/domain" },
  { from: "src/transports/ops/x.ts", imports: "../openai/openai-door.js", hint: "never imports another door" },
  { from: "src/transports/dashboard/x.ts", imports: "../openai/openai-door.js", hint: "never imports another door" },
  { from: "src/transports/dashboard/x.ts", imports: "../../app/compose.js", hint: "Use a port of src/domain" },
  { from: "src/dashboard/x.ts", imports: "../domain/core.js", hint: "What it needs of the service it asks for" },
  { from: "src/dashboard/pages/x.ts", imports: "../../lib/ids.js", hint: "What it needs of the service it asks for" },
  { from: "src/dashboard/pages/x.ts", imports: "node:path", hint: "runs in browsers" },
  { from: "src/model-store/x.ts", imports: "../engines/llama/x.js", hint: "src/model-store imports contract" },
  { from: "src/model-store/gguf/x.ts", imports: "../../app/compose.js", hint: "src/model-store imports contract" },
  { from: "src/telemetry/x.ts", imports: "../transports/grpc/grpc-door.js", hint: "src/telemetry imports contract" },
  { from: "src/outbound/x.ts", imports: "../telemetry/logger.js", hint: "src/outbound imports contract" },
  { from: "src/outbound/x.ts", imports: "../state/redis/open-redis-state.js", hint: "src/outbound imports contract" },
  { from: "src/outbound/x.ts", imports: "../app/config/webhook-settings.js", hint: "src/outbound imports contract" },
  { from: "src/domain/webhooks/x.ts", imports: "../../outbound/webhook-sender.js", hint: "Declare a small port here" },
  { from: "src/domain/webhooks/x.ts", imports: "ipaddr.js", hint: "no library but @bufbuild/protobuf" },
  { from: "src/transports/openai/x.ts", imports: "../../outbound/target.js", hint: "Use a port of src/domain" },
  { from: "src/state/embedded/x.ts", imports: "../../outbound/target.js", hint: "Use a port of src/domain" },
  { from: "src/telemetry/metrics/x.ts", imports: "../../outbound/target.js", hint: "src/telemetry imports contract" },
  { from: "src/app/lifecycle.ts", imports: "../state/embedded/embedded-state.js", hint: "alone name concrete" },
  { from: "src/app/lifecycle.ts", imports: "../outbound/webhook-sender.js", hint: "alone name concrete" },
  {
    from: "src/app/commands/x.ts",
    imports: "../../engines/scripted/scripted-engine.js",
    hint: "alone name concrete",
  },
];

/** What the floors allow: planting these must find nothing. */
const allowed: readonly { from: string; imports: string }[] = [
  { from: "src/contract/x.ts", imports: "../lib/ids.js" },
  { from: "src/contract/x.ts", imports: "../../gen/unified/inference/v1/chat_pb.js" },
  { from: "src/domain/inference/x.ts", imports: "../../../gen/unified/inference/v1/chat_pb.js" },
  { from: "src/domain/inference/x.ts", imports: "../../contract/limits.js" },
  { from: "src/domain/x.ts", imports: "./state.js" },
  { from: "src/domain/x.ts", imports: "@bufbuild/protobuf" },
  { from: "src/engines/llama/x.ts", imports: "./text/template-input.js" },
  { from: "src/engines/llama/child/x.ts", imports: "../structure/grammar-builder.js" },
  { from: "src/engines/scripted/x.ts", imports: "../../domain/inference/engine.js" },
  { from: "src/transports/connect/x.ts", imports: "@connectrpc/connect/protocol-grpc" },
  { from: "src/transports/grpc/x.ts", imports: "../../lib/outbox.js" },
  { from: "src/transports/dashboard/x.ts", imports: "../../lib/request-path.js" },
  { from: "src/dashboard/pages/keys/x.ts", imports: "../../ui/table.js" },
  { from: "src/dashboard/x.ts", imports: "../../gen/unified/admin/v1/system_pb.js" },
  { from: "src/outbound/x.ts", imports: "../domain/webhooks/webhook-sender.js" },
  { from: "src/outbound/x.ts", imports: "../lib/printable.js" },
  { from: "src/outbound/x.ts", imports: "ipaddr.js" },
  { from: "src/app/compose.ts", imports: "../transports/openai/openai-door.js" },
  { from: "src/app/lifecycle.ts", imports: "../domain/core.js" },
];

/** Each import gets a file of its own beside the one it stands for, so that one run of the linter tries them all. */
function plant(label: string, cases: readonly { from: string; imports: string }[]): { path: string; text: string }[] {
  return cases.map(({ from, imports }, index) => ({
    path: from === "src/app/compose.ts" ? from : from.replace(/\.ts$/, `-${label}-${index}.ts`),
    text: `export { thing } from ${JSON.stringify(imports)};\n`,
  }));
}

describe("floors", () => {
  const plantedBad = plant("bad", forbidden);
  const plantedGood = plant("good", allowed);
  const findings = lintPlanted(
    Object.fromEntries([...plantedBad, ...plantedGood].map(({ path, text }) => [path, text])),
  ).filter((finding) => finding.rule === "lint/style/noRestrictedImports");

  it.each(forbidden.map((entry, index) => ({ ...entry, path: plantedBad[index]?.path })))(
    "an import of $imports in $from is refused with a hint",
    ({ path, hint }) => {
      const messages = findings.filter((finding) => finding.path === path).map((finding) => finding.message);
      expect(messages).toEqual([expect.stringContaining(hint)]);
    },
  );

  it("imports that go down are left alone", () => {
    const good = new Set(plantedGood.map(({ path }) => path));
    expect(findings.filter((finding) => good.has(finding.path))).toEqual([]);
  });

  it("type-only, re-exporting and dynamic imports are imports, too", () => {
    const target = "../app/compose.js";
    const found = lintPlanted({
      "src/domain/type.ts": `import type { A } from "${target}";\nexport type B = A;\n`,
      "src/domain/all.ts": `export * from "${target}";\n`,
      "src/domain/later.ts": `export const later = () => import("${target}");\n`,
    });
    expect(found.map(({ path, rule }) => `${path} ${rule}`).sort()).toEqual([
      "src/domain/all.ts lint/style/noRestrictedImports",
      "src/domain/later.ts lint/style/noRestrictedImports",
      "src/domain/type.ts lint/style/noRestrictedImports",
    ]);
  });

  it("src/domain may import none of the dependencies but @bufbuild/protobuf", () => {
    const { dependencies, optionalDependencies } = JSON.parse(readFileSync("package.json", "utf8")) as Record<
      "dependencies" | "optionalDependencies",
      Record<string, string>
    >;
    const libraries = Object.keys({ ...dependencies, ...optionalDependencies });
    const planted = plant(
      "library",
      libraries.map((imports) => ({ from: "src/domain/x.ts", imports })),
    );
    const refused = lintPlanted(Object.fromEntries(planted.map(({ path, text }) => [path, text])))
      .filter(({ rule }) => rule === "lint/style/noRestrictedImports")
      .map(({ path }) => path);
    expect(libraries.filter((_, index) => !refused.includes(planted[index]?.path ?? ""))).toEqual([
      "@bufbuild/protobuf",
    ]);
  });

  it("every engine, driver and door has a block of its own in biome.json", () => {
    const config = JSON.parse(readFileSync("biome.json", "utf8")) as { overrides: { includes: string[] }[] };
    const guarded = new Set(config.overrides.flatMap((block) => block.includes));
    const folders = ["engines", "state", "transports"].flatMap((floor) =>
      readdirSync(`src/${floor}`, { withFileTypes: true })
        .filter((entry) => entry.isDirectory())
        .map((entry) => `src/${floor}/${entry.name}/**`),
    );
    expect(folders.filter((folder) => !guarded.has(folder))).toEqual([]);
  });
});
