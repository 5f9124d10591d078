import {
  DocumentedSchemas,
  documentedOperations,
  type JsonSchema,
  lastName,
  type OpenApiDocument,
  type OperationObject,
  type ResponseObject,
  responseOf,
} from "./openapi-document.js";

/** An answer of a running service. */
export interface SeenAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** Compares answers with the document. */
export class DocumentedAnswers {
  /** `operationId status media-type` of each response compared so far. */
  readonly seen = new Set<string>();
  readonly #document: OpenApiDocument;
  readonly #schemas: DocumentedSchemas;

  constructor(document: OpenApiDocument) {
    this.#document = document;
    this.#schemas = new DocumentedSchemas(document);
  }

  /** Differences between an answer and the document; empty if there are none. */
  faults(operationId: string, { status, headers, text }: SeenAnswer): readonly unknown[] {
    const found = documentedOperations(this.#document).find(({ operation }) => operation.operationId === operationId);
    if (found === undefined) return [`there is no operation ${operationId}`];
    const response = responseOf(this.#document, found.operation, status);
    if (response === undefined) return [`${operationId} may not answer ${status}: ${text}`];
    const mediaType = headers.get("content-type")?.split(";")[0] ?? "";
    this.seen.add(`${operationId} ${status} ${mediaType}`);
    return [...this.#bodyFaults(response, mediaType, text), ...this.#headerFaults(response, headers)];
  }

  /** Documented successful responses of which no answer has been compared. */
  unseenSuccesses(): readonly string[] {
    const successes = documentedOperations(this.#document).flatMap(({ operation }) => mediaTypesOf(operation));
    return successes.filter((success) => !this.seen.has(success));
  }

  #bodyFaults({ content = {} }: ResponseObject, mediaType: string, text: string): readonly unknown[] {
    const schema = content[mediaType]?.schema;
    if (schema === undefined) return [`${mediaType} is not documented: ${text}`];
    if (mediaType !== "text/event-stream") return this.#valueFaults(schema, JSON.parse(text));
    const chunk = this.#chunkSchema(schema);
    return eventsOf(text).flatMap((data) => [
      ...this.#valueFaults(schema, { data }),
      ...(data === "[DONE]" ? [] : this.#valueFaults(chunk, JSON.parse(data))),
    ]);
  }

  #valueFaults(schema: JsonSchema, value: unknown): readonly unknown[] {
    return this.#schemas.faults(schema, value).map((fault) => ({ ...fault, value }));
  }

  /** Schema of the JSON in an event's data: validators ignore `contentSchema`. */
  #chunkSchema({ $ref }: JsonSchema): JsonSchema {
    const data = this.#document.components.schemas[lastName(String($ref))]?.properties?.["data"];
    const [json] = (data?.["anyOf"] ?? [data]) as readonly JsonSchema[];
    return json?.["contentSchema"] as JsonSchema;
  }

  #headerFaults({ headers: documented = {} }: ResponseObject, headers: Headers): readonly unknown[] {
    return Object.entries(documented).flatMap(([name, { $ref = "" }]): readonly unknown[] => {
      const header = this.#document.components.headers[lastName($ref)];
      if (header === undefined) return [`${name} is not described`];
      const text = headers.get(name);
      if (text === null) return header.required === true ? [`${name} is missing`] : [];
      const value = header.schema.type === "integer" ? Number(text) : text;
      return this.#schemas.faults(header.schema, value).map((fault) => ({ ...fault, header: name, text }));
    });
  }
}

function mediaTypesOf({ operationId, responses }: OperationObject): readonly string[] {
  return Object.keys(responses["200"]?.content ?? {}).map((mediaType) => `${operationId} 200 ${mediaType}`);
}

/** The data of a stream's events, without its comments. */
function eventsOf(text: string): readonly string[] {
  return text
    .split("\n")
    .filter((line) => line.startsWith("data: "))
    .map((line) => line.slice("data: ".length));
}
