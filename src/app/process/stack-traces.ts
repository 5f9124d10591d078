import { readFileSync } from "node:fs";
import { SourceMap } from "node:module";
import { fileURLToPath } from "node:url";

/**
 * Imported by the entries of the bundle: names the files and lines of src/ in stack traces. Source maps are read when a stack is
 * first formatted; Node's own option reads them all at the start.
 */
const bundle = new URL("../../bundle/", import.meta.url).href;
const maps = new Map<string, SourceMap | null>();

Error.prepareStackTrace = (error, frames) => {
  return [String(error), ...frames.map((frame) => `    at ${positioned(frame)}`)].join("\n");
};

function positioned(frame: NodeJS.CallSite): string {
  const text = String(frame);
  const file = frame.getFileName();
  const [line, column] = [frame.getLineNumber(), frame.getColumnNumber()];
  if (!file?.startsWith(bundle) || line === null || column === null) return text;
  const entry = mapOf(file)?.findEntry(line - 1, column - 1);
  if (entry === undefined || !("originalSource" in entry)) return text;
  const source = entry.originalSource.replace(/^(?:\.\.\/)+/, "");
  return text.replace(`${file}:${line}:${column}`, `${source}:${entry.originalLine + 1}:${entry.originalColumn + 1}`);
}

/** Null for a file whose map cannot be read. */
function mapOf(file: string): SourceMap | null {
  const known = maps.get(file);
  if (known !== undefined) return known;
  let map: SourceMap | null = null;
  try {
    map = new SourceMap(JSON.parse(readFileSync(`${fileURLToPath(file)}.map`, "utf8")));
  } catch {
    // The trace then names the file of the bundle.
  }
  maps.set(file, map);
  return map;
}
