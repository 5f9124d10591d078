import { stat } from "node:fs/promises";
import { resolve } from "node:path";
import { byteText, errorText, printable, printableLine } from "../../lib/display-text.js";
import { type CliIo, CommandError, print } from "../command-line/cli-io.js";
import { type Cell, factLines, numeric, tableLines } from "../command-line/table.js";
import { type GgufFacts, inspectModelFile } from "../compose/model-store.js";
import type { CommandOptions } from "./load-for-command.js";
import {
  type ListedModel,
  type ModelAccess,
  openModels,
  openStoreOfFolder,
  type ServedModel,
} from "./models-access.js";

/** A model that is served, or stored, or both. */
type Listing =
  | { readonly id: string; readonly served: ServedModel; readonly stored: ListedModel | null }
  | { readonly id: string; readonly served: null; readonly stored: ListedModel };

/** The models that a running service serves, and those that are stored, by id. */
export async function readListings(access: Pick<ModelAccess, "list" | "served">): Promise<readonly Listing[]> {
  const [served, stored] = await Promise.all([access.served(), access.list()]);
  const storedById = new Map(stored.map((model) => [model.id, model]));
  const servedIds = new Set(served.map(({ model }) => model.id));
  const listings: readonly Listing[] = [
    ...served.map((model) => ({ id: model.model.id, served: model, stored: storedById.get(model.model.id) ?? null })),
    ...stored.filter(({ id }) => !servedIds.has(id)).map((model) => ({ id: model.id, served: null, stored: model })),
  ];
  return [...listings].sort((a, b) => (a.id < b.id ? -1 : 1));
}

/** The fields of `GET /v1/models`, null if the model is not served; and facts of its file, null if no file is stored. */
export function toListingObject(listing: Listing) {
  const { stored } = listing;
  return {
    ...catalogFields(listing),
    kind: kindOf(listing),
    bytes: stored?.bytes ?? null,
    sha256: stored?.sha256 ?? null,
    source: stored?.source ?? null,
    license: stored?.license ?? null,
    added_at: stored === null ? null : new Date(stored.addedAtMs).toISOString(),
    loaded: isLoaded(listing),
  };
}

function catalogFields({ id, served, stored }: Listing) {
  if (served === null) {
    return {
      id,
      object: "model",
      created: null,
      owned_by: null,
      context_length: stored.contextLength,
      capabilities: [],
    };
  }
  const { model } = served;
  return {
    id,
    object: "model",
    created: Number(model.created),
    owned_by: model.ownedBy,
    context_length: model.contextLength,
    capabilities: model.capabilities,
    ...(model.dimensions !== undefined && { dimensions: model.dimensions }),
    ...(model.toolCalling !== undefined && { tool_calling: model.toolCalling }),
  };
}

/** A table narrow enough for a terminal; `inspect` shows the rest. */
export function listingLines(io: Pick<CliIo, "stdout" | "env">, listings: readonly Listing[]): readonly string[] {
  const rows = listings.map((listing) => {
    const { id, served, stored } = listing;
    const contextLength = served === null ? stored.contextLength : served.model.contextLength;
    const file = stored === null ? "no file" : byteText(stored.bytes);
    return [id, kindOf(listing) ?? "unknown", String(contextLength), stateCell(listing), file];
  });
  return tableLines(io, ["ID", "KIND", numeric("CONTEXT"), "STATE", numeric("FILE")], rows);
}

function stateCell(listing: Listing): Cell {
  if (isLoaded(listing)) return ["good", "loaded"];
  return listing.served?.state === "loading" ? ["warning", "loading"] : ["faint", "not loaded"];
}

/** Null: unknown, because the model is not loaded yet and has no stored file. */
function kindOf({ served, stored }: Listing): ListedModel["kind"] | "reranking" | null {
  if (served === null) return stored.kind;
  const { capabilities } = served.model;
  if (stored !== null || capabilities.length === 0) return stored?.kind ?? null;
  if (capabilities.includes("chat") || capabilities.includes("completions")) return "chat";
  return capabilities.includes("embeddings") ? "embedding" : "reranking";
}

function isLoaded({ served, stored }: Listing): boolean {
  return served === null ? stored.loaded : served.state === "ready";
}

/** A stored model for JSON. */
export function toModelObject(model: ListedModel) {
  return {
    id: model.id,
    kind: model.kind,
    bytes: model.bytes,
    sha256: model.sha256,
    source: model.source,
    context_length: model.contextLength,
    license: model.license,
    added_at: new Date(model.addedAtMs).toISOString(),
    loaded: model.loaded,
  };
}

/** Properties of a model, by their names in JSON. */
type Findings = Readonly<Record<string, string | number | boolean | null | readonly string[]>>;

