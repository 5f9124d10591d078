import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { copyCommands, neededCommands } from "../../../../src/state/redis/connection/permissions.js";

const folder = "src/state/redis";
/** Matches files with the code of copies into Redis. */
const ofCopies = /^copy\//;
const sources = (ending: string, isWanted = (path: string) => !ofCopies.test(path)) =>
  readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(ending) && isWanted(path))
    .map((path) => readFileSync(join(folder, path), "utf8"));
const found = (texts: readonly string[], pattern: RegExp) =>
  texts.flatMap((text) => [...text.matchAll(pattern)].map(([, name = ""]) => name.toLowerCase()));

it("the start tests exactly the commands that the driver sends or its scripts call (E-27)", () => {
  const lua = sources(".lua");
  const lists = lua.flatMap((text) => [...text.matchAll(/COMMANDS = \{([^}]*)\}/g)].map(([, list = ""]) => list));
  const sent = found(sources(".ts"), /command(?:<[^(]*>)?\(\s*"(\w+)"/gi);
  const used = new Set([
    ...found(lua, /(?:redis\.p?call|later)\(\s*['"](\w+)['"]/g),
    ...found(lists, /'(\w+)'/g),
    ...sent,
    // Commands that the connection itself sends.
    ...["evalsha", "script"],
  ]);
  expect([...neededCommands.keys()].sort()).toEqual([...used].sort());
});

it("a copy tests every command that it sends, and a start tests no command that only copies send (USE-22)", () => {
  const [scan = "", batches = ""] = ["copied-key-scan.ts", "entry-batches.ts"].map((name) =>
    readFileSync(join(folder, "copy", name), "utf8"),
  );
  const counts = found([/const counts = (\{.*\})/.exec(scan)?.[1] ?? ""], /"(\w+)"/g);
  const sent = [
    ...found(
      sources(".ts", (path) => ofCopies.test(path)),
      /(?:command(?:<[^(]*>)?|call)\(\s*"(\w+)"/gi,
    ),
    ...found([batches], /name: "(\w+)"/g),
    ...counts,
  ];
  expect(counts).toHaveLength(4);
  expect([...copyCommands.keys()]).toEqual(expect.arrayContaining(sent));
  const more = [...copyCommands.keys()].filter((name) => !neededCommands.has(name));
  expect(more.sort()).toEqual([...new Set(sent)].filter((name) => !neededCommands.has(name)).sort());
});
