import type { UpstreamKind } from "../../domain/engine/upstream.js";
import { UsageError } from "../command-line/cli-io.js";
import { examineUpstream } from "../compose/upstream-check.js";
import type { SettingValue } from "../config/environment.js";
import type { Variables } from "../config/expand.js";
import { defineUpstream, nameOf } from "../config/new-upstream.js";
import { ConfigError } from "../config/problem.js";
import { readSecretText } from "../config/secrets.js";
import { upstreamKeyVariable } from "../config/upstream-settings.js";

const from = "--upstream";

/**
 * Settings of the upstream of `uis serve --upstream`, whose models are then discovered: `openai`, with the variables of
 * OpenAI's libraries, `ollama` on this machine, or the base URL of a server, which is queried for its kind. Rejects with
 * UsageError, or with ConfigError for a file with a key that cannot be read.
 */
export async function addedUpstream(variables: Variables, server: string): Promise<readonly SettingValue[]> {
  if (server === "openai") return openAi(variables);
  if (server === "ollama") return settings("ollama", urlAndKind("http://127.0.0.1:11434/v1", "ollama"));
  if (/^https?:\/\//.test(server)) return await serverAt(server);
  throw new UsageError(
    `${from} takes openai, ollama or the base URL of a server such as http://127.0.0.1:8000/v1, not ${server}; ` +
      "add others to upstreams in uis.yaml",
  );
}

function openAi(variables: Variables): readonly SettingValue[] {
  const baseUrl = variables["OPENAI_BASE_URL"];
  const url = { value: baseUrl || "https://api.openai.com/v1", from: baseUrl ? "OPENAI_BASE_URL" : from };
  const set = { url, kind: { value: "openai", from } };
  // Where it is set, the upstream's own variable takes precedence over the setting `key`.
  if (readKey(upstreamKeyVariable("openai"), variables) !== null) return settings("openai", set);
  const key = readKey("OPENAI_API_KEY", variables);
  if (key !== null) return settings("openai", { ...set, key });
  throw new UsageError(`${from} openai needs an API key: set OPENAI_API_KEY, or OPENAI_API_KEY_FILE to a file with it`);
}

/** Null if neither the variable nor its file is set. */
function readKey(name: string, variables: Variables): Given | null {
  const found = readSecretText(name, variables);
  if ("problem" in found) throw new ConfigError([found.problem], null);
  return found.text === null ? null : { value: found.text, from: found.from };
}

async function serverAt(server: string): Promise<readonly SettingValue[]> {
  const { kind: knownKind, url } = definitionOf(server);
  const checked = await examineUpstream(definitionOf(server));
  if ("problem" in checked) {
    const fix = "start the server, correct the address, or add it to upstreams in uis.yaml if it needs a key";
    throw new UsageError(`${from}: ${checked.problem}: ${fix}`);
  }
  const kind = checked.facts.kind ?? knownKind;
  return settings(nameOf(url, kind), urlAndKind(url, kind));
}

function definitionOf(url: string) {
  try {
    return defineUpstream({ url, kind: null, keyFile: null });
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    throw new UsageError(`${from} ${url}: the URL ${error.problems[0]?.message}`, { cause: error });
  }
}

type Given = Pick<SettingValue, "value" | "from">;

function urlAndKind(url: string, kind: UpstreamKind) {
  return { url: { value: url, from }, kind: { value: kind, from } };
}

/** One value for each setting, so that an upstream of that name in the file keeps its other settings. */
function settings(name: string, values: Readonly<Record<string, Given>>): readonly SettingValue[] {
  return Object.entries(values).map(([setting, given]) => ({ path: ["upstreams", name, setting], ...given }));
}
