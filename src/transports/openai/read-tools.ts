import { create, type MessageInitShape } from "@bufbuild/protobuf";
import {
  ToolChoice_Mode as Mode,
  type Tool,
  type ToolChoice,
  ToolChoiceSchema,
  ToolSchema,
} from "../../../gen/unified/inference/v1/chat_pb.js";
import { ServiceError } from "../../domain/call/service-error.js";
import { type JsonObject, unknownValue, wrongType } from "./json-object.js";

type ToolChoiceInit = MessageInitShape<typeof ToolChoiceSchema>;

const modes: ReadonlyMap<string, Mode> = new Map([
  ["none", Mode.NONE],
  ["auto", Mode.AUTO],
  ["required", Mode.REQUIRED],
]);
const allowedModes: ReadonlyMap<string, Mode> = new Map([
  ["auto", Mode.AUTO],
  ["required", Mode.REQUIRED],
]);

/** The tools that are offered; an empty list is none (TOOL-2). */
export function readTools(body: JsonObject): Tool[] {
  return (body.objects("tools") ?? []).map((tool) => {
    refuseOtherKinds(tool, ["function"]);
    const definition = tool.requiredObject("function");
    return create(ToolSchema, {
      function: {
        name: definition.requiredString("name"),
        description: definition.string("description"),
        parametersJson: definition.objectAsText("parameters"),
        strict: definition.boolean("strict"),
      },
    });
  });
}

/** Which tools may or must be called. Whether the named ones are offered is for the core to say. */
export function readToolChoice(body: JsonObject): ToolChoice | undefined {
  const value = body.value("tool_choice");
  if (typeof value === "string") return choiceOf({ case: "mode", value: readMode(modes, value, "tool_choice") });
  if (typeof value !== "object" && value !== undefined) throw wrongType("tool_choice", "a string or an object", value);
  const choice = body.object("tool_choice");
  return choice === undefined ? undefined : choiceOf(readChoiceObject(choice));
}

function choiceOf(choice: NonNullable<ToolChoiceInit["choice"]>): ToolChoice {
  return create(ToolChoiceSchema, { choice });
}

function readChoiceObject(choice: JsonObject): NonNullable<ToolChoiceInit["choice"]> {
  const type = refuseOtherKinds(choice, ["function", "allowed_tools"]);
  if (type === "function") return { case: "function", value: choice.requiredObject("function").requiredString("name") };
  const allowed = choice.requiredObject("allowed_tools");
  const mode = readMode(allowedModes, allowed.requiredString("mode"), allowed.pathOf("mode"));
  const names = (allowed.objects("tools") ?? []).map((tool) => {
    refuseOtherKinds(tool, ["function"]);
    return tool.requiredObject("function").requiredString("name");
  });
  return { case: "allowed", value: { mode, names } };
}

function readMode(among: ReadonlyMap<string, Mode>, name: string, path: string): Mode {
  const mode = among.get(name);
  if (mode === undefined) throw unknownValue(path, name, [...among.keys()]);
  return mode;
}

/** The `type` of a tool or choice. Custom tools are known, but not offered here (TOOL-7). */
function refuseOtherKinds(tool: JsonObject, supported: readonly string[]): string {
  const type = tool.requiredString("type");
  if (supported.includes(type)) return type;
  const path = tool.pathOf("type");
  if (type === "custom") {
    throw new ServiceError(
      "unsupported_value",
      `Unsupported value 'custom' for '${path}': only functions are offered.`,
      {
        param: path,
      },
    );
  }
  throw unknownValue(path, type, supported);
}
