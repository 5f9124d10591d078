import { readFileSync } from "node:fs";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";

export interface JsonSchema {
  readonly [keyword: string]: unknown;
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly properties?: Readonly<Record<string, JsonSchema>>;
}

interface Referring {
  readonly $ref?: string;
}

interface MediaType {
  readonly schema: JsonSchema;
}

export interface ResponseObject {
  readonly headers?: Readonly<Record<string, Referring>>;
  readonly content?: Readonly<Record<string, MediaType>>;
}

export interface OperationObject {
  readonly operationId: string;
  readonly security?: readonly object[];
  readonly requestBody?: { readonly content: Readonly<Record<string, MediaType>> };
  readonly responses: Readonly<Record<string, ResponseObject & Referring>>;
}

export interface HeaderObject {
  readonly required?: boolean;
  readonly schema: JsonSchema;
}

export interface OpenApiDocument {
  readonly info: { readonly version: string };
  readonly paths: Readonly<Record<string, Readonly<Record<string, OperationObject>>>>;
  readonly webhooks: Readonly<Record<string, { readonly post: OperationObject }>>;
  readonly components: {
    readonly schemas: Readonly<Record<string, JsonSchema>>;
    readonly responses: Readonly<Record<string, ResponseObject>>;
    readonly headers: Readonly<Record<string, HeaderObject>>;
  };
}

/** One operation of the document and its location. */
export interface DocumentedOperation {
  /** The HTTP method in capitals. */
  readonly method: string;
  readonly path: string;
  readonly operation: OperationObject;
}

const methods = ["get", "post", "put", "patch", "delete"];

export function readOpenApi(): OpenApiDocument {
  return JSON.parse(readFileSync("docs/openapi.json", "utf8")) as OpenApiDocument;
}

/** All operations of `paths`. */
export function documentedOperations({ paths }: OpenApiDocument): readonly DocumentedOperation[] {
  return Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item)
      .filter(([method]) => methods.includes(method))
      .map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
  );
}

/** A response of an operation with its reference followed; undefined if the status is not documented. */
export function responseOf(
  document: OpenApiDocument,
  operation: OperationObject,
  status: number,
): ResponseObject | undefined {
  const response = operation.responses[String(status)];
  return response?.$ref === undefined ? response : document.components.responses[lastName(response.$ref)];
}

/** The name at the end of a reference. */
export function lastName(reference: string): string {
  return reference.slice(reference.lastIndexOf("/") + 1);
}

/**
 * The document's schemas as a validator of answers. Stricter than the document: objects that list their
 * properties allow no others, so that an undocumented field is found.
 */
export class DocumentedSchemas {
  readonly #ajv = new Ajv2020({
    strict: true,
    strictTypes: false,
    strictRequired: false,
    allErrors: true,
    formats: { "date-time": /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/, uri: true },
  });
  readonly #compiled = new Map<JsonSchema, ValidateFunction>();
  readonly #definitions: unknown;

  constructor({ components }: OpenApiDocument) {
    this.#definitions = closed(components.schemas);
  }

  /** The errors of a value; empty if it matches the schema. */
  faults(schema: JsonSchema, value: unknown): readonly object[] {
    const validate = this.#compiled.get(schema) ?? this.#compile(schema);
    this.#compiled.set(schema, validate);
    validate(value);
    return validate.errors ?? [];
  }

  #compile(schema: JsonSchema): ValidateFunction {
    return this.#ajv.compile({ $defs: this.#definitions, ...(closed(schema) as object) });
  }
}

/** A copy whose objects allow no property that they do not list, and whose references point to `$defs`. */
function closed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(closed);
  if (typeof value !== "object" || value === null) return value;
  const copy = Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, closed(inner)]));
  if (typeof copy["$ref"] === "string") copy["$ref"] = copy["$ref"].replace("#/components/schemas/", "#/$defs/");
  const isListed = copy["type"] === "object" && "properties" in copy && !("additionalProperties" in copy);
  return isListed ? { ...copy, additionalProperties: false } : copy;
}
