import { isLoopback } from "../lib/loopback.js";
import { misspeltNames } from "./config/environment.js";
import type { Variables } from "./config/expand.js";
import type { Config } from "./config/schema.js";
import { isOffSchedule } from "./config/webhook-settings.js";

/** What is allowed but should be known, each with its remedy. Told at start and by `uis doctor`. */
export function warningsOf(config: Config, env: Variables): readonly string[] {
  const ofState = "state.durability is none: keys and everything else are in memory and lost at the end";
  return [...(config.state.durability === "none" ? [ofState] : []), ...warningsBesideState(config, env)];
}

/** Those of them that the state does not tell of itself. */
export function warningsBesideState(config: Config, env: Variables): readonly string[] {
  const warnings: string[] = [];
  const { host, tls } = config.server;
  if (!isLoopback(host) && tls.cert_file === null) {
    warnings.push(
      `the listeners on ${host} can be reached from outside without TLS: set server.tls, or put a proxy that speaks TLS in front`,
    );
  }
  const { webhooks } = config;
  if (webhooks.allow_http) warnings.push("webhooks.allow_http is set: events can leave without TLS");
  if (webhooks.allow_private_cidrs.length > 0) {
    warnings.push(
      `webhooks.allow_private_cidrs opens ${webhooks.allow_private_cidrs.join(", ")} to whoever may register an endpoint`,
    );
  }
  if (isOffSchedule(webhooks)) {
    warnings.push("webhooks.attempt_timeout or webhooks.retry_delays is changed: receivers rely on the defaults");
  }
  for (const { name, meant } of misspeltNames(env)) {
    warnings.push(`the variable ${name} is not known and has no effect: did you mean ${meant}?`);
  }
  return warnings;
}
