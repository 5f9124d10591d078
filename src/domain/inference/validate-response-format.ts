import type { ResponseFormat, ResponseFormat_JsonSchema } from "../../../gen/unified/inference/v1/chat_pb.js";
import type { ServiceLimits } from "../../contract/limits.js";
import { checkFunctionName, refuse } from "../call/field-checks.js";
import { checkSchema } from "./schema-budget.js";

/** The rules of response_format. */
export function validateResponseFormat(responseFormat: ResponseFormat | undefined, limits: ServiceLimits): void {
  const format = responseFormat?.format;
  if (format === undefined) return;
  if (format.case === undefined) {
    refuse(
      "invalid_value",
      "response_format",
      "'response_format' must be 'text', 'json_object' or 'json_schema', but none is set.",
    );
  }
  if (format.case === "jsonSchema") validateJsonSchema(format.value, limits);
}

function validateJsonSchema({ name, schemaJson }: ResponseFormat_JsonSchema, limits: ServiceLimits): void {
  checkFunctionName(name, "response_format.json_schema.name");
  if (schemaJson === undefined) return;
  const place = { code: "invalid_json_schema", param: "response_format" } as const;
  if (schemaJson.length > limits.schemaCharsMax) {
    refuse(
      place.code,
      place.param,
      `The JSON Schema of 'response_format' may have ${limits.schemaCharsMax} characters, but has ${schemaJson.length}.`,
    );
  }
  checkSchema(schemaJson, place);
}
