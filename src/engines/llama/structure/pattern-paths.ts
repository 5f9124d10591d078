import { PatternUnsupported, type Ranges, rangesOf, rangesWithout, sharedRanges, WorkBudget } from "./pattern.js";
import type { AutomatonState } from "./pattern-automaton.js";

/** The automata of a grammar: of its root and of the rules that are called. */
export type Automata = ReadonlyMap<string, readonly AutomatonState[]>;

/** Maximum alternatives of one state: the engine tries each of them on the whole vocabulary, which takes up to 2 ms. */
const alternativesMax = 64;
/** Maximum steps and character ranges that are visited to find the characters that can follow rules: some 20 ms. */
const workMax = 50_000;

export function checkAlternatives(count: number): void {
  if (count <= alternativesMax) return;
  throw new PatternUnsupported(`more than ${alternativesMax} alternatives begin at one place`);
}

/**
 * Changes the automata so that each character leaves one path. Where a called rule can either continue or end before a
 * character, only continuing stays allowed: fewer texts remain, and all of them are texts of the grammar. Throws
 * PatternUnsupported where a character still leaves two paths.
 */
export function onePath(automata: Automata): Automata {
  if ([...automata.values()].every((states) => states.every(({ calls }) => calls.length === 0))) return automata;
  const decided = withLongestRules(automata);
  const firsts = new FirstCharacters(decided);
  const after = charactersAfter(decided, firsts);
  for (const [name, states] of decided) {
    for (const [at, state] of states.entries()) {
      checkAlternatives(state.sets.length + state.calls.length);
      const ways = [...state.sets.map(({ ranges }) => ranges), ...state.calls.map(({ rule }) => firsts.ofRule(rule))];
      for (const [i, way] of ways.entries()) {
        for (const other of ways.slice(Math.max(i + 1, state.sets.length))) refuseShared(way, other, name, "go on");
        if (endsAt(states, at)) refuseShared(way, after.get(name) ?? [], name, "go on or end");
      }
    }
  }
  return decided;
}

function refuseShared(left: Ranges, right: Ranges, rule: string, what: string): void {
  const [shared] = sharedRanges(left, right);
  if (shared === undefined) return;
  throw new PatternUnsupported(
    `the recursive rule '${rule}' can ${what} in two ways before the character ${JSON.stringify(String.fromCodePoint(shared[0]))}; ` +
      "write the rules so that the next character decides",
  );
}

/** Whether a call can end in the state. It never ends at its start: callers have a path without the call instead. */
function endsAt(states: readonly AutomatonState[], at: number): boolean {
  if (states[at]?.isEnd !== true) return false;
  return at > 0 || states.some(({ sets, calls }) => [...sets, ...calls].some(({ to }) => to === at));
}

/** Forbids a character directly after a call if the called rule can continue with that character. */
function withLongestRules(automata: Automata): Automata {
  const firsts = new FirstCharacters(automata);
  const taken = takenCharacters(automata, charactersAfter(automata, firsts), firsts);
  return new Map([...automata].map(([name, states]) => [name, afterCalls(states, taken, firsts)]));
}

/** The states of a rule. After a call, paths with a character with which the called rule can continue are removed. */
function afterCalls(
  states: readonly AutomatonState[],
  taken: ReadonlyMap<string, Ranges>,
  firsts: FirstCharacters,
): readonly AutomatonState[] {
  /** Copies of states, by state and the rule that was called before. */
  const ids = new Map<string, number>();
  const copies: { readonly state: AutomatonState; readonly called: string }[] = [];
  const idOf = (at: number, called: string): number => {
    const key = `${at} ${called}`;
    const known = ids.get(key);
    if (known !== undefined) return known;
    const state = states[at];
    if (state === undefined) throw new Error("an automaton has no such state");
    const id = copies.push({ state, called }) - 1;
    ids.set(key, id);
    return id;
  };
  idOf(0, "");
  const changed: AutomatonState[] = [];
  for (let copy = copies[0]; copy !== undefined; copy = copies[changed.length]) {
    const without = taken.get(copy.called) ?? [];
    const { isEnd, sets, calls } = copy.state;
    changed.push({
      isEnd,
      sets: sets
        .map(({ ranges, to }) => ({ ranges: rangesWithout(ranges, without), to }))
        .filter(({ ranges }) => ranges.length > 0)
        .map(({ ranges, to }) => ({ ranges, to: idOf(to, "") })),
      calls: calls
        .filter(({ rule }) => rangesWithout(firsts.ofRule(rule), without).length > 0)
        .map(({ rule, to }) => ({ rule, to: idOf(to, taken.has(rule) ? rule : "") })),
    });
  }
  return changed;
}

