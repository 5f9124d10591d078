import { isLoopback } from "../lib/loopback.js";
import { misspeltNames } from "./config/environment.js";
import type { Variables } from "./config/expand.js";
import type { Config } from "./config/schema.js";

/** What is allowed but should be known, each with its remedy. Told at start and by `uis doctor`. */
export function warningsOf(config: Config, env: Variables): readonly string[] {
  const warnings: string[] = [];
  const { host, tls } = config.server;
  if (!isLoopback(host) && tls.cert_file === null) {
    warnings.push(
      `the listeners on ${host} can be reached from outside without TLS: set server.tls, or put a proxy that speaks TLS in front`,
    );
  }
  if (config.state.durability === "none") {
    warnings.push("state.durability is none: keys and everything else are in memory and lost at the end");
  }
  for (const { name, meant } of misspeltNames(env)) {
    warnings.push(`the variable ${name} is not known and has no effect: did you mean ${meant}?`);
  }
  return warnings;
}
