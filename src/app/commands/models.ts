import { resolve } from "node:path";
import { type ModelPull, PullState } from "../../../gen/unified/admin/v1/model_admin_service_pb.js";
import type { FoundModel, PullProgress, PullRequest } from "../../domain/catalog/model-store.js";
import { byteText, printableLine } from "../../lib/display-text.js";
import { type CliIo, CommandError, print, printList, type TextOutput, UsageError } from "../command-line/cli-io.js";
import { isoTime } from "../command-line/cli-values.js";
import { DownloadText, receivedText, shareOf } from "../command-line/download-text.js";
import { columnsDefault, LiveRows } from "../command-line/live-rows.js";
import { numeric, tableLines } from "../command-line/table.js";
import { untilInterrupt } from "../command-line/until-interrupt.js";
import type { CommandOptions } from "./load-for-command.js";
import { type ListedModel, type ModelAccess, openModels } from "./models-access.js";
import { listingLines, readListings, toListingObject, toModelObject } from "./models-listing.js";

interface AddOptions extends CommandOptions {
  readonly id?: string;
}

interface PullOptions extends AddOptions {
  readonly sha256?: string;
}

/** `uis models list` */
export async function listModels(io: CliIo, options: CommandOptions): Promise<void> {
  const { listings, isService } = await withModels(io, options, async (access) => ({
    listings: await readListings(access),
    isService: access.isService,
  }));
  const none = isService ? "no model is served or stored" : "no model is stored";
  const ifNone = `${none}: uis models pull SOURCE, or uis models import FILE`;
  printList(io, options, listings.map(toListingObject), listingLines(io, listings), ifNone);
}

