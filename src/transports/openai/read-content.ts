import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { type ContentPart, ContentPartSchema } from "../../../gen/unified/inference/v1/chat_pb.js";
import { ServiceError } from "../../domain/call/service-error.js";
import { type JsonObject, unknownValue, wrongType } from "./json-object.js";

type ContentInit = MessageInitShape<typeof ContentPartSchema>;

/** The content of a message: a text is a list of one part; absent is a list of none. */
export function readContent(message: JsonObject): ContentPart[] {
  const content = message.value("content");
  if (content === undefined) return [];
  if (typeof content === "string") return [textPart(content)];
  const path = message.pathOf("content");
  if (!Array.isArray(content)) throw wrongType(path, "a string or an array of parts", content);
  const parts = message.objects("content") ?? [];
  if (parts.length === 0) {
    // Said here because the message cannot tell it from an absent content, which is legal beside tool calls.
    throw new ServiceError("empty_array", `Invalid '${path}': at least 1 part is needed, but the array is empty.`, {
      param: path,
    });
  }
  return parts.map((part) => create(ContentPartSchema, { part: readPart(part) }));
}

/** A literal, because nearly every message is one text. */
function textPart(text: string): ContentPart {
  return { $typeName: "unified.inference.v1.ContentPart", part: { case: "text", value: text } };
}

const partTypes = ["text", "image_url", "input_audio", "file", "refusal"];

function readPart(part: JsonObject): NonNullable<ContentInit["part"]> {
  const type = part.requiredString("type");
  switch (type) {
    case "text":
      return { case: "text", value: part.requiredString("text") };
    case "refusal":
      return { case: "refusal", value: part.requiredString("refusal") };
    case "image_url": {
      const image = part.requiredObject("image_url");
      return { case: "imageUrl", value: { url: image.requiredString("url"), detail: image.string("detail") } };
    }
    case "input_audio": {
      const audio = part.requiredObject("input_audio");
      return {
        case: "inputAudio",
        value: { data: audio.requiredString("data"), format: audio.requiredString("format") },
      };
    }
    case "file": {
      const file = part.requiredObject("file");
      return {
        case: "file",
        value: {
          filename: file.string("filename"),
          fileData: file.string("file_data"),
          fileId: file.string("file_id"),
        },
      };
    }
    default:
      throw unknownValue(part.pathOf("type"), type, partTypes);
  }
}
