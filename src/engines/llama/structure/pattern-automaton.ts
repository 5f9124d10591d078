import { type Pattern, PatternUnsupported, type Ranges, tooLarge, type WorkBudget } from "./pattern.js";

/** A state of a deterministic automaton: each character, and each called rule, leads to one state at most. */
export interface AutomatonState {
  /** Whether a text may end here. */
  readonly isEnd: boolean;
  readonly sets: readonly { readonly ranges: Ranges; readonly to: number }[];
  /** Calls of rules: a text of `rule` leads to the state `to`. */
  readonly calls: readonly { readonly rule: string; readonly to: number }[];
}

export interface AutomatonRules {
  readonly patterns: ReadonlyMap<string, Pattern>;
  /** Rules that stay calls; all others are replaced by their patterns. */
  readonly called: ReadonlySet<string>;
  /** Rules that allow the empty text. */
  readonly nullable: ReadonlySet<string>;
  /** Spends one unit for each part, and for each element that is visited to make an automaton deterministic. */
  readonly work: WorkBudget;
}

/** Maximum number of states before and after an automaton is made deterministic. */
const looseStatesMax = 20_000;
const statesMax = 2_048;
/** Maximum nesting of rules and groups. */
const depthMax = 1_000;

/**
 * The deterministic automaton of a rule; its first state is the start. A rule that ends with a call of itself goes back to its
 * start instead. Throws PatternUnsupported for one that is too large.
 */
export function automatonOf(name: string, rules: AutomatonRules): readonly AutomatonState[] {
  const loose = new LooseAutomaton(name, rules);
  return new Determinizer(loose, rules.work).states();
}

interface LooseState {
  readonly sets: { readonly ranges: Ranges; readonly to: number }[];
  readonly calls: { readonly rule: string; readonly to: number }[];
  /** States that are reached without a character. */
  readonly jumps: number[];
}

/** An automaton that may be in several states at a time (Thompson's construction). */
class LooseAutomaton {
  readonly states: LooseState[] = [];
  readonly start: number;
  readonly end: number;
  readonly #name: string;
  readonly #rules: AutomatonRules;
  #depth = 0;

  constructor(name: string, rules: AutomatonRules) {
    this.#name = name;
    this.#rules = rules;
    this.start = this.#newState();
    this.end = this.#add(this.#patternOf(name), this.start, true);
  }

  /** Adds a pattern after the state `from` and returns the state after it. `isLast`: nothing of the rule follows. */
  #add(pattern: Pattern, from: number, isLast: boolean): number {
    this.#rules.work.spend(1);
    this.#depth += 1;
    if (this.#depth > depthMax) throw new PatternUnsupported(tooLarge);
    const end = this.#addPattern(pattern, from, isLast);
    this.#depth -= 1;
    return end;
  }

  #addPattern(pattern: Pattern, from: number, isLast: boolean): number {
    switch (pattern.type) {
      case "set": {
        const to = this.#newState();
        this.#state(from).sets.push({ ranges: pattern.ranges, to });
        return to;
      }
      case "sequence": {
        let at = from;
        for (const [i, part] of pattern.parts.entries()) {
          at = this.#add(part, at, isLast && i === pattern.parts.length - 1);
        }
        return at;
      }
      case "choice": {
        const to = this.#newState();
        for (const option of pattern.options) this.#jump(this.#add(option, from, isLast), to);
        return to;
      }
      case "repeat":
        return this.#addRepeat(pattern, from, isLast);
      case "rule":
        return this.#addRule(pattern.name, from, isLast);
    }
  }

  #addRepeat({ part, min, max }: Extract<Pattern, { type: "repeat" }>, from: number, isLast: boolean): number {
    let at = from;
    for (let i = 0; i < min; i++) at = this.#add(part, at, isLast && max === 1);
    const to = this.#newState();
    if (max === Number.POSITIVE_INFINITY) {
      const loop = this.#newState();
      this.#jump(at, loop);
      this.#jump(this.#add(part, loop, false), loop);
      this.#jump(loop, to);
      return to;
    }
    for (let i = min; i < max; i++) {
      this.#jump(at, to);
      at = this.#add(part, at, isLast && max === 1);
    }
    this.#jump(at, to);
    return to;
  }

  #addRule(name: string, from: number, isLast: boolean): number {
    if (isLast && name === this.#name) {
      this.#jump(from, this.start);
      return this.#newState();
    }
    if (!this.#rules.called.has(name)) return this.#add(this.#patternOf(name), from, isLast);
    const to = this.#newState();
    this.#state(from).calls.push({ rule: name, to });
    if (this.#rules.nullable.has(name)) this.#jump(from, to);
    return to;
  }

  #newState(): number {
    if (this.states.length >= looseStatesMax) throw new PatternUnsupported(tooLarge);
    return this.states.push({ sets: [], calls: [], jumps: [] }) - 1;
  }

  #state(id: number): LooseState {
    const state = this.states[id];
    if (state === undefined) throw new Error("an automaton has no such state");
    return state;
  }

  #jump(from: number, to: number): void {
    this.#state(from).jumps.push(to);
  }

  #patternOf(name: string): Pattern {
    const pattern = this.#rules.patterns.get(name);
    if (pattern === undefined) throw new PatternUnsupported(`the rule '${name}' is missing`);
    return pattern;
  }
}

