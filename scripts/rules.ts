import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** One numbered rule of `docs/rules`. */
export interface Rule {
  /** `SSE-4`. Two families are called `RL`; their ids begin with a subject: `wire RL-3`, `state RL-3`. */
  readonly id: string;
  readonly level: string;
  /** Which part of the product has to prove it: a name of the table of stages in `docs/rules/README.md`. */
  readonly stage: string;
  readonly sentence: string;
  /** File name within `docs/rules`. */
  readonly file: string;
}

/** The families of ids, joined for a regular expression. */
export const familyNames =
  "DEC|GEN|CHAT|MSG|TOOL|RF|RESP|SSE|STRM|SERR|CMPL|EMB|RANK|MODEL|ERR|RETRY|HDR|PROTO|CORS|CONN|RSP|ANT|CLI|WH|KEY|USE|SEC|REL|GRPC|E";
const citation = new RegExp(`\\b(?:(wire|state) )?(RL-\\d+)\\b|\\b((?:${familyNames})-\\d+)\\b`, "g");
const row = /^\| ((?:wire |state )?[A-Z]+-\d+) \| (\S+) \| (\S+) \| (.+) \|$/;

/** All rules of a folder of Markdown files whose tables have the columns id, level, stage and rule. */
export function readRules(folder: string): Rule[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith(".md") && name !== "README.md")
    .flatMap((file) => parseRules(readFileSync(join(folder, file), "utf8"), file));
}

/** The rules of one Markdown text; lines that are no row of a rule table are passed over. */
export function parseRules(text: string, file: string): Rule[] {
  return text.split("\n").flatMap((line) => {
    const [, id, level, stage, sentence] = row.exec(line) ?? [];
    if (id === undefined || level === undefined || stage === undefined || sentence === undefined) return [];
    return [{ id, level, stage, sentence, file }];
  });
}

/** The ids that a test title cites. A bare `RL-3` is returned unchanged: it names no rule, and coverage reports it. */
export function citedIds(title: string): string[] {
  return [...title.matchAll(citation)].flatMap(([, subject, shared, own]) => {
    if (own !== undefined) return [own];
    if (shared === undefined) return [];
    return [subject === undefined ? shared : `${subject} ${shared}`];
  });
}
