import type { ModelStatus } from "../../../gen/unified/admin/v1/system_pb.js";
import { SystemService } from "../../../gen/unified/admin/v1/system_service_pb.js";
import { byteText } from "../../lib/display-text.js";
import { type CliIo, printList } from "../command-line/cli-io.js";
import { jsonInteger } from "../command-line/cli-values.js";
import { type Cell, numeric, type Tone, tableLines } from "../command-line/table.js";
import type { CommandOptions } from "./load-for-command.js";
import { callAsAdministrator } from "./service-client.js";

/** `uis ps`: the models of the running service, with their state, memory and requests. */
export async function listRunning(io: CliIo, options: CommandOptions): Promise<void> {
  const { system } = await callAsAdministrator(io, options, SystemService, (client) => client.getSystem({}));
  const models = system?.models ?? [];
  const columns = ["MODEL", "STATE", ...["MEMORY", "RUNNING", "WAITING", "SLOTS", "TOKENS"].map(numeric), "PROBLEM"];
  const lines = tableLines(io, columns, models.map(modelCells));
  printList(io, options, models.map(toModelObject), lines, "no model is served: uis models pull SOURCE adds one");
}

function toModelObject(model: ModelStatus): object {
  const { id, state, slots, running, waiting, restarts } = model;
  return {
    id,
    state,
    memory_bytes: jsonInteger(model.memoryBytes),
    running,
    waiting,
    slots,
    produced_tokens: jsonInteger(model.producedTokens),
    restarts,
    problem: model.problem || null,
  };
}

const tones: Readonly<Partial<Record<string, Tone>>> = { ready: "good", loading: "warning", failed: "bad" };

function modelCells(model: ModelStatus): readonly Cell[] {
  const { id, state, memoryBytes, running, waiting, slots, producedTokens, problem } = model;
  return [
    id,
    [tones[state] ?? "faint", state],
    memoryBytes === 0n ? "-" : byteText(Number(memoryBytes)),
    String(running),
    String(waiting),
    String(slots),
    String(producedTokens),
    [state === "unloaded" ? "faint" : "bad", problem],
  ];
}
