import { Role } from "../../../gen/unified/inference/v1/chat_pb.js";
import { InferenceService } from "../../../gen/unified/inference/v1/inference_service_pb.js";
import { printable } from "../../lib/display-text.js";
import { type CliIo, CommandError } from "../command-line/cli-io.js";
import type { CommandOptions } from "./load-for-command.js";
import {
  callerTarget,
  explained,
  rejectedCredential,
  type ServiceTarget,
  serviceClient,
  unexpectedAnswer,
} from "./service-client.js";

/** `uis run MODEL "prompt"`: streams the answer as text, or prints the chat completion object. */
export async function run(io: CliIo, model: string, prompt: string, options: CommandOptions): Promise<void> {
  const target = await callerTarget(io, options);
  if (options.json) io.stdout.write(`${await explained(target, completionObject(target, model, prompt))}\n`);
  else await explained(target, streamText(io, target, model, prompt));
}

async function streamText(io: CliIo, target: ServiceTarget, model: string, prompt: string): Promise<void> {
  const messages = [{ role: Role.USER, content: [{ part: { case: "text" as const, value: prompt } }] }];
  // Control characters must not reach a terminal; a file or a pipe gets the text unchanged.
  const show = io.stdout.isTTY ? printable : (text: string) => text;
  const answers = serviceClient(InferenceService, target).streamChatCompletion({ params: { model, messages } });
  for await (const { chunk } of answers) {
    for (const { delta } of chunk?.choices ?? []) io.stdout.write(show(delta?.content ?? ""));
  }
  io.stdout.write("\n");
}

/** The response of the REST API, unchanged. */
async function completionObject(target: ServiceTarget, model: string, prompt: string): Promise<string> {
  const { url, credential } = target;
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${credential}`, "content-type": "application/json" },
    body: JSON.stringify({ model, messages: [{ role: "user", content: prompt }] }),
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
    // E.g. a proxy's page: the status suffices.
    return null;
  }
}
