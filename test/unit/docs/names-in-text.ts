import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** Names that a page claims to exist: inline code, and paths inside drawings. */
export function namesIn(markdown: string): string[] {
  const names: string[] = [];
  let drawing = false;
  for (const line of markdown.split("\n")) {
    if (line.startsWith("```")) drawing = !drawing;
    const found = drawing
      ? line.matchAll(/(?:^|[\s(|])((?:src|proto|gen|test|docs|scripts)\/[\w./-]*\w\/?)/g)
      : line.matchAll(/`([^`]+)`/g);
    names.push(...[...found].map(([, name]) => String(name)));
  }
  return names;
}

const sources = sourceTexts(["src", "proto"]);

function sourceTexts(folders: readonly string[]): string[] {
  const paths = folders.flatMap((folder) =>
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name)),
  );
  return paths.map((path) => readFileSync(path, "utf8"));
}

function isScript(command: string): boolean {
  const name = /^npm (?:run )?([\w:]+)$/.exec(command)?.[1];
  const { scripts } = JSON.parse(readFileSync("package.json", "utf8")) as { scripts: Record<string, string> };
  return name !== undefined && name in scripts;
}

/** Whether a source text declares a name: as an export, message, service, RPC or field of a message. */
function declares(text: string, name: string): boolean {
  const exported = `export (declare )?(abstract )?(async )?(class|interface|type|const|function) ${name}\\b`;
  const described = `(message|service|enum|rpc|oneof) ${name}\\b|\\b${name} = \\d+`;
  return new RegExp(`^\\s*(${exported}|${described})|\\b${name} = \\d+;`, "m").test(text);
}

/** Whether a source text declares `Type`, or `Type.member`, whose member may be anywhere in the text. */
function declaresAll(text: string, symbol: string): boolean {
  const [owner = "", ...members] = symbol.split(".");
  return declares(text, owner) && members.every((member) => new RegExp(`\\b${member}\\b`).test(text));
}

/**
 * Whether a name in a page is real. `path/to/file` and `folder/` must exist; `file#Symbol` and `file#Symbol.member` must
 * be declared in that file, `Name` and `Name.member` anywhere in src or proto; `npm run x` must be a script; any other
 * name occurs literally in a source file.
 */
export function isReal(name: string): boolean {
  const [path = "", symbol] = name.split("#");
  if (symbol !== undefined) return existsSync(path) && declaresAll(readFileSync(path, "utf8"), symbol);
  if (/^[\w.-]+(\/[\w.-]+)*\/?$/.test(name) && existsSync(name)) return true;
  if (/^\.?\w[\w.-]*\//.test(name)) return false;
  if (name.startsWith("npm ")) return isScript(name);
  if (/^[A-Z][a-z]\w*(\.\w+)?$/.test(name)) return sources.some((text) => declaresAll(text, name));
  return sources.some((text) => text.includes(name));
}
