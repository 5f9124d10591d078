import { isIP } from "node:net";
import { Document, visit } from "yaml";
import { modelIdForm } from "../../contract/names.js";
import type { UpstreamDefinition, UpstreamKind } from "../../domain/engine/upstream.js";
import { embeddedName, upstreamNameForm } from "../../domain/engine/upstream-forms.js";
import { kindOfHost } from "../../domain/engine/upstream-url.js";
import { ConfigError, formatPath, problemAt } from "./problem.js";
import { configSchema } from "./schema.js";
import { readUpstreams } from "./upstreams.js";

/** An upstream that is not in the configuration. */
export interface NewUpstream {
  readonly url: string;
  /** Kind of the server; null: not known yet. */
  readonly kind: UpstreamKind | null;
  /** Absolute path of the file with the key; null: no key. */
  readonly keyFile: string | null;
}

/** Defines an upstream with the configuration's defaults. Throws a ConfigError whose paths end with `url` or `key_file`. */
export function defineUpstream({ url, kind, keyFile }: NewUpstream): UpstreamDefinition {
  const knownKind = kind ?? (URL.canParse(url) ? kindOfHost(url) : null) ?? "generic";
  const parsed = configSchema.safeParse({ upstreams: { new: { url, kind: knownKind, key_file: keyFile } } });
  if (!parsed.success) {
    const problems = parsed.error.issues.map(({ path, message }) => problemAt(formatPath(path.map(String)), message));
    throw new ConfigError(problems, null);
  }
  // No variable applies to an upstream without a name; the path of the key is absolute.
  const sources = { env: {}, cwd: "/" };
  const [definition] = readUpstreams({ config: parsed.data, file: null, positionOf: () => null }, sources);
  if (definition === undefined) throw new Error("the definition of the upstream was lost");
  return definition;
}

/** A longer list is not repeated: the upstream is configured without models, which are then discovered. */
const modelsMax = 100;

/** Names that the configuration accepts as `model`. */
const upstreamModelForm = /^[\x21-\x7e]([\x20-\x7e]{0,254}[\x21-\x7e])?$/;

/**
 * The lines of `uis.yaml` that add an upstream and its models. `models`: their ids on the server; `slots`: requests that
 * the server runs at the same time, written only for a single model, because several models share them.
 */
export function upstreamYaml(
  { url, keyFile }: NewUpstream,
  kind: UpstreamKind,
  models: readonly string[],
  slots: number | null,
): string {
  const name = nameOf(url, kind);
  const key = keyFile === null ? {} : { key_file: keyFile };
  const entries =
    kind === "azure" || models.length > modelsMax ? [] : entriesOf(name, models, models.length === 1 ? slots : null);
  const document = new Document({
    upstreams: { [name]: { url, kind, ...key } },
    ...(entries.length === 0 ? {} : { models: entries }),
  });
  // One line for each deployment.
  visit(document, {
    Map(_, node) {
      if (node.has("engine")) node.flow = true;
    },
  });
  const comment = commentOf(kind, models.length, entries.length);
  if (comment !== null) document.comment = ` ${comment}`;
  return document.toString({ lineWidth: 0 });
}

interface ModelEntry {
  readonly id: string;
  readonly deployments: readonly [object];
}

/** Entries of `models`. Leaves out ids that the setting `model` does not accept or would read as a variable. */
function entriesOf(upstream: string, models: readonly string[], slots: number | null): readonly ModelEntry[] {
  const taken = new Set<string>();
  return [...new Set(models)]
    .filter((model) => upstreamModelForm.test(model) && !model.includes("${"))
    .map((model) => {
      const id = freeId(model, taken);
      taken.add(id);
      return { id, deployments: [{ engine: "openai", upstream, model, ...(slots === null ? {} : { slots }) }] };
    });
}

/** The id on the server, with `-` for characters that ids here cannot have. A path of llama-server is its file's name. */
function freeId(listed: string, taken: ReadonlySet<string>): string {
  const model = /([^/\\]+)\.gguf$/i.exec(listed)?.[1] ?? listed;
  if (modelIdForm.test(model) && !taken.has(model)) return model;
  const base = model.replace(/[^A-Za-z0-9._:/-]/g, "-").slice(0, 120);
  let free = base;
  for (let number = 2; taken.has(free); number += 1) free = `${base}-${number}`;
  return free;
}

function commentOf(kind: UpstreamKind, listed: number, added: number): string | null {
  if (kind === "azure") {
    return "Add a model for each deployment of the resource, with its name in `model`: Azure does not list them.";
  }
  if (listed > modelsMax)
    return `All ${listed} models are offered under their own ids while no model names the upstream.`;
  return added < listed ? `${listed - added} listed ids are doubles or cannot be configured.` : null;
}

/** The kind; for `generic` the name of the host. */
export function nameOf(url: string, kind: UpstreamKind): string {
  if (kind !== "generic") return kind;
  const { hostname } = new URL(url);
  const isAddress = isIP(hostname.replace(/^\[(.*)\]$/, "$1")) !== 0;
  const name = isAddress || hostname === "localhost" ? "" : (hostname.replace(/^(api|www)\./, "").split(".")[0] ?? "");
  return upstreamNameForm.test(name) && name !== embeddedName ? name : "upstream";
}
