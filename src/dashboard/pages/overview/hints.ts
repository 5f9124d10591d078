/** Problems of the service, and advice about its configuration. */
import type { SystemJson } from "../../../../gen/unified/admin/v1/system_pb.js";

export interface Hint {
  readonly text: string;
  /** The page where the problem can be fixed. */
  readonly page?: "models" | "webhooks" | "deliveries";
}

/** Current problems, most urgent first. */
export function problemsOf(system: SystemJson): readonly Hint[] {
  return [...hintsOfState(system), ...hintsOfModels(system), ...hintsOfWebhooks(system)];
}

/** Findings about the configuration, each with its remedy. */
export function adviceOf({ warnings = [] }: SystemJson): readonly Hint[] {
  return warnings.map((text) => ({ text }));
}

function hintsOfState({ state }: SystemJson): readonly Hint[] {
  const hints: Hint[] = [];
  if (state?.ok !== true) hints.push({ text: `The store (${state?.kind ?? "unknown"}) is unavailable.` });
  const spooled = Number(state?.spooled ?? 0);
  if (spooled > 0) {
    hints.push({ text: `${spooled} finished requests are spooled until the store is available again.` });
  }
  return hints;
}

/** Queued requests per slot that are worth a warning; shorter queues are normal. */
const longQueue = 2;

function hintsOfModels({ models = [] }: SystemJson): readonly Hint[] {
  if (models.length === 0) {
    return [{ text: "No models yet. Pull one on the Models page, or with uis models pull.", page: "models" }];
  }
  return models.flatMap(({ id, state, problem = "", waiting = 0, slots = 0, running = 0 }): Hint[] => {
    // An unloaded model is not a problem; the list of models shows the reason.
    if (problem !== "" && state !== "unloaded") return [{ text: `${id}: ${problem}`, page: "models" }];
    if (running < slots || waiting < longQueue * slots) return [];
    return [{ text: `${id}: all slots are busy, ${waiting} requests are queued.`, page: "models" }];
  });
}

function hintsOfWebhooks({ endpointsFailing = 0 }: SystemJson): readonly Hint[] {
  if (endpointsFailing === 0) return [];
  const text =
    endpointsFailing === 1
      ? "1 webhook endpoint is failing and will be disabled if the failures continue."
      : `${endpointsFailing} webhook endpoints are failing and will be disabled if the failures continue.`;
  return [{ text, page: "deliveries" }];
}
