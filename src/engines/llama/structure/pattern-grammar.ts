import { grammarCharsMax } from "./grammar-builder.js";
import { type Pattern, PatternUnsupported, type Ranges, WorkBudget } from "./pattern.js";
import { type AutomatonState, automatonOf } from "./pattern-automaton.js";
import { type Automata, checkAlternatives, onePath } from "./pattern-paths.js";
import { rangeText } from "./string-grammar.js";

/** Maximum nesting of calls, which ends a model's endless run of opening brackets; lower if the grammar is large. */
const levelChoices = [32, 16, 8, 4];
/** Maximum states of all levels together. */
const levelStatesMax = 4_000;
/** Maximum work on all automata of a grammar: up to 100 ms. */
const workMax = 80_000;
/** Maximum visits of parts to find the rules that allow the empty text: some 10 ms. */
const nullableVisitsMax = 500_000;
const impossible = "no text satisfies it, or none in which a recursive rule goes on wherever it can";

/**
 * GBNF for the texts of `root`, one of the rules. The engine follows all open paths of a grammar in parallel, without a limit:
 * a text that fits two rules again and again takes exponential time. So the rules are rewritten until each character leaves one
 * path: rules that are not recursive become a deterministic automaton, and the next character must distinguish a recursive rule
 * from its alternatives. Recursion is limited to 32 levels, except for a rule that ends with a call of itself, which is a
 * repetition. Throws PatternUnsupported.
 */
export function grammarOfRules(patterns: ReadonlyMap<string, Pattern>, root: string): string {
  const automata = automataOf(patterns, root);
  return new LevelledGrammar(onePath(automata), root).build();
}

/** Automata of the root and of the rules that it calls. */
function automataOf(patterns: ReadonlyMap<string, Pattern>, root: string): Automata {
  const rules = {
    patterns,
    called: recursiveRules(patterns, root),
    nullable: nullableRules(patterns),
    work: new WorkBudget(workMax),
  };
  const automata = new Map<string, readonly AutomatonState[]>();
  const unread = [root];
  for (let name = unread.pop(); name !== undefined; name = unread.pop()) {
    if (automata.has(name)) continue;
    const states = automatonOf(name, rules);
    automata.set(name, states);
    unread.push(...states.flatMap(({ calls }) => calls.map(({ rule }) => rule)));
  }
  return automata;
}

/** One rule of each cycle of references: the one that a search from the root finds first. */
function recursiveRules(patterns: ReadonlyMap<string, Pattern>, root: string): ReadonlySet<string> {
  const recursive = new Set<string>();
  const state = new Map<string, "open" | "done">();
  const visit = (name: string): void => {
    state.set(name, "open");
    for (const next of referencesOf(patterns.get(name))) {
      if (!patterns.has(next)) throw new PatternUnsupported(`the rule '${next}' is missing`);
      if (state.get(next) === "open") recursive.add(next);
      else if (!state.has(next)) visit(next);
    }
    state.set(name, "done");
  };
  visit(root);
  return recursive;
}

function referencesOf(pattern: Pattern | undefined): readonly string[] {
  switch (pattern?.type) {
    case "rule":
      return [pattern.name];
    case "sequence":
      return pattern.parts.flatMap(referencesOf);
    case "choice":
      return pattern.options.flatMap(referencesOf);
    case "repeat":
      return referencesOf(pattern.part);
    default:
      return [];
  }
}

/** Rules that allow the empty text: grows the set until nothing is added. */
function nullableRules(patterns: ReadonlyMap<string, Pattern>): ReadonlySet<string> {
  const nullable = new Set<string>();
  const visits = new WorkBudget(nullableVisitsMax);
  const isNullable = (pattern: Pattern): boolean => {
    visits.spend(1);
    switch (pattern.type) {
      case "set":
        return false;
      case "sequence":
        return pattern.parts.every(isNullable);
      case "choice":
        return pattern.options.some(isNullable);
      case "repeat":
        return pattern.min === 0 || isNullable(pattern.part);
      case "rule":
        return nullable.has(pattern.name);
    }
  };
  for (let size = -1; size < nullable.size; ) {
    size = nullable.size;
    for (const [name, pattern] of patterns) if (!nullable.has(name) && isNullable(pattern)) nullable.add(name);
  }
  return nullable;
}

/** A state of a rule at a nesting level of calls. `begins`: at least one character must follow. */
interface Spot {
  readonly rule: string;
  readonly level: number;
  readonly state: number;
  readonly begins: boolean;
}

/** The grammar of automata whose calls are limited to a number of levels. */
class LevelledGrammar {
  readonly #automata: Automata;
  readonly #root: string;
  readonly #levels: number;
  readonly #canEnd = new Map<string, readonly boolean[]>();
  readonly #names = new Map<string, string>();
  readonly #unwritten: { readonly spot: Spot; readonly name: string }[] = [];
  readonly #classes = new Map<string, string>();
  readonly #lines: string[] = [];
  #chars = 0;

  constructor(automata: Automata, root: string) {
    this.#automata = automata;
    this.#root = root;
    this.#levels = levelsOf(automata);
  }

