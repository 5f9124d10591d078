import type { FoundModel } from "../../domain/catalog/model-store.js";
import { byteText } from "../../lib/display-text.js";
import { type CliIo, printList } from "../command-line/cli-io.js";
import { numeric, tableLines } from "../command-line/table.js";
import { untilInterrupt } from "../command-line/until-interrupt.js";
import type { CommandOptions } from "./load-for-command.js";
import { withModels } from "./models.js";

/** `uis models search`: sources for `uis models pull`, short names first. */
export async function searchModels(io: CliIo, words: readonly string[], options: CommandOptions): Promise<void> {
  const found = await withModels(io, options, (access) =>
    untilInterrupt("the search was cancelled", (signal) => access.search(words.join(" "), signal)),
  );
  const columns = ["SOURCE", numeric("SIZE"), numeric("DOWNLOADS"), "LICENSE"];
  const lines = tableLines(io, columns, found.map(rowOf));
  printList(io, options, found.map(toFoundObject), lines, "no model matches: try fewer or other words");
}

function rowOf({ source, approximateBytes, downloads, license, gated }: FoundModel): readonly string[] {
  const size = approximateBytes === null ? "" : byteText(approximateBytes);
  const terms = gated ? " (needs HF_TOKEN)" : "";
  return [source, size, downloads === null ? "" : String(downloads), `${license ?? "not stated"}${terms}`];
}

function toFoundObject({ source, kind, quantizations, approximateBytes, ...found }: FoundModel) {
  const { downloads, likes, license, gated } = found;
  return { source, kind, quantizations, approximate_bytes: approximateBytes, downloads, likes, license, gated };
}
