import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import type { Script } from "./redis-client.js";

/**
 * Reads `scripts/<name>.lua`, which stands beside this module in `src` and in `dist`. The files in `before`, such as
 * `prelude`, are put in front of it, because a script cannot load another one.
 */
export function loadScript(name: string, before: readonly string[] = []): Script {
  const source = [...before, name].map(sourceOf).join("\n");
  return { name, source, sha1: createHash("sha1").update(source).digest("hex") };
}

function sourceOf(name: string): string {
  return readFileSync(new URL(`./scripts/${name}.lua`, import.meta.url), "utf8");
}
