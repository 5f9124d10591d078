import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { LineCounter, parseDocument } from "yaml";
import { errorText } from "../../../lib/display-text.js";
import { type CliIo, print, UsageError } from "../../command-line/cli-io.js";
import { importLiteLlm } from "../../litellm/import-config.js";
import { summaryLines } from "../../litellm/notes.js";
import { countsLine, renderConfig } from "../../litellm/render-config.js";
import type { CommandOptions } from "../load-for-command.js";

/** Maximum number of aliases: repeated ones could expand to a huge document. */
const maxAliasCount = 1_000;
/** LiteLLM's documents show `model_name: *`, which is not YAML. */
const starsInQuotes = "a name that begins with * must be in quotes";

/**
 * `uis config import litellm FILE`: prints a configuration of this service made from that of a LiteLLM proxy. On stderr it
 * lists the steps that are left to the operator and the settings that were left out. `source` is `litellm`, the only one.
 */
export async function importConfig(io: CliIo, _source: string, file: string, options: CommandOptions): Promise<void> {
  const imported = importLiteLlm(await readYamlFile(resolve(io.cwd, file)));
  if (imported === null) throw new UsageError(`${file} has no model_list: name the configuration of a LiteLLM proxy`);
  const yaml = renderConfig(imported);
  print(io, options, { yaml, notes: imported.notes }, yaml.replace(/\n$/, ""));
  for (const line of [countsLine(imported), ...summaryLines(imported.notes)]) io.stderr.write(`${line}\n`);
}

async function readYamlFile(path: string): Promise<unknown> {
  const text = await readFile(path, "utf8").catch((cause: unknown) => {
    throw new UsageError(`${path} cannot be read: ${errorText(cause)}`, { cause });
  });
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const [error] = document.errors;
  if (error !== undefined) {
    const { line, col } = lines.linePos(error.pos[0]);
    const fix = error.code === "BAD_ALIAS" ? starsInQuotes : "correct it, then import the file again";
    throw new UsageError(`${path}:${line}:${col}: ${error.message}; ${fix}`);
  }
  try {
    return document.toJS({ maxAliasCount });
  } catch (cause) {
    // A document without errors throws only for an alias that is unknown or used too often.
    throw new UsageError(`${path}: ${errorText(cause)}; ${starsInQuotes}`, { cause });
  }
}
