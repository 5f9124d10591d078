import { CatalogService } from "../../../gen/unified/catalog/v1/catalog_service_pb.js";
import { InferenceService } from "../../../gen/unified/inference/v1/inference_service_pb.js";
import { errorText, printable } from "../../lib/display-text.js";
import { type AskModel, chat } from "../chat/chat.js";
import { Conversation } from "../chat/conversation.js";
import type { Sampling } from "../chat/sampling.js";
import { type CliIo, CommandError, UsageError } from "../command-line/cli-io.js";
import type { CommandOptions } from "./load-for-command.js";
import {
  callerTarget,
  explained,
  rejectedCredential,
  type ServiceTarget,
  serviceClient,
  toCommandError,
  unexpectedAnswer,
} from "./service-client.js";

interface RunOptions extends CommandOptions, Sampling {
  readonly system?: string;
}

/**
 * `uis run MODEL "prompt"`: streams the answer as text, or prints the chat completion object. Without a prompt it is a chat
 * on a terminal; elsewhere it reads the prompt from stdin.
 */
export async function run(io: CliIo, model: string, prompt: string | undefined, options: RunOptions): Promise<void> {
  const { system = null, temperature, topP, maxTokens, seed } = options;
  const given = Object.entries({ temperature, topP, maxTokens, seed }).filter(([, value]) => value !== undefined);
  const conversation = new Conversation(model, system, Object.fromEntries(given));
  if (prompt === undefined && io.stdin.isTTY === true) {
    if (options.json === true || io.stdout.isTTY !== true) throw missingPrompt();
    await runChat(io, conversation, options);
    return;
  }
  const question = prompt ?? (await readPrompt(io));
  const target = await callerTarget(io, options);
  if (options.json) io.stdout.write(`${await explained(target, completionObject(target, conversation, question))}\n`);
  else await explained(target, streamText(io, target, conversation, question));
}

function missingPrompt(): UsageError {
  return new UsageError(
    'missing prompt: pass it as an argument or on stdin; on a terminal, run without both is a chat; see "uis run --help"',
  );
}

const promptBytesMax = 16 * 1024 * 1024;

async function readPrompt(io: CliIo): Promise<string> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of io.stdin) {
    bytes += part.length;
    if (bytes > promptBytesMax) throw new UsageError("more than 16 MiB on stdin: shorten the prompt");
    parts.push(part);
  }
  const prompt = Buffer.concat(parts).toString("utf8").trim();
  if (prompt === "") throw missingPrompt();
  return prompt;
}

async function runChat(io: CliIo, conversation: Conversation, options: RunOptions): Promise<void> {
  const target = await callerTarget(io, options);
  // An unknown model is reported before the first message.
  await explained(target, serviceClient(CatalogService, target).getModel({ id: conversation.model }));
  const explain = (error: unknown) => errorText(toCommandError(error, target));
  await chat({ io, ask: askOf(target), explain, now: () => performance.now() }, conversation);
}

function askOf(target: ServiceTarget): AskModel {
  const client = serviceClient(InferenceService, target);
  return async function* (params, signal) {
    for await (const { chunk } of client.streamChatCompletion({ params }, { signal })) yield chunk;
  };
}

async function streamText(io: CliIo, target: ServiceTarget, asked: Conversation, prompt: string): Promise<void> {
  // For a terminal control characters are removed; a file or a pipe gets the text unchanged.
  const show = io.stdout.isTTY ? printable : (text: string) => text;
  const { signal } = new AbortController();
  for await (const chunk of askOf(target)(asked.params(prompt), signal)) {
    for (const { delta } of chunk?.choices ?? []) io.stdout.write(show(delta?.content ?? ""));
  }
  io.stdout.write("\n");
}

/** The response of the REST API, unchanged. */
async function completionObject(target: ServiceTarget, asked: Conversation, prompt: string): Promise<string> {
  const { url, credential } = target;
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${credential}`, "content-type": "application/json" },
    body: JSON.stringify(asked.body(prompt)),
  });
  const body = await response.text();
  if (response.ok) return body;
  const message = messageOf(body);
  if (message === null) throw unexpectedAnswer(url, response.status);
  throw response.status === 401 ? rejectedCredential(target, message) : new CommandError(message);
}

function messageOf(body: string): string | null {
  try {
    const { error } = JSON.parse(body) as { error?: { message?: unknown } };
    return typeof error?.message === "string" ? error.message : null;
  } catch {
    // The body is not an error of this service, e.g. a page of a proxy: the message then has only the status.
    return null;
  }
}