/** `uis models pull`: progress and warnings on stderr. Ctrl-C ends the command, and the download if no service runs it. */
export async function pullModel(io: CliIo, source: string, options: PullOptions): Promise<void> {
  const request = toPullRequest(io, source, options);
  const progress = createProgressText(io.stderr, () => performance.now());
  const pulled = await withModels(io, options, (access) =>
    untilInterrupt(access.isService ? afterLeaving(source) : afterInterrupt(source), async (signal) => {
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

/** `uis models search`: sources for `uis models pull`, short names first. */
export async function searchModels(io: CliIo, words: readonly string[], options: CommandOptions): Promise<void> {
  const found = await withModels(io, options, (access) =>
    untilInterrupt("the search was cancelled", (signal) => access.search(words.join(" "), signal)),
  );
  const columns = ["SOURCE", numeric("SIZE"), numeric("DOWNLOADS"), "LICENSE"];
  const lines = tableLines(io, columns, found.map(foundRow));
  printList(io, options, found.map(toFoundObject), lines, "no model matches: try fewer or other words");
}

function foundRow({ source, approximateBytes, downloads, license, gated }: FoundModel): readonly string[] {
  const size = approximateBytes === null ? "" : byteText(approximateBytes);
  const terms = gated ? " (needs HF_TOKEN)" : "";
  return [source, size, downloads === null ? "" : String(downloads), `${license ?? "not stated"}${terms}`];
}

function toFoundObject({ source, kind, quantizations, approximateBytes, ...found }: FoundModel) {
  const { downloads, likes, license, gated } = found;
  return { source, kind, quantizations, approximate_bytes: approximateBytes, downloads, likes, license, gated };
}

/** `uis models pulls` */
export async function listPulls(io: CliIo, options: CommandOptions): Promise<void> {
  const pulls = await withModels(io, options, (access) => access.pulls());
  const objects = pulls.map(toPullObject);
  const rows = objects.map(({ id, state, received_bytes, total_bytes, problem }): readonly string[] => {
    const progress = receivedText({ receivedBytes: received_bytes, totalBytes: total_bytes }).trimStart();
    return [id, state, progress, printableLine(problem ?? "")];
  });
  const lines = tableLines(io, ["ID", "STATE", "PROGRESS", "PROBLEM"], rows);
  printList(io, options, objects, lines, "no model is being pulled");
}

/** `uis models cancel` */
export async function cancelPull(io: CliIo, id: string, options: CommandOptions): Promise<void> {
  const pull = await withModels(io, options, (access) => access.cancelPull(id));
  print(io, options, toPullObject(pull), `The pull of ${pull.id} is cancelled; the received part is kept.`);
}

const stateNames: Readonly<Record<PullState, string>> = {
  [PullState.UNSPECIFIED]: "unknown",
  [PullState.DOWNLOADING]: "downloading",
  [PullState.LOADING]: "loading",
  [PullState.SUCCEEDED]: "succeeded",
  [PullState.FAILED]: "failed",
  [PullState.CANCELLED]: "cancelled",
};

function toPullObject(pull: ModelPull) {
  const { id, startedAt, endedAt } = pull;
  return {
    id,
    source: pull.source || null,
    state: stateNames[pull.state] ?? "unknown",
    received_bytes: Number(pull.receivedBytes),
    total_bytes: Number(pull.totalBytes) || null,
    bytes_per_second: Number(pull.bytesPerSecond) || null,
    started_at: isoTime(startedAt),
    ended_at: isoTime(endedAt),
    problem: pull.problem || null,
  };
}

/** `uis models import` */
export async function importModel(io: CliIo, file: string, options: AddOptions): Promise<void> {
  const imported = await withModels(io, options, (access) =>
    untilInterrupt("cancelled: nothing was stored", async (signal) => ({
      model: await access.import(resolve(io.cwd, file), options.id ?? null, signal),
      access,
    })),
  );
  printAdded(io, options, imported);
}

/** `uis models rm` */
export async function removeModel(io: CliIo, id: string, options: CommandOptions): Promise<void> {
  const model = await withModels(io, options, (access) => access.remove(id));
  print(io, options, toModelObject(model), `${model.id} is removed.`);
}

async function withModels<T>(io: CliIo, options: CommandOptions, use: (access: ModelAccess) => Promise<T>): Promise<T> {
  const access = await openModels(io, options);
  try {
    return await use(access);
  } catch (error) {
    throw error instanceof CommandError ? new CommandError(printableLine(error.message), { cause: error }) : error;
  } finally {
    await access.close();
  }
}

/** A source without a colon is the id of a default model, whose sources are built in; short names contain a colon. */
function toPullRequest(io: CliIo, source: string, { id, sha256 }: PullOptions): PullRequest {
  if (!source.includes(":")) {
    if (id === undefined && sha256 === undefined) return { source: null, id: source, sha256: null };
    throw new UsageError(`${source} is a default model with an id and a digest of its own: omit --id and --sha256`);
  }
  const [, path] = /^file:(?!\/)(.+)$/.exec(source) ?? [];
  return {
    // The service has another working directory.
    source: path === undefined ? source : `file:${resolve(io.cwd, path)}`,
    id: id ?? null,
    sha256: sha256 ?? null,
  };
}

/** Text after Ctrl-C. Downloads by pip and copies of files cannot be resumed. */
function afterInterrupt(source: string): string {
  if (/^(pypi|file):/.test(source)) return "cancelled: nothing was stored";
  return "cancelled: the received part is kept; the same command resumes there";
}

function afterLeaving(source: string): string {
  return `the service continues the pull: uis models pull ${source} shows its progress, uis models cancel ID ends it`;
}

function printAdded(
  io: CliIo,
  options: CommandOptions,
  { model, access }: { readonly model: ListedModel; readonly access: ModelAccess },
): void {
  const state = model.loaded ? "loaded" : access.isService ? "not loaded" : "not loaded: no service is running here";
  const text = `${model.id} is stored and ${state}; ${model.kind}, ${byteText(model.bytes)}, sha256 ${model.sha256}`;
  print(io, options, toModelObject(model), text);
}

interface ProgressText {
  show(progress: PullProgress): void;
  /** Draws the last progress; later text begins on a new line. */
  end(): void;
}

const redrawMs = 100;
const shareStep = 0.1;
/** Received bytes between two lines of progress for a file of unknown size. */
const unknownStepBytes = 100_000_000;

/** Progress of a download: a bar that is redrawn on a terminal, else a line for each tenth. */
export function createProgressText(output: TextOutput, nowMs: () => number): ProgressText {
  return output.isTTY === true ? progressBar(output, nowMs) : progressLines(output, nowMs);
}

/** A bar that is redrawn at most ten times a second; the last progress is always drawn. */
function progressBar(output: TextOutput, nowMs: () => number): ProgressText {
  const rows = new LiveRows(output);
  const text = new DownloadText(nowMs);
  let drawnAtMs = Number.NEGATIVE_INFINITY;
  let last: PullProgress | null = null;
  const textOf = (progress: PullProgress): string =>
    progress.stage === "converting" ? "converting…" : text.bar(progress, (output.columns ?? columnsDefault) - 1);
  return {
    show(progress) {
      last = progress;
      if (nowMs() - drawnAtMs < redrawMs) return;
      drawnAtMs = nowMs();
      rows.show([textOf(progress)]);
    },
    end() {
      rows.end();
      if (last !== null) output.write(`${textOf(last)}\n`);
    },
  };
}

function progressLines(output: TextOutput, nowMs: () => number): ProgressText {
  const text = new DownloadText(nowMs);
  let writtenStep = -1;
  return {
    show(progress) {
      const { receivedBytes, totalBytes } = progress;
      if (progress.stage === "converting") {
        output.write("converting\n");
        return;
      }
      const step =
        totalBytes === null ? receivedBytes / unknownStepBytes : shareOf(receivedBytes, totalBytes) / shareStep;
      // The step can become smaller, because a download restarts when another source is tried.
      if (Math.floor(step) === writtenStep) return;
      writtenStep = Math.floor(step);
      output.write(`fetching: ${text.line(progress)}\n`);
    },
    end() {},
  };
}
