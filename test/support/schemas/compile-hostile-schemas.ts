import { getLlama, LlamaGrammar, LlamaLogLevel } from "node-llama-cpp";
import { responseGrammar } from "../../../src/engines/llama/structure/response-grammar.js";
import { SchemaUnsupported } from "../../../src/engines/llama/structure/schema-document.js";
import { hostileSchemas } from "./hostile-schemas.js";
import { randomSchema } from "./random-schema.js";

/**
 * Program of a child process: compiles hostile and random schemas in both modes, passes each grammar to the engine's own
 * parser and reports each result to its parent. A crash of the parser ends only this process.
 */
export interface CompiledSchema {
  readonly json: string;
  readonly strict: boolean;
  readonly outcome: "accepted" | "refused" | string;
  /** Processor time of our compiler with the check, and of the engine's parser. */
  readonly compileMs: number;
  readonly parseMs: number;
}

const randomSchemas = Number(process.argv[2]);
const llama = await getLlama({
  build: "never",
  gpu: false,
  skipDownload: true,
  logLevel: LlamaLogLevel.disabled,
});
const random = Array.from({ length: randomSchemas }, (_, seed) => randomSchema(seed).schema);
for (const schema of [...hostileSchemas(), ...random]) {
  for (const strict of [true, false]) process.send?.(compiled(JSON.stringify(schema), strict));
}
process.disconnect();

function compiled(json: string, strict: boolean): CompiledSchema {
  const startedAt = cpuMs();
  let gbnf: string;
  try {
    gbnf = responseGrammar({ type: "json_schema", schemaJson: json, strict }).gbnf;
  } catch (error) {
    const outcome = error instanceof SchemaUnsupported ? "refused" : String(error);
    return { json, strict, outcome, compileMs: cpuMs() - startedAt, parseMs: 0 };
  }
  const compiledAt = cpuMs();
  let outcome = "accepted";
  try {
    new LlamaGrammar(llama, { grammar: gbnf });
  } catch (error) {
    outcome = String(error);
  }
  return { json, strict, outcome, compileMs: compiledAt - startedAt, parseMs: cpuMs() - compiledAt };
}

/** Processor time of this process, independent of other load on the machine. */
function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}
