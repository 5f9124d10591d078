import { anyNumber } from "./number-grammar.js";
import { characterBody, gbnfLiteral, memberSeparator, nameSeparator, plainClass } from "./string-grammar.js";

/** Levels that a value without a schema may have: a model that loses itself in brackets comes back. */
const anyDepth = 8;

/** Characters of a property's name that no schema lists, about. */
const nameChars = 64;

/** The parts of JSON that every grammar shares. Each is added when it is first asked for; all return a rule's name. */
export class JsonGrammar {
  readonly #rule: (hint: string, body: string) => string;
  readonly #names = new Map<string, string>();

  constructor(rule: (hint: string, body: string) => string) {
    this.#rule = rule;
  }

  character(): string {
    return this.#once("character", () => characterBody);
  }

  string(): string {
    return this.#once("string", () => `"\\"" ${this.character()}* "\\""`);
  }

  number(): string {
    return this.#once("number", () => anyNumber);
  }

  /** What may follow in a name once it is none of the listed ones. */
  nameRest(): string {
    const plain = this.#once("plain", () => plainClass(""));
    return this.#once("name-rest", () => `${plain}{0,${nameChars}}`);
  }

  value(): string {
    return this.#value(anyDepth);
  }

  object(): string {
    return this.#object(anyDepth);
  }

  #value(depth: number): string {
    return this.#once(`value-${depth}`, () => {
      const scalars = `${this.string()} | ${this.number()} | "true" | "false" | "null"`;
      return depth === 0 ? scalars : `${this.#object(depth)} | ${this.#array(depth)} | ${scalars}`;
    });
  }

  #object(depth: number): string {
    return this.#once(`object-${depth}`, () => {
      const member = `${this.string()} ${gbnfLiteral(nameSeparator)} ${this.#value(depth - 1)}`;
      return listBody("{", this.#rule("member", member), "}");
    });
  }

  #array(depth: number): string {
    return this.#once(`array-${depth}`, () => listBody("[", this.#value(depth - 1), "]"));
  }

  #once(name: string, body: () => string): string {
    const known = this.#names.get(name);
    if (known !== undefined) return known;
    const added = this.#rule(name, body());
    this.#names.set(name, added);
    return added;
  }
}

function listBody(open: string, member: string, close: string): string {
  const more = `(${gbnfLiteral(memberSeparator)} ${member})*`;
  return `${gbnfLiteral(open)} (${member} ${more})? ${gbnfLiteral(close)}`;
}
