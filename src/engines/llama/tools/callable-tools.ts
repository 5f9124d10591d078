import type { TemplateTool } from "../protocol.js";
import { compileCheck } from "../structure/schema-check.js";
import { argumentsSchema } from "./arguments-schema.js";

type Check = (value: unknown) => string | null;

/** The tools that an answer may call, by name. */
export class CallableTools {
  readonly #tools: ReadonlyMap<string, TemplateTool>;
  /** Compiled when a tool is called for the first time; most never are. */
  readonly #checks = new Map<string, Check>();

  constructor(tools: readonly TemplateTool[]) {
    this.#tools = new Map(tools.map((tool) => [tool.function.name, tool]));
  }

  has(name: string): boolean {
    return this.#tools.has(name);
  }

  /** What is wrong with the arguments of a call of a strict tool; null: nothing, or the tool is not strict. */
  check(name: string, args: unknown): string | null {
    const tool = this.#tools.get(name);
    if (tool === undefined || !tool.function.strict) return null;
    const check = this.#checks.get(name) ?? compileCheck(argumentsSchema(tool), "strict");
    this.#checks.set(name, check);
    const wrong = check(args);
    return wrong === null ? null : `the arguments of the call of '${name}' break its schema: ${wrong}`;
  }
}