/** The subset construction: each of its states is a set of states of the loose automaton. */
class Determinizer {
  readonly #loose: LooseAutomaton;
  readonly #work: WorkBudget;
  readonly #ids = new Map<string, number>();
  readonly #sets: (readonly number[])[] = [];

  constructor(loose: LooseAutomaton, work: WorkBudget) {
    this.#loose = loose;
    this.#work = work;
  }

  states(): readonly AutomatonState[] {
    this.#idOf([this.#loose.start]);
    const states: AutomatonState[] = [];
    for (let set = this.#sets[0]; set !== undefined; set = this.#sets[states.length]) states.push(this.#stateOf(set));
    return states;
  }

  #stateOf(set: readonly number[]): AutomatonState {
    const members = set.map((id) => this.#loose.states[id]).filter((state) => state !== undefined);
    const calls = new Map<string, number[]>();
    for (const { rule, to } of members.flatMap((state) => state.calls)) {
      const targets = calls.get(rule);
      if (targets === undefined) calls.set(rule, [to]);
      else targets.push(to);
    }
    return {
      isEnd: set.includes(this.#loose.end),
      sets: this.#split(members.flatMap((state) => state.sets)),
      calls: [...calls].map(([rule, targets]) => ({ rule, to: this.#idOf(targets) })),
    };
  }

  /** Splits overlapping sets of characters into disjoint ones, each with the states that all of its characters lead to. */
  #split(edges: readonly { readonly ranges: Ranges; readonly to: number }[]): AutomatonState["sets"] {
    const bounds = edges.flatMap(({ ranges, to }) =>
      ranges.flatMap(([first, last]) => [
        { at: first, to, change: 1 },
        { at: last + 1, to, change: -1 },
      ]),
    );
    this.#work.spend(bounds.length);
    bounds.sort((a, b) => a.at - b.at);
    const open = new Map<number, number>();
    const byTarget = new Map<number, [number, number][]>();
    for (const [i, { at, to, change }] of bounds.entries()) {
      const count = (open.get(to) ?? 0) + change;
      if (count === 0) open.delete(to);
      else open.set(to, count);
      const next = bounds[i + 1]?.at ?? at;
      if (next === at || open.size === 0) continue;
      const target = this.#idOf([...open.keys()]);
      const ranges = byTarget.get(target) ?? [];
      byTarget.set(target, ranges);
      const previous = ranges.at(-1);
      if (previous !== undefined && previous[1] === at - 1) previous[1] = next - 1;
      else ranges.push([at, next - 1]);
    }
    return [...byTarget].map(([to, ranges]) => ({ ranges, to }));
  }

  /** Whether a state has more than jumps. Sets of states omit states that only jump, so that more of the sets are equal. */
  #decides(id: number): boolean {
    const state = this.#loose.states[id];
    return id === this.#loose.end || (state !== undefined && state.sets.length + state.calls.length > 0);
  }

  /** The deterministic state for these states and all states that are reached from them without a character. */
  #idOf(states: readonly number[]): number {
    const reached = new Set(states);
    for (const id of reached) for (const next of this.#loose.states[id]?.jumps ?? []) reached.add(next);
    this.#work.spend(reached.size);
    const set = [...reached].filter((state) => this.#decides(state)).sort((a, b) => a - b);
    const key = set.join();
    const known = this.#ids.get(key);
    if (known !== undefined) return known;
    if (this.#sets.length >= statesMax) throw new PatternUnsupported(tooLarge);
    const id = this.#sets.push(set) - 1;
    this.#ids.set(key, id);
    return id;
  }
}
