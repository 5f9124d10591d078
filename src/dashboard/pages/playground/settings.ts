/** What is set beside the conversation, as it is typed. Empty: not sent, so that the model's default holds. */
import type { ToolJson } from "../../../../gen/unified/inference/v1/chat_pb.js";

export interface Settings {
  readonly system: string;
  readonly temperature: string;
  readonly topP: string;
  readonly maxTokens: string;
  /** One text a line. */
  readonly stop: string;
  /** JSON as OpenAI has it: `[{"type":"function","function":{…}}]`. */
  readonly tools: string;
}

export const noSettings: Settings = { system: "", temperature: "", topP: "", maxTokens: "256", stop: "", tools: "" };

/** What a way of generating text is given. */
export interface ModeProps {
  readonly model: string;
  readonly settings: Settings;
}

/** What all ways of generating text share; absent where nothing is typed. */
export interface Sampling {
  readonly temperature?: number;
  readonly topP?: number;
  readonly maxTokens?: number;
  readonly stop?: string[];
}

/** Throws what cannot be read. */
export function samplingOf({ temperature, topP, maxTokens, stop }: Settings): Sampling {
  const stops = stop.split("\n").filter((line) => line !== "");
  return {
    ...numberIn("temperature", "Temperature", temperature),
    ...numberIn("topP", "Top p", topP),
    ...numberIn("maxTokens", "Tokens at most", maxTokens),
    ...(stops.length === 0 ? {} : { stop: stops }),
  };
}

function numberIn<K extends string>(key: K, label: string, text: string): Partial<Record<K, number>> {
  if (text.trim() === "") return {};
  const value = Number(text);
  if (Number.isNaN(value)) throw new Error(`${label} is a number.`);
  return { [key]: value } as Record<K, number>;
}

/** A tool as OpenAI writes it. */
export interface OpenAiTool {
  readonly type: "function";
  readonly function: {
    readonly name: string;
    readonly description?: string;
    readonly parameters?: unknown;
    readonly strict?: boolean;
  };
}

const toolsForm = 'Tools are a JSON list as OpenAI has it: [{"type":"function","function":{"name":"…"}}].';

/** Throws what cannot be read. */
export function toolsOf({ tools }: Settings): readonly OpenAiTool[] {
  if (tools.trim() === "") return [];
  let list: unknown;
  try {
    list = JSON.parse(tools);
  } catch (cause) {
    throw new Error(`The tools are not JSON: ${cause instanceof Error ? cause.message : ""}`, { cause });
  }
  if (Array.isArray(list) && list.every(isTool)) return list;
  throw new Error(toolsForm);
}

function isTool(value: unknown): value is OpenAiTool {
  const called = (value as { function?: { name?: unknown } } | null)?.function;
  return typeof called?.name === "string";
}

/** The same tool in the form of the contract. */
export function contractTool({ function: definition }: OpenAiTool): ToolJson {
  const { name, description, parameters, strict } = definition;
  return {
    function: {
      name,
      ...(description === undefined ? {} : { description }),
      ...(parameters === undefined ? {} : { parametersJson: JSON.stringify(parameters) }),
      ...(strict === undefined ? {} : { strict }),
    },
  };
}
