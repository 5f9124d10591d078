import type { System } from "../../../gen/unified/admin/v1/system_pb.js";
import { printableLine } from "../../lib/display-text.js";
import { type Check, fail, ok, warn } from "./check.js";

const page = "see docs/failures.md";

/**
 * Findings of a running service about itself: its store, usage that is not stored yet, models that did not load, receivers that
 * fail, and its warnings. `known`: earlier checks, whose findings are not repeated.
 */
export function runningChecks(system: System, known: readonly Check[]): readonly Check[] {
  const { state, models, endpointsFailing, warnings } = system;
  const checks: Check[] = [];
  const report = (check: string, detail: string, fix: string) => checks.push(warn(check, printableLine(detail), fix));
  if (state !== undefined && !state.ok) {
    checks.push(fail("service", "its store does not answer", "make the store available again: its log has the reason"));
  }
  if (state !== undefined && state.spooled > 0n) {
    report(
      "usage",
      `the usage of ${state.spooled} requests waits for the store`,
      "make the store available again; keep the data folder",
    );
  }
  for (const { id, state: modelState, problem, restarts } of models) {
    if (modelState === "failed") report("models", `${id} cannot be used: ${problem}`, page);
    else if (restarts > 0) report("models", `the engine process of ${id} was restarted ${restarts} times`, page);
  }
  if (endpointsFailing > 0) {
    report("webhooks", `${endpointsFailing} endpoints of webhooks fail`, "uis webhooks list shows them");
  }
  const listed = new Set(known.map(({ detail, fix }) => `${detail}: ${fix}`));
  for (const warning of warnings) if (!listed.has(warning)) report("service", warning, page);
  return checks.length > 0 ? checks : [ok("service", "it runs, and reports no problem")];
}
