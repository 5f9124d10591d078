import { type Context, createContext, Script } from "node:vm";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import { checkedSchema } from "./checked-schema.js";
import { useJsonEquality } from "./json-equality.js";
import { RecentlyMade } from "./recently-made.js";
import type { SchemaMode, SchemaObject } from "./schema-document.js";
import { planSchema } from "./schema-plan.js";
import { SchemaUnsupported } from "./schema-unsupported.js";
import { formatNames, stringFormat } from "./string-format.js";

/** A check that takes longer is given up: a schema that refers to itself can make one value very costly. */
const checkMs = 1_000;

type Check = (value: unknown) => string | null;

const checks = new RecentlyMade<Check>();

/**
 * Compiles a check of finished values against a schema, in lenient mode without the keywords that its grammar gave up.
 * The check returns null for a valid value and otherwise what is wrong with it. Throws SchemaUnsupported where
 * `GrammarBuilder.addSchema` does.
 */
export function compileCheck(schema: unknown, mode: SchemaMode): Check {
  return checks.get([mode, schema], () => newCheck(schema, mode));
}

function newCheck(schema: unknown, mode: SchemaMode): Check {
  const validate = compiled(checkedSchema(planSchema(schema, mode)));
  return (value) => {
    const isValid = validateInTime(validate, value);
    if (isValid === null) return `it could not be checked in ${checkMs} ms`;
    const [error] = validate.errors ?? [];
    return isValid ? null : `${error?.instancePath ?? ""} ${error?.message ?? "is not valid"}`.trim();
  };
}

function compiled(schema: SchemaObject): ValidateFunction {
  try {
    return newAjv().compile(schema);
  } catch (error) {
    // Ajv compiles references inside of each other.
    if (!(error instanceof RangeError)) throw error;
    throw new SchemaUnsupported("", "its references form too long a chain for results to be checked.");
  }
}

function newAjv(): Ajv2020 {
  const ajv = new Ajv2020({
    strict: false,
    validateSchema: false,
    // Inherited names such as `constructor` are no properties of a value.
    ownProperties: true,
    inlineRefs: false,
    addUsedSchema: false,
    logger: false,
  });
  useJsonEquality(ajv);
  for (const name of formatNames) {
    const format = stringFormat(name);
    if (format !== null) ajv.addFormat(name, format.test);
  }
  return ajv;
}

/** Where checks run, so that they can be stopped. Made once, for it costs more than most checks. */
let timed: { readonly script: Script; readonly sandbox: Context } | null = null;

/** Null when it took too long, or needed more stack than there is. */
function validateInTime(validate: ValidateFunction, value: unknown): boolean | null {
  timed ??= { script: new Script("isValid = validate(value)"), sandbox: createContext({}) };
  const { script, sandbox } = timed;
  Object.assign(sandbox, { validate, value, isValid: null });
  try {
    script.runInContext(sandbox, { timeout: checkMs });
    return sandbox["isValid"] === true;
  } catch (error) {
    if (isTimeoutOrOverflow(error)) return null;
    throw error;
  } finally {
    Object.assign(sandbox, { validate: null, value: null });
  }
}

/** The script's own errors belong to the realm of its context, so that their classes are not ours. */
function isTimeoutOrOverflow(error: unknown): boolean {
  if (typeof error !== "object" || error === null) return false;
  const isTimeout = "code" in error && error.code === "ERR_SCRIPT_EXECUTION_TIMEOUT";
  return isTimeout || ("name" in error && error.name === "RangeError");
}
