import { isObject } from "../../lib/json-string.js";
import { formatDuration } from "../config/setting-types.js";
import { ImportedModels, type ModelEntry } from "./imported-models.js";
import { ImportedUpstreams, toMs, type UpstreamEntry } from "./imported-upstreams.js";
import { type Note, reasonOf } from "./notes.js";
import { type Group, groupOf, groupsOf, textOf, variableOf } from "./values.js";

/** A configuration that was made from one of LiteLLM. */
export interface ImportedConfig {
  readonly limits?: { readonly deadline: string };
  readonly upstreams: Readonly<Record<string, UpstreamEntry>>;
  readonly models: readonly ModelEntry[];
}

export interface LiteLlmImport {
  readonly config: ImportedConfig;
  readonly notes: readonly Note[];
  /** Number of entries of model_list. */
  readonly entries: number;
}

/** The default of `limits.deadline`, which a call to an upstream cannot exceed. */
const deadlineDefaultMs = 600_000;

/** Translates a LiteLLM proxy configuration; null if it has no model_list. */
export function importLiteLlm(file: unknown): LiteLlmImport | null {
  const root = groupOf(file);
  if (!Array.isArray(root["model_list"])) return null;
  const notes: Note[] = [];
  const note = (one: Note) => notes.push(one);
  const router = groupOf(root["router_settings"]);
  const library = groupOf(root["litellm_settings"]);
  const upstreams = new ImportedUpstreams(note, {
    totalMs: toMs(router["timeout"] ?? library["request_timeout"]),
    firstByteMs: toMs(router["stream_timeout"]),
  });
  const models = new ImportedModels(upstreams, note);
  const credentials = credentialsOf(root["credential_list"]);
  const entries: readonly unknown[] = root["model_list"];
  for (const [i, entry] of entries.entries()) models.add(`model_list[${i}]`, groupOf(entry), credentials);
  addAliases(models, router["model_group_alias"], note);
  addFallbacks(models, { ...library, ...router }, note);
  noteSections(root, note);
  const { entries: upstreamEntries, longestMs } = upstreams.finish();
  const limits = longestMs > deadlineDefaultMs ? { limits: { deadline: formatDuration(longestMs) } } : {};
  return {
    config: { ...limits, upstreams: upstreamEntries, models: models.finish() },
    notes,
    entries: entries.length,
  };
}

/** The values of credential_list, which entries name with litellm_credential_name. */
function credentialsOf(list: unknown): ReadonlyMap<string, Group> {
  return new Map(
    groupsOf(list).map((one) => [String(one["credential_name"]), groupOf(one["credential_values"])] as const),
  );
}

type AddNote = (note: Note) => void;

function addAliases(models: ImportedModels, aliases: unknown, note: AddNote): void {
  for (const [alias, target] of Object.entries(groupOf(aliases))) {
    const of = textOf(isObject(target) ? target["model"] : target) ?? "";
    const what = `model_group_alias ${alias}`;
    if (!models.has(of)) note({ sort: "left out", what, why: `${of} is not a model of this import`, of: null });
    else if (models.has(alias)) note({ sort: "left out", what, why: "is the name of a model", of: null });
    else {
      models.addAlias(alias, of);
      if (isObject(target) && target["hidden"] === true) {
        const subject = { list: "models", name: alias } as const;
        note({ sort: "changed", what: `hidden of ${what}`, why: "the model is listed", of: subject });
      }
    }
  }
}

/** `fallbacks: [{ model: [other, …] }]` and `default_fallbacks: [other, …]`. */
function addFallbacks(models: ImportedModels, settings: Group, note: AddNote): void {
  const add = (id: string, fallback: unknown, what: string): void => {
    const why = fallbackFault(models, id, textOf(fallback));
    if (why !== null) note({ sort: "left out", what, why, of: models.has(id) ? { list: "models", name: id } : null });
  };
  for (const group of groupsOf(settings["fallbacks"])) {
    for (const [id, list] of Object.entries(group)) {
      for (const one of [list].flat()) add(id, one, `fallbacks of ${id}`);
    }
  }
  for (const one of [settings["default_fallbacks"] ?? []].flat()) {
    for (const id of models.ids()) if (one !== id) add(id, one, "default_fallbacks");
  }
}

/** Adds a fallback; the reason if that is impossible, else null. */
function fallbackFault(models: ImportedModels, id: string, fallback: string | null): string | null {
  if (fallback === null) return "only names of models are supported";
  if (!models.has(id)) return `${id} is not a model of this import`;
  if (!models.has(fallback) && !models.discovers) return `${fallback} is not a model of this import`;
  return models.addFallback(id, fallback) ? null : `${id} has as many fallbacks as a model can have`;
}

const handledSettings: Readonly<Record<string, readonly string[]>> = {
  router_settings: ["fallbacks", "default_fallbacks", "model_group_alias", "timeout", "stream_timeout"],
  litellm_settings: ["fallbacks", "default_fallbacks", "request_timeout"],
  general_settings: ["master_key"],
};
const handledSections = ["model_list", "credential_list", ...Object.keys(handledSettings)];

/** Notes about everything outside of model_list that was not translated. */
function noteSections(root: Group, note: AddNote): void {
  const leaveOut = (what: string, why: string) => note({ sort: "left out", what, why, of: null });
  const key = textOf(groupOf(root["general_settings"])["master_key"]);
  if (key !== null) {
    const variable = variableOf(key);
    const from = variable === null ? "the same key, which is not repeated here" : `the value of ${variable}`;
    const why = `for clients that use it set UIS_BOOTSTRAP_API_KEY to ${from} (8 characters at least); administrators use UIS_ADMIN_TOKEN`;
    note({ sort: "to do", what: "general_settings.master_key", why, of: null });
  }
  for (const [section, handled] of Object.entries(handledSettings)) {
    const others = Object.keys(groupOf(root[section])).filter((name) => !handled.includes(name));
    for (const name of others) leaveOut(`${section}.${name}`, reasonOf(name));
  }
  for (const [section, value] of Object.entries(root)) {
    if (handledSections.includes(section)) continue;
    if (section === "environment_variables") {
      const names = Object.keys(groupOf(value)).join(", ");
      note({ sort: "to do", what: section, why: `set them in the environment of the service: ${names}`, of: null });
    } else if (section === "include") leaveOut(section, "other files are not read: import each of them");
    else leaveOut(section, reasonOf(section));
  }
}
