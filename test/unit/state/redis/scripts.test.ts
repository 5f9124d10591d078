import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { loadScript } from "../../../../src/state/redis/connection/client.js";

const folder = new URL("../../../../src/state/redis/scripts/", import.meta.url);
const names = readdirSync(folder).map((file) => file.replace(/\.lua$/, ""));
const sourceOf = (name: string) => readFileSync(new URL(`${name}.lua`, folder), "utf8");

describe("Lua scripts", () => {
  it.each(names)("%s starts with its purpose, keys, arguments and return value", (name) => {
    const header = sourceOf(name).match(/^(?:--.*\n)+/)?.[0] ?? "";
    const [purpose = ""] = header.split("\n");
    expect(purpose).toMatch(/^-- [A-Z].{10,}/);
    const order = ["\n-- KEYS: ", "\n-- ARGV: ", "\n-- Returns: "].map((part) => header.indexOf(part));
    expect(order).toEqual(order.toSorted((a, b) => a - b));
    expect(order).not.toContain(-1);
  });

  it.each(names)("%s contains no literal key names, so that every key is on the cluster slot of the call", (name) => {
    expect(sourceOf(name)).not.toMatch(/['"]uis:/);
  });

  it.each(names)("%s uses no feature missing in Redis 6.2", (name) => {
    expect(sourceOf(name)).not.toMatch(/redis\.(?:setresp|acl_check_cmd|REDIS_VERSION)|#!lua|'EXPIRETIME'|'FUNCTION'/);
  });

  it("are identified on the server by the SHA-1 of their source", () => {
    const script = loadScript("sweep", ["prelude"]);
    expect(script.source.startsWith(sourceOf("prelude"))).toBe(true);
    expect(script.source.endsWith(sourceOf("sweep"))).toBe(true);
    expect(script.sha1).toMatch(/^[0-9a-f]{40}$/);
  });
});