/** For each called rule, the characters with which it can continue at a place where it could also end. */
function takenCharacters(
  automata: Automata,
  after: ReadonlyMap<string, Ranges>,
  firsts: FirstCharacters,
): ReadonlyMap<string, Ranges> {
  const taken = new Map<string, Ranges>();
  for (const [name, states] of automata) {
    const ways = states.filter((_, at) => endsAt(states, at)).flatMap((state) => firsts.ofState(state));
    const shared = sharedRanges(rangesOf(ways), after.get(name) ?? []);
    if (shared.length > 0) taken.set(name, shared);
  }
  // If a rule ends with a call, the characters that are forbidden after the call are forbidden after the rule as well.
  grow(automata, taken, (name, next, rule) => (next.isEnd ? { rule: name, ranges: taken.get(rule) ?? [] } : null));
  return taken;
}

/** The characters that can follow a text of each called rule. */
function charactersAfter(automata: Automata, firsts: FirstCharacters): ReadonlyMap<string, Ranges> {
  const after = new Map<string, Ranges>();
  grow(automata, after, (name, next, rule) => {
    const ofCaller = next.isEnd ? (after.get(name) ?? []) : [];
    return { rule, ranges: rangesOf([...firsts.ofState(next), ...ofCaller]) };
  });
  return after;
}

/** Adds the ranges that `yieldOf` returns for each call, until nothing is added. `next`: the state after the call. */
function grow(
  automata: Automata,
  sets: Map<string, Ranges>,
  yieldOf: (
    caller: string,
    next: AutomatonState,
    rule: string,
  ) => { readonly rule: string; readonly ranges: Ranges } | null,
): void {
  const work = new WorkBudget(workMax);
  for (let isDone = false; !isDone; ) {
    isDone = true;
    for (const [caller, states] of automata) {
      for (const { rule: called, to } of states.flatMap(({ calls }) => calls)) {
        const next = states[to];
        const found = next === undefined ? null : yieldOf(caller, next, called);
        work.spend(1 + (found?.ranges.length ?? 0));
        if (found === null || rangesWithout(found.ranges, sets.get(found.rule) ?? []).length === 0) continue;
        sets.set(found.rule, rangesOf([...(sets.get(found.rule) ?? []), ...found.ranges]));
        isDone = false;
      }
    }
  }
}

/** The characters with which the texts of rules, and the texts from a state on, can begin. */
class FirstCharacters {
  readonly #automata: Automata;
  readonly #ofRules = new Map<string, Ranges | "open">();

  constructor(automata: Automata) {
    this.#automata = automata;
  }

  ofRule(name: string): Ranges {
    const known = this.#ofRules.get(name);
    if (known === "open") throw new PatternUnsupported(`the rule '${name}' begins with itself (left recursion)`);
    if (known !== undefined) return known;
    this.#ofRules.set(name, "open");
    const [start] = this.#automata.get(name) ?? [];
    const ranges = start === undefined ? [] : this.ofState(start);
    this.#ofRules.set(name, ranges);
    return ranges;
  }

  ofState({ sets, calls }: AutomatonState): Ranges {
    return rangesOf([...sets.flatMap(({ ranges }) => ranges), ...calls.flatMap(({ rule }) => this.ofRule(rule))]);
  }
}
