import type { Variables } from "../config/expand.js";
import type { Config } from "../config/schema.js";
import type { Check } from "../doctor/check.js";
import { settingChecks, stateChecks } from "../doctor/settings.js";

/** What is allowed but should be known, each with its remedy. Told at start; `uis doctor` has it among its checks. */
export function warningsOf(config: Config, env: Variables): readonly string[] {
  return [...stateChecks(config), ...settingChecks(config, env)].flatMap(toWarning);
}

/** Those of them that the state does not tell of itself. */
export function warningsBesideState(config: Config, env: Variables): readonly string[] {
  return settingChecks(config, env).flatMap(toWarning);
}

function toWarning({ status, detail, fix }: Check): string[] {
  return status === "ok" ? [] : [`${detail}: ${fix}`];
}
