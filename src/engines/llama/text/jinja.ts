import * as jinja from "@huggingface/jinja";

/** A value while a template runs. */
export interface JinjaValue {
  readonly type: string;
  readonly value: unknown;
}

export interface JinjaEnvironment {
  /** Declares a variable; throws where the name is taken. */
  set(name: string, value: unknown): unknown;
}

export interface JinjaInterpreter {
  run(program: JinjaProgram): JinjaValue;
  evaluate(statement: unknown, environment: JinjaEnvironment): JinjaValue;
}

/** A parsed template; to us it is opaque. */
export type JinjaProgram = { readonly type: string };

/**
 * The parts of @huggingface/jinja below its `Template`. Its declaration files import each other without file names, which
 * module resolution of Node does not follow, so their types are stated here.
 */
export const Environment: new () => JinjaEnvironment = jinja.Environment;
export const Interpreter: new (environment: JinjaEnvironment) => JinjaInterpreter = jinja.Interpreter;
const tokenize: (source: string, options: object) => readonly unknown[] = jinja.tokenize;
const parse: (tokens: readonly unknown[]) => JinjaProgram = jinja.parse;

/** Throws where the text is no template. Blocks eat the white space around them as all chat templates expect. */
export function parseTemplate(source: string): JinjaProgram {
  return parse(tokenize(source, { lstrip_blocks: true, trim_blocks: true }));
}
