import { gbnfLiteral } from "./gbnf.js";

/** Where the rules of a grammar are put; returns the new rule's name, which begins with `hint`. */
export type AddRule = (hint: string, body: string) => string;

/** Texts that share their beginnings. Keeps what an engine must try at each character down to the differing ones. */
interface Branch {
  ends: boolean;
  /** A text went on from here, but was too long to be planted. */
  cut: boolean;
  readonly next: Map<string, Branch>;
}

/** GBNF for exactly one of these texts. Two texts may begin alike, and one may be the beginning of another. */
export function oneOfTexts(texts: Iterable<string>, hint: string, addRule: AddRule): string {
  return branchText(plant(texts), hint, addRule);
}

/** Characters that a JSON string holds unescaped. */
export interface PlainCharacters {
  /** GBNF set of all of them but these. */
  readonly without: (characters: string) => string;
  /** GBNF for what may follow the first differing character. */
  readonly rest: string;
}

/** Characters of a text that are compared one by one; what begins like a longer text is left out altogether. */
const comparedChars = 64;

/**
 * GBNF for the inside of a JSON string of one or more plain characters that is none of these texts, which must be made
 * of plain characters themselves.
 */
export function noneOfTexts(texts: Iterable<string>, plain: PlainCharacters, addRule: AddRule): string {
  const write = (branch: Branch, isStart: boolean): string => {
    const alternatives = [`${plain.without([...branch.next.keys()].join(""))} ${plain.rest}`];
    for (const [character, next] of branch.next) {
      if (!next.cut) alternatives.push(`${gbnfLiteral(character)} ${write(next, false)}`);
    }
    if (!isStart && !branch.ends) alternatives.push('""');
    return addRule("name", alternatives.join(" | "));
  };
  return write(plant(texts, comparedChars), true);
}

function plant(texts: Iterable<string>, charsMax = Number.POSITIVE_INFINITY): Branch {
  const root: Branch = { ends: false, cut: false, next: new Map() };
  for (const text of texts) {
    let branch = root;
    let chars = 0;
    for (const character of text) {
      if (++chars > charsMax) {
        branch.cut = true;
        break;
      }
      let next = branch.next.get(character);
      if (next === undefined) {
        next = { ends: false, cut: false, next: new Map() };
        branch.next.set(character, next);
      }
      branch = next;
    }
    branch.ends = true;
  }
  return root;
}

function branchText(root: Branch, hint: string, addRule: AddRule): string {
  const alternatives: string[] = root.ends ? ['""'] : [];
  for (const [character, next] of root.next) {
    let straight = character;
    let branch = next;
    for (let only = onlyNext(branch); only !== null; only = onlyNext(branch)) {
      straight += only[0];
      branch = only[1];
    }
    const rest = branch.next.size === 0 ? "" : ` ${branchText(branch, hint, addRule)}`;
    alternatives.push(gbnfLiteral(straight) + rest);
  }
  return alternatives.length === 1 ? (alternatives[0] ?? "") : addRule(hint, alternatives.join(" | "));
}

function onlyNext(branch: Branch): readonly [string, Branch] | null {
  if (branch.ends || branch.next.size !== 1) return null;
  const [only] = branch.next;
  return only ?? null;
}
