import type { TemplateTool } from "../protocol.js";
import { SchemaUnsupported } from "../structure/schema-unsupported.js";

/**
 * The schema of a tool's arguments, which are an object even where the caller's schema forgets to say so or leaves it to
 * the schemas that it combines. Throws SchemaUnsupported where the type of a strict schema rules objects out; one that
 * is not strict then allows any object.
 */
export function argumentsSchema({ function: { parameters, strict } }: TemplateTool): object {
  const type: unknown = Reflect.get(parameters, "type");
  if (type === "object") return parameters;
  if (type === undefined) return { ...parameters, type: "object" };
  if (strict) throw new SchemaUnsupported("", "arguments are an object; set 'type' to \"object\".");
  return { type: "object" };
}
