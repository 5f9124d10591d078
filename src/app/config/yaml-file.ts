import { setImmediate } from "node:timers/promises";
import {
  Composer,
  type Document,
  isMap,
  isPair,
  isScalar,
  isSeq,
  Lexer,
  LineCounter,
  type Node,
  Parser,
  visit,
  YAMLParseError,
} from "yaml";
import { invariant } from "../../domain/call/service-error.js";
import { errorText } from "../../lib/display-text.js";
import { expandReferences, hasReference, maskReferences, unmaskReferences, type Variables } from "./expand.js";
import { type ConfigProblem, formatPath, problemAt, type SettingPath, type SourcePosition } from "./problem.js";

/** Maximum number of aliases: repeated ones could expand to a huge document. */
const maxAliasCount = 100;

/** A configuration file that is parsed as YAML, but not yet validated against the schema. */
export interface YamlFile {
  /** Plain data; an empty object when the file is empty or has problems. */
  readonly data: unknown;
  readonly problems: readonly ConfigProblem[];
  /** Position of a setting; of the nearest enclosing one if the path itself is absent. */
  positionOf(path: SettingPath): SourcePosition | null;
}

type PositionAt = (offset: number) => SourcePosition;

/** Resolves with the file, or its problems. A long file is read in slices, because a reload must not stop requests. */
export async function readYaml(text: string, variables: Variables): Promise<YamlFile> {
  const lines = new LineCounter();
  const document = await parseInSlices(maskReferences(text), lines);
  await setImmediate();
  const positionAt: PositionAt = (offset) => {
    const { line, col: column } = lines.linePos(offset);
    return { line, column };
  };
  const problems = document.errors.map(({ pos, message }) =>
    problemAt("", unmaskReferences(message), null, positionAt(pos[0])),
  );
  if (problems.length === 0) problems.push(...expandScalars(document, variables, positionAt));
  return {
    data: problems.length === 0 ? toData(document, problems) : {},
    problems,
    positionOf: (path) => positionOf(document, path, positionAt),
  };
}

/** Longest time without other work while a file is parsed. Only the last step, a third of the whole, is not divided. */
const sliceMs = 8;

/** Does the same as `parseDocument` of the library, but lets other work run in between. */
async function parseInSlices(text: string, lines: LineCounter): Promise<Document> {
  const parser = new Parser(lines.addNewLine);
  const composer = new Composer({ lineCounter: lines, prettyErrors: false });
  const documents: Document[] = [];
  lines.addNewLine(0);
  let sinceMs = performance.now();
  for (const lexeme of new Lexer().lex(text)) {
    for (const token of parser.next(lexeme)) documents.push(...composer.next(token));
    if (performance.now() - sinceMs < sliceMs) continue;
    await setImmediate();
    sinceMs = performance.now();
  }
  await setImmediate();
  for (const token of parser.end()) documents.push(...composer.next(token));
  documents.push(...composer.end(true, text.length));
  const [document, second] = documents;
  invariant(document !== undefined, "the end of a text is the end of a document");
  if (second !== undefined) {
    const [from, to] = second.range ?? [0, 0];
    document.errors.push(new YAMLParseError([from, to], "MULTIPLE_DOCS", "The file has more than one document"));
  }
  return document;
}

function toData(document: Document, problems: ConfigProblem[]): unknown {
  try {
    return document.toJS({ maxAliasCount }) ?? {};
  } catch (error) {
    // A document without errors throws only for an alias that is unknown or used too often.
    problems.push(problemAt("", errorText(error), null, { line: 1, column: 1 }));
    return {};
  }
}

function expandScalars(document: Document, variables: Variables, positionAt: PositionAt): ConfigProblem[] {
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
      const path = formatPath(pathOf([...ancestors, node]));
      problems.push(problemAt(path, expanded.message, expanded.hint, positionAt(node.range?.[0] ?? 0)));
    },
  });
  return problems;
}

/** An expanded value without quotes has the type that it would have in YAML: `${PORT}` is a number. */
function plainValue(text: string): string | number | boolean | null {
  if (text === "" || text === "null" || text === "~") return null;
  if (text === "true" || text === "false") return text === "true";
  return /^-?(0|[1-9]\d*)(\.\d+)?$/.test(text) ? Number(text) : text;
}

/** Path of the last of `nodes`: the keys and indexes from the root of the document. */
function pathOf(nodes: readonly unknown[]): SettingPath {
  const path: (string | number)[] = [];
  nodes.forEach((node, i) => {
    const parent = nodes[i - 1];
    if (isPair(node) && isScalar(node.key)) path.push(String(node.key.value));
    else if (isSeq(parent)) path.push(parent.items.indexOf(node));
  });
  return path;
}

function positionOf(document: Document, path: SettingPath, positionAt: PositionAt): SourcePosition | null {
  for (let length = path.length; length > 0; length -= 1) {
    const last = path[length - 1];
    const found = typeof last === "string" ? keyNode(document, path.slice(0, length)) : nodeAt(document, path, length);
    if (found?.range) return positionAt(found.range[0]);
  }
  return null;
}

/** The key of the mapping that holds the setting. */
function keyNode(document: Document, path: SettingPath): Node | undefined {
  const parent = nodeAt(document, path, path.length - 1);
  if (!isMap(parent)) return undefined;
  const key = parent.items.find((pair) => isScalar(pair.key) && String(pair.key.value) === path.at(-1))?.key;
  return isScalar(key) ? key : undefined;
}

function nodeAt(document: Document, path: SettingPath, length: number): Node | null | undefined {
  return length === 0 ? document.contents : (document.getIn(path.slice(0, length), true) as Node | undefined);
}
