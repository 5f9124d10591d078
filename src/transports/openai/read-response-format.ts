import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { type ResponseFormat, ResponseFormatSchema } from "../../../gen/unified/inference/v1/chat_pb.js";
import { type JsonObject, unknownValue } from "./json-object.js";

type FormatInit = MessageInitShape<typeof ResponseFormatSchema>;

/** The form that the text must have; undefined: free text. */
export function readResponseFormat(body: JsonObject): ResponseFormat | undefined {
  const format = body.object("response_format");
  return format === undefined ? undefined : create(ResponseFormatSchema, readFormat(format));
}

function readFormat(format: JsonObject): FormatInit {
  const type = format.requiredString("type");
  switch (type) {
    case "text":
      return { format: { case: "text", value: {} } };
    case "json_object":
      return { format: readJsonObject(format) };
    case "json_schema":
      return { format: readJsonSchema(format.requiredObject("json_schema")) };
    default:
      throw unknownValue("response_format.type", type, ["text", "json_object", "json_schema"]);
  }
}

/** llama.cpp's form puts a schema right beside `json_object` (RF-7). */
function readJsonObject(format: JsonObject): NonNullable<FormatInit["format"]> {
  const schemaJson = format.objectAsText("schema");
  if (schemaJson === undefined) return { case: "jsonObject", value: {} };
  return { case: "jsonSchema", value: { name: "json_object", schemaJson } };
}

function readJsonSchema(schema: JsonObject): NonNullable<FormatInit["format"]> {
  return {
    case: "jsonSchema",
    value: {
      name: schema.requiredString("name"),
      description: schema.string("description"),
      schemaJson: schema.objectAsText("schema"),
      strict: schema.boolean("strict"),
    },
  };
}
