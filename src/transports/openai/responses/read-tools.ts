import { create, type MessageInitShape } from "@bufbuild/protobuf";
import {
  ToolChoice_Mode as Mode,
  type Tool,
  type ToolChoice,
  ToolChoiceSchema,
  ToolSchema,
} from "../../../../gen/unified/inference/v1/chat_pb.js";
import { refuse } from "../../../domain/call/service-error.js";
import { jsonString } from "../../../lib/json-string.js";
import { type JsonObject, unknownValue, wrongType } from "../../http/json-object.js";

/** The tools of a request that the model may see, and which of them it may or must call. */
export interface OfferedTools {
  readonly tools: Tool[];
  /** Index in the request of each of `tools`; the request also has skipped tools. */
  readonly positions: readonly number[];
  readonly toolChoice: ToolChoice | undefined;
  /** JSON of the tools and of the tool choice for the answer, which repeats them. */
  readonly toolsJson: string;
  readonly toolChoiceJson: string;
}

/** Tools that agents list in every request, but that do not run on this service. They are hidden from the model (RSP-3). */
const skippedTypes = /^(?:custom|namespace|local_shell|web_search(?:_preview)?(?:_\d{4}_\d{2}_\d{2})?)$/;
/** Tools that the service would have to run itself. They are refused: omitting one would change the answer silently. */
const refusedTypes = /^(?:file_search|computer(?:_use(?:_preview)?)?|code_interpreter|image_generation|mcp)$/;

/** Reads `tools` and `tool_choice`. In this API a tool has its fields directly, without `function`. Throws ServiceError. */
export function readTools(body: JsonObject): OfferedTools {
  const sent = body.objects("tools") ?? [];
  const offered = sent.flatMap((tool, position) => (isOffered(tool) ? [{ tool, position }] : []));
  const skipped = sent.filter((tool) => tool.string("type") !== "function");
  const read = offered.map(({ tool }) => readFunction(tool));
  return {
    tools: read.map(({ message }) => message),
    positions: offered.map(({ position }) => position),
    toolChoice: readChoice(body, skipped, offered.length > 0),
    toolsJson: `[${read.map(({ json }) => json).join(",")}]`,
    toolChoiceJson: body.value("tool_choice") === undefined ? '"auto"' : choiceJson(body),
  };
}

/** Whether the model sees a tool: false for a skipped one. Throws for a tool that must not be omitted. */
function isOffered(tool: JsonObject): boolean {
  const type = tool.requiredString("type");
  if (type === "function") return true;
  if (skippedTypes.test(type)) return false;
  const path = tool.pathOf("type");
  if (refusedTypes.test(type)) refuseTool(path, type, "this service does not run such tools");
  return unknownValue(path, type, ["function", "custom", "namespace", "web_search", "local_shell"]);
}

function refuseTool(path: string, type: string, why: string): never {
  refuse("unsupported_value", path, `Unsupported value '${type}' for '${path}': ${why}.`);
}

/** Reads a function. The parameters keep their source text, because serializing a parsed schema could change it. */
function readFunction(tool: JsonObject): { readonly message: Tool; readonly json: string } {
  const name = tool.requiredString("name");
  const description = tool.string("description");
  const parametersJson = tool.objectAsText("parameters");
  const strict = tool.boolean("strict");
  const shown = description === undefined ? "null" : jsonString(description);
  return {
    message: create(ToolSchema, { function: { name, description, parametersJson, strict } }),
    json:
      `{"type":"function","name":${jsonString(name)},"description":${shown},` +
      `"parameters":${parametersJson ?? "null"},"strict":${strict ?? false}}`,
  };
}

const modes: ReadonlyMap<string, Mode> = new Map([
  ["none", Mode.NONE],
  ["auto", Mode.AUTO],
  ["required", Mode.REQUIRED],
]);
const allowedModes: ReadonlyMap<string, Mode> = new Map([
  ["auto", Mode.AUTO],
  ["required", Mode.REQUIRED],
]);

type Choice = NonNullable<MessageInitShape<typeof ToolChoiceSchema>["choice"]>;

/** Reads `tool_choice`, which must not force a tool of `skipped`. The core checks that named functions are in `tools`. */
function readChoice(body: JsonObject, skipped: readonly JsonObject[], hasTools: boolean): ToolChoice | undefined {
  const value = body.value("tool_choice");
  if (value === undefined) return undefined;
  if (typeof value === "string") {
    const mode = readMode(modes, value, "tool_choice");
    const [first] = skipped;
    if (mode === Mode.REQUIRED && !hasTools && first !== undefined) refuseForced(first, skipped);
    return create(ToolChoiceSchema, { choice: { case: "mode", value: mode } });
  }
  const choice = body.object("tool_choice");
  if (choice === undefined) wrongType("tool_choice", "a string or an object", value);
  return create(ToolChoiceSchema, { choice: readChoiceObject(choice, skipped) });
}

function readChoiceObject(choice: JsonObject, skipped: readonly JsonObject[]): Choice {
  const type = choice.requiredString("type");
  if (type === "function") return { case: "function", value: choice.requiredString("name") };
  if (type === "allowed_tools") return readAllowed(choice, skipped);
  if (skippedTypes.test(type)) refuseForced(choice, skipped);
  const path = choice.pathOf("type");
  if (refusedTypes.test(type)) refuseTool(path, type, "this service does not run such tools");
  return unknownValue(path, type, ["function", "allowed_tools"]);
}

/** Reads the allowed tools. Skipped tools may be among them unless the model must call one of the tools. */
function readAllowed(choice: JsonObject, skipped: readonly JsonObject[]): Choice {
  const mode = readMode(allowedModes, choice.requiredString("mode"), choice.pathOf("mode"));
  const allowed = choice.objects("tools") ?? [];
  const names = allowed.filter(isOffered).map((tool) => tool.requiredString("name"));
  const [first] = allowed;
  if (names.length === 0 && first !== undefined) {
    if (mode === Mode.REQUIRED) refuseForced(first, skipped);
    return { case: "mode", value: Mode.NONE };
  }
  return { case: "allowed", value: { mode, names } };
}

/** Refuses a choice that forces a skipped tool. The error names that tool, or the choice if `tools` does not have it. */
function refuseForced(forced: JsonObject, skipped: readonly JsonObject[]): never {
  const type = forced.requiredString("type");
  const tool = skipped.find((other) => other.string("type") === type) ?? forced;
  refuseTool(tool.pathOf("type"), type, "this service does not run such tools, but 'tool_choice' forces this one");
}

function readMode(among: ReadonlyMap<string, Mode>, name: string, path: string): Mode {
  const mode = among.get(name);
  if (mode === undefined) unknownValue(path, name, [...among.keys()]);
  return mode;
}

function choiceJson(body: JsonObject): string {
  const value = body.value("tool_choice");
  return typeof value === "string" ? jsonString(value) : (body.objectAsText("tool_choice") ?? '"auto"');
}
