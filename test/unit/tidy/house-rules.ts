import { familyNames } from "../../../scripts/rules.js";

/** One house rule as a pattern: the files to check, the violation, and a text that must be detected. */
export interface HouseRule {
  readonly name: string;
  /** The remedy for a violation. */
  readonly instead: string;
  readonly in: RegExp;
  readonly except?: RegExp;
  readonly pattern: RegExp;
  /** Whether comments are searched too (`text`) or not (`code`). */
  readonly looksAt: "text" | "code";
  /** A violation, to show that the rule can fail. Written in parts, so that this file does not violate the rule itself. */
  readonly canary: { readonly path: string; readonly text: string };
}

const typescript = /\.(ts|mjs)$/;
const domain = /^src\/domain\/.*\.ts$/;
const tests = /^test\/.*\.ts$/;

export const houseRules: readonly HouseRule[] = [
  {
    name: "no markers of unfinished work",
    instead: "do it, or write an issue",
    in: typescript,
    pattern: /\b(FIX(?:ME)|TO(?:DO)|X(?:XX))\b/,
    looksAt: "text",
    canary: { path: "src/lib/x.ts", text: `// ${"TO"}${"DO"}: later` },
  },
  {
    name: "no ambiguous word for an engine, upstream, store or server",
    instead: "say engine, upstream, store or server",
    in: /^(src|test|scripts|docs|proto)\/|^[A-Z]+\.md$/,
    // A path of another product may have the word.
    pattern: new RegExp(`(?<!/)back[-\\s]?${"end"}`, "i"),
    looksAt: "text",
    canary: { path: "docs/x.md", text: `the ${"back"}${"end"} answers` },
  },
  {
    name: "src/domain reads no clock",
    instead: "take Clock from deps",
    in: domain,
    pattern: /\bDate\.now\b|\bnew Date\(\)|\bperformance\.now\b/,
    looksAt: "code",
    canary: { path: "src/domain/x.ts", text: "const now = Date.now();" },
  },
  {
    name: "src/domain sets no timer",
    instead: "take Clock from deps",
    in: domain,
    pattern: /\b(setTimeout|setInterval|setImmediate)\b/,
    looksAt: "code",
    canary: { path: "src/domain/x.ts", text: "setTimeout(stop, 10);" },
  },
  {
    name: "src/domain creates no random values",
    instead: "take IdSource or Random from deps",
    in: domain,
    pattern: /\bMath\.random\b|\brandomUUID\b|\brandomBytes\b|\bgetRandomValues\b/,
    looksAt: "code",
    canary: { path: "src/domain/x.ts", text: "const id = crypto.randomUUID();" },
  },
  {
    name: "src/domain runs without Node",
    instead: "declare a port, or move the function into src/lib",
    in: domain,
    pattern: /["']node:/,
    looksAt: "code",
    canary: { path: "src/domain/x.ts", text: 'import { createHash } from "node:crypto";' },
  },
  {
    name: "only src/app/config reads the environment",
    instead: "add a setting to src/app/config",
    in: /^src\//,
    except: /^src\/app\/config\//,
    pattern: /\bprocess\s*\.\s*env\b|\bprocess\s*\[\s*["']env["']|\{[^}]*\benv\b[^}]*\}\s*=\s*process\b/,
    looksAt: "code",
    canary: { path: "src/app/compose/compose.ts", text: "const { env } = process;" },
  },
  {
    name: "no file is limited to a single test",
    instead: "remove .only",
    in: tests,
    pattern: /\b(it|test|describe)(\.\w+)*\.only\b/,
    looksAt: "code",
    canary: { path: "test/unit/x.test.ts", text: `it${".only"}("works", run);` },
  },
  {
    name: "a test title begins with what is promised",
    instead: "put the ids of rules in brackets at its end",
    in: tests,
    pattern: new RegExp(`^\\s*(.*\\()?["'\`](?:(?:wire|state) RL|${familyNames})-\\d+[ ,:]`),
    looksAt: "code",
    canary: { path: "test/unit/x.test.ts", text: `it("${"SSE"}-1: begins", run);` },
  },
  {
    name: "no test is only planned",
    instead: "write the test",
    in: tests,
    pattern: /\b(it|test|describe)(\.\w+)*\.todo\b/,
    looksAt: "code",
    canary: { path: "test/unit/x.test.ts", text: `it${".todo"}("works");` },
  },
  {
    name: "no lint rule is switched off without a reason",
    instead: "write the reason after the colon",
    in: typescript,
    pattern: /biome-ignore[^:]*(:\s*)?$/,
    looksAt: "text",
    canary: { path: "src/lib/x.ts", text: `// ${"biome"}-ignore lint/style/noProcessEnv` },
  },
  {
    name: "no conflict marker",
    instead: "resolve the conflict",
    in: /./,
    pattern: /^(<{7}|>{7}) /,
    looksAt: "text",
    canary: { path: "docs/x.md", text: `${"<".repeat(7)} HEAD` },
  },
  {
    name: "no absolute path of a developer's machine",
    instead: "write paths relative to the repository",
    in: /./,
    except: /^package-lock\.json$/,
    pattern: /(^|[\s"'`(=:])\/(work|home|root|Users)\/[a-z.]/i,
    looksAt: "text",
    canary: { path: "docs/x.md", text: `see ${"/ho"}me/someone/notes` },
  },
  {
    name: "no address of a package registry",
    instead: "remove it: npm's configuration names the registry",
    in: /./,
    pattern: /https?:\/\/[^\s"'/]*(registry|artifactory|nexus|verdaccio|pypi|npmjs)[^\s"'/]*|"resolved": "https?:/i,
    looksAt: "text",
    canary: { path: "package-lock.json", text: `"resolved": "${"https:"}//example.org/x.tgz"` },
  },
];

/** Violations of a rule in a file, as `path:line: text`. */
export function violations(rule: HouseRule, path: string, text: string): string[] {
  if (!rule.in.test(path) || rule.except?.test(path)) return [];
  const looked = rule.looksAt === "code" ? withoutComments(text) : text;
  return looked
    .split("\n")
    .flatMap((line, index) => (rule.pattern.test(line) ? [`${path}:${index + 1}: ${line.trim()}`] : []));
}

/** Removes comments, and keeps line numbers. Sufficient for formatted code. */
function withoutComments(text: string): string {
  return text
    .replaceAll(/\/\*[\s\S]*?\*\//g, (comment) => comment.replaceAll(/[^\n]/g, ""))
    .replaceAll(/(^|[^:"'`])\/\/[^\n]*/g, "$1");
}

/** Skipped tests without a reason in the call, in a title `skipped: …`, or in a comment before them. */
export function unexplainedSkips(path: string, text: string): string[] {
  const lines = text.split("\n");
  return lines.flatMap((line, index) => {
    if (!/\.(skip|skipIf|runIf)\(/.test(line)) return [];
    const titled = /\.skip\(["'`]skipped: /.test(line);
    const explained = /\bskip\((.*,\s*)?["'`]/.test(line) && /\b(ctx|context|t)\.skip/.test(line);
    const commented = /^\s*\/\/|\*\/\s*$/.test(lines[index - 1] ?? "") || /\/\/ \S/.test(line);
    return titled || explained || commented ? [] : [`${path}:${index + 1}: ${line.trim()}`];
  });
}

/** Generated or third-party files, whose length is not limited. */
export const uncounted = /^(gen|test\/fixtures)\/|(^|\/)package-lock\.json$|^docs\/(config\.md|uis\..+)$|^LICENSE$/;

/** Files that may be longer than 400 lines, each with the reason. */
export const longFiles: Readonly<Record<string, string>> = {
  "deploy/grafana/unified-inference.json": "Grafana takes a dashboard as one file",
  "docs/openapi.json": "one document for every route, as linters, browsers and generators take it",
};
export const linesMax = 400;

/** File names that do not describe a concept. */
const emptyName = /(^|[-./])(utils?|helpers?|common|misc|manager)(?=[-./])/;

export function emptyNames(paths: readonly string[]): string[] {
  return paths.filter((path) => /^(src|scripts|test)\//.test(path) && emptyName.test(path));
}