  build(): string {
    const root = { rule: this.#root, level: 0, state: 0, begins: false };
    if (!this.#canReachEnd(root)) throw new PatternUnsupported(impossible);
    this.#define("root", this.#nameOf(root));
    for (let next = this.#unwritten.pop(); next !== undefined; next = this.#unwritten.pop()) {
      this.#define(next.name, this.#alternatives(next.spot).join(" | "));
    }
    return `${this.#lines.join("\n")}\n`;
  }

  #alternatives({ rule, level, state, begins }: Spot): readonly string[] {
    const { sets, calls, isEnd } = this.#state(rule, state);
    const alternatives = [
      ...sets.flatMap(({ ranges, to }) => this.#step(this.#classOf(ranges), { rule, level, state: to, begins: false })),
      ...calls.flatMap((call) => {
        const called = { rule: call.rule, level: level + 1, state: 0, begins: true };
        if (!this.#canReachEnd(called)) return [];
        return this.#step(this.#nameOf(called), { rule, level, state: call.to, begins: false });
      }),
      ...(isEnd && !begins ? ['""'] : []),
    ];
    checkAlternatives(alternatives.length);
    return alternatives;
  }

  /** GBNF for a part and the state after it; empty if no text can end from there. A state that only ends needs no rule. */
  #step(part: string, next: Spot): readonly string[] {
    if (!this.#canReachEnd(next)) return [];
    const { sets, calls } = this.#state(next.rule, next.state);
    return [sets.length === 0 && calls.length === 0 ? part : `${part} ${this.#nameOf(next)}`];
  }

  #canReachEnd({ rule, level, state, begins }: Spot): boolean {
    if (level > this.#levels) return false;
    const ends = this.#endsOf(rule, level);
    if (!begins) return ends[state] === true;
    const { sets, calls } = this.#state(rule, state);
    return (
      sets.some(({ to }) => ends[to] === true) ||
      calls.some((call) => ends[call.to] === true && this.#canBegin(call.rule, level + 1))
    );
  }

  #canBegin(rule: string, level: number): boolean {
    return this.#canReachEnd({ rule, level, state: 0, begins: true });
  }

  /** For each state of a rule whether the rule's end can be reached with the levels that are left. */
  #endsOf(rule: string, level: number): readonly boolean[] {
    const key = `${rule} ${level}`;
    const known = this.#canEnd.get(key);
    if (known !== undefined) return known;
    const states = this.#automata.get(rule) ?? [];
    const able = new Map<string, boolean>();
    for (const { rule: called } of states.flatMap(({ calls }) => calls)) {
      if (!able.has(called)) able.set(called, this.#canBegin(called, level + 1));
    }
    const ends = states.map(({ isEnd }) => isEnd);
    for (let hasChanged = true; hasChanged; ) {
      hasChanged = false;
      for (let i = states.length - 1; i >= 0; i--) {
        if (ends[i] === true) continue;
        const { sets = [], calls = [] } = states[i] ?? {};
        const reaches =
          sets.some(({ to }) => ends[to] === true) ||
          calls.some((call) => ends[call.to] === true && able.get(call.rule) === true);
        if (!reaches) continue;
        ends[i] = true;
        hasChanged = true;
      }
    }
    this.#canEnd.set(key, ends);
    return ends;
  }

  #nameOf(spot: Spot): string {
    const key = `${spot.rule} ${spot.level} ${spot.state} ${spot.begins}`;
    const known = this.#names.get(key);
    if (known !== undefined) return known;
    const name = `s${this.#names.size}`;
    this.#names.set(key, name);
    this.#unwritten.push({ spot, name });
    return name;
  }

  /** GBNF for a set of characters; a long one becomes a rule of its own, because many states share it. */
  #classOf(ranges: Ranges): string {
    const text = `[${ranges.map(([first, last]) => rangeText(first, last)).join("")}]`;
    if (text.length <= 24) return text;
    const known = this.#classes.get(text);
    if (known !== undefined) return known;
    const name = `c${this.#classes.size}`;
    this.#classes.set(text, name);
    this.#define(name, text);
    return name;
  }

  #define(name: string, body: string): void {
    const line = `${name} ::= ${body}`;
    this.#chars += line.length + 1;
    if (this.#chars > grammarCharsMax) {
      throw new PatternUnsupported(`its grammar is longer than ${grammarCharsMax} characters; use a smaller one`);
    }
    this.#lines.push(line);
  }

  #state(rule: string, state: number): AutomatonState {
    const found = this.#automata.get(rule)?.[state];
    if (found === undefined) throw new Error("a grammar has no such state");
    return found;
  }
}

/** The most levels of calls that keep the grammar small enough. Throws PatternUnsupported for a large recursive grammar. */
function levelsOf(automata: Automata): number {
  let states = 0;
  let hasCalls = false;
  for (const each of automata.values()) {
    states += each.length;
    hasCalls ||= each.some(({ calls }) => calls.length > 0);
  }
  if (!hasCalls) return 0;
  const levels = levelChoices.find((count) => count * states <= levelStatesMax);
  if (levels !== undefined) return levels;
  throw new PatternUnsupported("its recursive rules need too many states; use fewer or smaller ones");
}
