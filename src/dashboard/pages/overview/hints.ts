/** What a person should look at. */
import type { SystemJson } from "../../../../gen/unified/admin/v1/system_pb.js";

/** A sentence, and the page where something can be done about it. */
export interface Hint {
  readonly text: string;
  readonly page?: "models" | "webhooks" | "deliveries";
}

/** The most pressing first. Empty: all is well. */
export function hintsOf(system: SystemJson): readonly Hint[] {
  return [...hintsOfState(system), ...hintsOfModels(system), ...hintsOfWebhooks(system), ...warningsOf(system)];
}

function hintsOfState({ state }: SystemJson): readonly Hint[] {
  const hints: Hint[] = [];
  if (state?.ok !== true) hints.push({ text: `The store (${state?.kind ?? "not known"}) does not answer.` });
  const spooled = Number(state?.spooled ?? 0);
  if (spooled > 0) {
    hints.push({
      text: `${spooled} ended requests wait on this machine for the store; they are added when it answers.`,
    });
  }
  return hints;
}

/** Per slot. Fewer come and go by themselves. */
const manyWaiting = 2;

function hintsOfModels({ models = [] }: SystemJson): readonly Hint[] {
  if (models.length === 0) {
    return [{ text: "There is no model yet. Pull one on the page Models, or with uis models pull.", page: "models" }];
  }
  return models.flatMap(({ id, problem = "", waiting = 0, slots = 0, running = 0 }): Hint[] => {
    if (problem !== "") return [{ text: `${id}: ${problem}`, page: "models" }];
    if (running < slots || waiting < manyWaiting * slots) return [];
    return [{ text: `${id}: all slots are taken, and ${waiting} requests wait.`, page: "models" }];
  });
}

function hintsOfWebhooks({ endpointsFailing = 0 }: SystemJson): readonly Hint[] {
  if (endpointsFailing === 0) return [];
  const text =
    endpointsFailing === 1
      ? "One webhook endpoint fails and will be disabled if it goes on."
      : `${endpointsFailing} webhook endpoints fail and will be disabled if they go on.`;
  return [{ text, page: "deliveries" }];
}

function warningsOf({ warnings = [] }: SystemJson): readonly Hint[] {
  return warnings.map((text) => ({ text }));
}
