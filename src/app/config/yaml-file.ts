import { type Document, isMap, isScalar, LineCounter, type Node, type Pair, parseDocument, visit } from "yaml";
import { expandReferences, hasReference, maskReferences, unmaskReferences, type Variables } from "./expand.js";
import { type ConfigProblem, formatPath, type SettingPath } from "./problem.js";

/** Aliases may repeat parts of a file, but not blow it up. */
const maxAliasCount = 100;

/** A configuration file after YAML and before the schema. */
export interface YamlFile {
  /** Plain data; an empty object when the file is empty or has problems. */
  readonly data: unknown;
  readonly problems: readonly ConfigProblem[];
  /** Where a setting stands; the nearest enclosing one when the path itself is absent. */
  placeOf(path: SettingPath): SourcePosition | null;
  /** Where the key `name` of the mapping at `path` stands. */
  placeOfKey(path: SettingPath, name: string): SourcePosition | null;
}

export interface SourcePosition {
  readonly line: number;
  readonly column: number;
}

export function readYaml(text: string, variables: Variables): YamlFile {
  const lines = new LineCounter();
  const document = parseDocument(maskReferences(text), { lineCounter: lines, prettyErrors: false });
  const place = (offset: number): SourcePosition => {
    const { line, col } = lines.linePos(offset);
    return { line, column: col };
  };
  const problems: ConfigProblem[] = document.errors.map((error) => ({
    ...place(error.pos[0]),
    path: "",
    message: unmaskReferences(error.message),
    hint: null,
  }));
  if (problems.length === 0) problems.push(...expandScalars(document, variables, place));
  return {
    data: problems.length === 0 ? toData(document, problems) : {},
    problems,
    placeOf: (path) => placeOfNode(document, path, place),
    placeOfKey: (path, name) => placeOfKey(document, path, name, place),
  };
}

function toData(document: Document, problems: ConfigProblem[]): unknown {
  try {
    return document.toJS({ maxAliasCount }) ?? {};
  } catch (error) {
    // The only throw of a document without errors: an alias that is unknown or used too often.
    const message = error instanceof Error ? error.message : String(error);
    problems.push({ line: 1, column: 1, path: "", message, hint: null });
    return {};
  }
}

function expandScalars(
  document: Document,
  variables: Variables,
  place: (offset: number) => SourcePosition,
): ConfigProblem[] {
  const problems: ConfigProblem[] = [];
  visit(document, {
    Scalar(key, node, ancestors) {
      if (typeof node.value !== "string" || !hasReference(node.value)) return;
      if (key === "key") {
        node.value = unmaskReferences(node.value);
        return;
      }
      const expanded = expandReferences(node.value, variables);
      if ("text" in expanded) {
        node.value = node.type === "PLAIN" ? plainValue(expanded.text) : expanded.text;
        return;
      }
      problems.push({
        ...place(node.range?.[0] ?? 0),
        path: formatPath(pathOf([...ancestors, node])),
        message: expanded.fault,
        hint: expanded.hint,
      });
    },
  });
  return problems;
}

/** What an unquoted value means once its variables are known: `${PORT}` is a number, as if it had been written. */
function plainValue(text: string): string | number | boolean | null {
  if (text === "" || text === "null" || text === "~") return null;
  if (text === "true" || text === "false") return text === "true";
  return /^-?(0|[1-9]\d*)(\.\d+)?$/.test(text) ? Number(text) : text;
}

/** Keys and positions that lead from the document to the last of `nodes`. */
function pathOf(nodes: readonly unknown[]): SettingPath {
  const path: (string | number)[] = [];
  nodes.forEach((node, i) => {
    const parent = nodes[i - 1];
    if (isPair(node) && isScalar(node.key)) path.push(String(node.key.value));
    else if (isSequence(parent)) path.push(parent.items.indexOf(node));
  });
  return path;
}

function isPair(node: unknown): node is Pair {
  return typeof node === "object" && node !== null && "key" in node && "value" in node;
}

function isSequence(node: unknown): node is { items: unknown[] } {
  return typeof node === "object" && node !== null && "items" in node && Array.isArray(node.items) && !isMap(node);
}

function placeOfNode(
  document: Document,
  path: SettingPath,
  place: (offset: number) => SourcePosition,
): SourcePosition | null {
  for (let length = path.length; length > 0; length -= 1) {
    const last = path[length - 1];
    const parentPath = path.slice(0, length - 1);
    if (typeof last === "string") {
      const found = placeOfKey(document, parentPath, last, place);
      if (found !== null) return found;
    } else {
      const node = document.getIn(path.slice(0, length), true) as Node | undefined;
      if (node?.range) return place(node.range[0]);
    }
  }
  return null;
}

function placeOfKey(
  document: Document,
  path: SettingPath,
  name: string,
  place: (offset: number) => SourcePosition,
): SourcePosition | null {
  const node = path.length === 0 ? document.contents : document.getIn(path, true);
  if (!isMap(node)) return null;
  const key = node.items.find((pair) => isScalar(pair.key) && String(pair.key.value) === name)?.key;
  return isScalar(key) && key.range ? place(key.range[0]) : null;
}
