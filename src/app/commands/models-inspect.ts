import { stat } from "node:fs/promises";
import { resolve } from "node:path";
import { byteText, printable, printableLine } from "../../lib/display-text.js";
import { type CliIo, CommandError, printJson, printLine } from "../command-line/cli-io.js";
import { type GgufFacts, inspectModelFile } from "../compose/model-store.js";
import type { ModelsOptions } from "./models.js";
import { type ListedModel, openModels, openStoreOfFolder } from "./models-access.js";
import { alignColumns, readListings, toListingObject, toModelObject } from "./models-listing.js";

/** What is known of a model, by the names that JSON shows. */
type Findings = Readonly<Record<string, string | number | boolean | null | readonly string[]>>;

/** `uis models inspect`: a file of this machine when there is one of that name, else a model that is kept or served. */
export async function inspectModel(io: CliIo, subject: string, options: ModelsOptions): Promise<void> {
  const path = resolve(io.cwd, subject);
  const isFile = await stat(path).then(
    (found) => found.isFile(),
    () => false,
  );
  const findings = isFile ? await findingsOfFile(path) : await findingsOfModel(io, subject, options);
  if (options.json) printJson(io, findings);
  else
    for (const line of findings["path"] === undefined ? textOfServed(findings) : textOf(findings)) printLine(io, line);
}

async function findingsOfFile(path: string): Promise<Findings> {
  const { size: bytes } = await stat(path);
  const facts = await headerOf(path);
  const { kind, contextLength: context_length, license } = facts;
  return { path, bytes, kind, context_length, license, ...toFindings(facts) };
}

async function findingsOfModel(io: CliIo, id: string, options: ModelsOptions): Promise<Findings> {
  const access = await openModels(io, options);
  const listing = (await readListings(access).finally(() => access.close())).find((model) => model.id === id);
  if (listing === undefined) {
    throw new CommandError(
      `there is no file ${id}, and no model is kept${access.isService ? " or served" : ""} under this id`,
    );
  }
  return listing.kept === null ? toListingObject(listing) : findingsOfKept(io, listing.kept, options);
}

async function findingsOfKept(io: CliIo, model: ListedModel, options: ModelsOptions): Promise<Findings> {
  const { id } = model;
  const store = await openStoreOfFolder(io, options);
  const here = await store.find(id).finally(() => store.close());
  if (here === null || here.sha256 !== model.sha256) {
    throw new CommandError(`${id} is kept by the service, but not in the data folder: name its folder with --data-dir`);
  }
  return { ...toModelObject(model), path: here.path, ...toFindings(await headerOf(here.path)) };
}

async function headerOf(path: string): Promise<GgufFacts> {
  try {
    return await inspectModelFile(path);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new CommandError(printableLine(`${path} cannot be inspected: ${reason}`), { cause });
  }
}

/** What only the file says. */
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

/** The findings below each other, and the chat template, which has many lines, after them. */
function textOf({ chat_template: template, ...findings }: Findings): readonly string[] {
  const end = typeof template === "string" ? ["", "chat template:", "", printable(template)] : ["", "no chat template"];
  return [...rowsOf(findings), ...end];
}

/** Of a model without a kept file, what is known. */
function textOfServed(findings: Findings): readonly string[] {
  const known = Object.entries(findings).filter(([, value]) => value !== null);
  return [...rowsOf(Object.fromEntries(known)), "", "no file of it is kept"];
}

function rowsOf(findings: Findings): readonly string[] {
  return alignColumns(
    Object.entries(findings).map(([name, value]) => [name.replaceAll("_", " "), cellOf(name, value)]),
  );
}

function cellOf(name: string, value: Findings[string]): string {
  if (value === null || value === undefined) return "not stated";
  if (typeof value === "number" && name === "bytes") return `${value} (${byteText(value)})`;
  if (typeof value === "number" && name === "created") return new Date(value * 1000).toISOString();
  if (typeof value === "object") return printableLine(value.join(", "));
  return printableLine(typeof value === "boolean" ? (value ? "yes" : "no") : String(value));
}

/** Names of the numbers that `general.file_type` of a GGUF file has. */
const names: Readonly<Record<number, string>> = {
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

/** What most of a file's tensors are made of: `Q8_0`; for a number that is not known `type 99`. */
function fileTypeName(fileType: number): string {
  return names[fileType] ?? `type ${fileType}`;
}