/** `uis models inspect`: a file of this machine if there is one with that name, else a stored or served model. */
export async function inspectModel(io: CliIo, subject: string, options: CommandOptions): Promise<void> {
  const path = resolve(io.cwd, subject);
  const isFile = (await stat(path).catch(() => null))?.isFile() ?? false;
  const findings = isFile ? await findingsOfFile(path) : await findingsOfModel(io, subject, options);
  print(io, options, findings, ...(findings["path"] === undefined ? textOfServed(findings) : textOf(findings)));
}

async function findingsOfFile(path: string): Promise<Findings> {
  const { size: bytes } = await stat(path);
  const facts = await headerOf(path);
  const { kind, contextLength: context_length, license } = facts;
  return { path, bytes, kind, context_length, license, ...toFindings(facts) };
}

async function findingsOfModel(io: CliIo, id: string, options: CommandOptions): Promise<Findings> {
  const access = await openModels(io, options);
  const listing = (await readListings(access).finally(() => access.close())).find((model) => model.id === id);
  if (listing === undefined) {
    throw new CommandError(
      `there is no file ${id}, and no model is stored${access.isService ? " or served" : ""} under this id`,
    );
  }
  return listing.stored === null ? toListingObject(listing) : findingsOfKept(io, listing.stored, options);
}

async function findingsOfKept(io: CliIo, model: ListedModel, options: CommandOptions): Promise<Findings> {
  const { id } = model;
  const store = await openStoreOfFolder(io, options);
  const here = await store.find(id).finally(() => store.close());
  if (here === null || here.sha256 !== model.sha256) {
    throw new CommandError(
      `${id} is stored by the service, but not in this data folder: name the service's folder with --data-dir`,
    );
  }
  return { ...toModelObject(model), path: here.path, ...toFindings(await headerOf(here.path)) };
}

async function headerOf(path: string): Promise<GgufFacts> {
  try {
    return await inspectModelFile(path);
  } catch (cause) {
    throw new CommandError(printableLine(`${path} cannot be inspected: ${errorText(cause)}`), { cause });
  }
}

/** Properties that only the file has. */
function toFindings(facts: GgufFacts): Findings {
  return {
    architecture: facts.architecture,
    name: facts.name,
    embedding_length: facts.embeddingLength,
    tokenizer: facts.tokenizer,
    tensor_count: facts.tensorCount,
    parameter_count: facts.parameterCount,
    file_type: facts.fileType === null ? null : fileTypeName(facts.fileType),
    chat_template: facts.chatTemplate,
  };
}

/** One property per line; the chat template, which has many lines, is the last. */
function textOf({ chat_template: template, ...findings }: Findings): readonly string[] {
  const end = typeof template === "string" ? ["", "chat template:", "", printable(template)] : ["", "no chat template"];
  return [...rowsOf(findings), ...end];
}

/** The known properties of a model without a stored file. */
function textOfServed(findings: Findings): readonly string[] {
  const known = Object.entries(findings).filter(([, value]) => value !== null);
  return [...rowsOf(Object.fromEntries(known)), "", "no file is stored"];
}

function rowsOf(findings: Findings): readonly string[] {
  return factLines(
    Object.entries(findings).map(([name, value]) => [name.replaceAll("_", " "), cellOf(name, value)] as const),
  );
}

function cellOf(name: string, value: Findings[string]): string {
  if (value === null || value === undefined) return "not stated";
  if (typeof value === "number" && name === "bytes") return `${value} (${byteText(value)})`;
  if (typeof value === "number" && name === "created") return new Date(value * 1000).toISOString();
  if (typeof value === "object") return printableLine(value.join(", "));
  return printableLine(typeof value === "boolean" ? (value ? "yes" : "no") : String(value));
}

/** Names of the values of `general.file_type` in a GGUF file. */
const fileTypeNames: Readonly<Record<number, string>> = {
  0: "F32",
  1: "F16",
  2: "Q4_0",
  3: "Q4_1",
  7: "Q8_0",
  8: "Q5_0",
  9: "Q5_1",
  10: "Q2_K",
  11: "Q3_K_S",
  12: "Q3_K_M",
  13: "Q3_K_L",
  14: "Q4_K_S",
  15: "Q4_K_M",
  16: "Q5_K_S",
  17: "Q5_K_M",
  18: "Q6_K",
  19: "IQ2_XXS",
  20: "IQ2_XS",
  21: "Q2_K_S",
  22: "IQ3_XS",
  23: "IQ3_XXS",
  24: "IQ1_S",
  25: "IQ4_NL",
  26: "IQ3_S",
  27: "IQ3_M",
  28: "IQ2_S",
  29: "IQ2_M",
  30: "IQ4_XS",
  31: "IQ1_M",
  32: "BF16",
  36: "TQ1_0",
  37: "TQ2_0",
};

/** Type of most tensors of a file: `Q8_0`, or `type 99` if unknown. */
function fileTypeName(fileType: number): string {
  return fileTypeNames[fileType] ?? `type ${fileType}`;
}
