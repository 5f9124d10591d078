import { writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { errorText } from "../../lib/display-text.js";
import { nearestName } from "../config/problem.js";
import type { Conversation } from "./conversation.js";
import { parseSetting, samplingSettings } from "./sampling.js";

/** The chat shows the text, or ends. */
type Outcome = { readonly text: string } | { readonly isEnd: true };

const helpText = [
  "/set                 show the settings",
  "/set NAME VALUE      change one: temperature, top_p, max_tokens, seed",
  "/set NAME            the model's default again",
  "/system TEXT         set the system message; without TEXT, remove it",
  "/clear               forget the messages so far",
  "/save FILE           save the conversation as the body of a chat request",
  "/bye                 end the chat; so does Ctrl-D",
  "",
  'A message of several lines begins and ends with """.',
  "Ctrl-C stops the answer. Arrow Up brings back earlier lines.",
].join("\n");

/** The commands that Tab completes. */
export const commandWords: readonly string[] = ["/bye", "/clear", "/help", "/save ", "/set ", "/system "];

/** Runs the lines of a chat that begin with `/`. */
export class SlashCommands {
  readonly #conversation: Conversation;
  readonly #cwd: string;
  /** Files that this chat has written, and may replace. */
  readonly #saved = new Set<string>();

  constructor(conversation: Conversation, cwd: string) {
    this.#conversation = conversation;
    this.#cwd = cwd;
  }

  /** Never rejects: for a wrong command the outcome is an explanation. */
  async run(line: string): Promise<Outcome> {
    const [, name = "", rest = ""] = /^\/(\S*)\s*([\s\S]*)$/.exec(line) ?? [];
    const text = rest.trim();
    switch (name) {
      case "set":
        return { text: this.#set(text) };
      case "system":
        return { text: this.#system(text) };
      case "clear":
        this.#conversation.clear();
        return { text: "The messages so far are forgotten." };
      case "save":
        return { text: await this.#save(text) };
      case "help":
      case "?":
        return { text: helpText };
      case "bye":
      case "exit":
      case "quit":
        return { isEnd: true };
      default:
        return { text: unknownText(name) };
    }
  }

  #set(text: string): string {
    const { sampling, system } = this.#conversation;
    if (text === "") {
      const shown = samplingSettings.map(({ field, name, meaning }) => {
        return `${name.padEnd(12)} ${String(sampling[field] ?? "default").padEnd(10)} ${meaning}`;
      });
      return [...shown, `${"system".padEnd(12)} ${system ?? "none"}`].join("\n");
    }
    const [name = "", value, ...more] = text.split(/\s+/);
    const setting = samplingSettings.find((one) => one.name === name);
    if (setting === undefined || more.length > 0) {
      return `Use /set NAME VALUE with one of ${samplingSettings.map((one) => one.name).join(", ")}.`;
    }
    const { [setting.field]: _, ...others } = sampling;
    if (value === undefined) {
      this.#conversation.sampling = others;
      return `${name} is the model's default again.`;
    }
    const parsed = parseSetting(setting, value);
    if (typeof parsed === "string") return `${parsed}.`;
    this.#conversation.sampling = { ...others, [setting.field]: parsed };
    return `${name} is ${parsed}.`;
  }

  #system(text: string): string {
    this.#conversation.system = text === "" ? null : text;
    return text === "" ? "There is no system message." : "The system message is set.";
  }

  /** Replaces only a file that this chat has written. */
  async #save(name: string): Promise<string> {
    if (name === "") return "Use /save FILE.";
    if (this.#conversation.isEmpty) return "There is no message to save yet.";
    const file = resolve(this.#cwd, name);
    const flag = this.#saved.has(file) ? "w" : "wx";
    try {
      await writeFile(file, `${JSON.stringify(this.#conversation.body(), null, 2)}\n`, { flag, mode: 0o600 });
    } catch (error) {
      const exists = error instanceof Error && "code" in error && error.code === "EEXIST";
      return exists ? `${file} exists: choose another name.` : `${file} cannot be written: ${errorText(error)}`;
    }
    this.#saved.add(file);
    return `Saved to ${file}.`;
  }
}

function unknownText(name: string): string {
  const nearest = nearestName(
    name,
    commandWords.map((word) => word.slice(1).trim()),
  );
  const hint = nearest === null ? "" : ` Did you mean /${nearest}?`;
  return `There is no command /${name}.${hint} /help lists the commands; a message that begins with / needs a space before it.`;
}
