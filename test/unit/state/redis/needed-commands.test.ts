import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { neededCommands } from "../../../../src/state/redis/connection/permissions.js";

const folder = "src/state/redis";
const sources = (ending: string) =>
  readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(ending))
    .map((path) => readFileSync(join(folder, path), "utf8"));
const found = (texts: readonly string[], pattern: RegExp) =>
  texts.flatMap((text) => [...text.matchAll(pattern)].map(([, name = ""]) => name.toLowerCase()));

it("the start tests every command that the driver sends or its scripts call, and no other (E-27)", () => {
  const lua = sources(".lua");
  const lists = lua.flatMap((text) => [...text.matchAll(/COMMANDS = \{([^}]*)\}/g)].map(([, list = ""]) => list));
  const sent = found(sources(".ts"), /command(?:<[^(]*>)?\(\s*"(\w+)"/gi);
  const used = new Set([
    ...found(lua, /(?:redis\.p?call|later)\(\s*['"](\w+)['"]/g),
    ...found(lists, /'(\w+)'/g),
    ...sent,
    // Of the connection itself.
    ...["evalsha", "script"],
  ]);
  expect([...neededCommands.keys()].sort()).toEqual([...used].sort());
});
