import { isLoopback } from "../../lib/loopback.js";
import { misspeltNames } from "../config/environment.js";
import type { Variables } from "../config/expand.js";
import type { Config } from "../config/schema.js";
import { isOffSchedule } from "../config/webhook-settings.js";
import { type Check, ok, warn } from "./check.js";

/** What settings open to others, and what they bend. Each is allowed, but should be known. */
export function settingChecks(config: Config, env: Variables): readonly Check[] {
  return [bindCheck(config), ...egressChecks(config), ...variableChecks(env)];
}

/** What settings do with what is kept. */
export function stateChecks({ state }: Config): readonly Check[] {
  if (state.durability !== "none") return [];
  const detail = "state.durability is none: keys and everything else are in memory and lost at the end";
  return [warn("state", detail, "leave state.durability out")];
}

function bindCheck({ server: { host, tls } }: Config): Check {
  const keys = "every request needs a key";
  if (isLoopback(host)) return ok("bind", `only this machine reaches the listeners on ${host}; ${keys}`);
  if (tls.cert_file !== null) return ok("bind", `others reach the listeners on ${host}, with TLS; ${keys}`);
  return warn(
    "bind",
    `the listeners on ${host} can be reached from outside without TLS`,
    "set server.tls, or put a proxy that speaks TLS in front",
  );
}

function egressChecks({ webhooks }: Config): readonly Check[] {
  const checks: Check[] = [];
  const open = (detail: string, fix: string) => checks.push(warn("webhook_egress", detail, fix));
  if (webhooks.allow_http) {
    open("webhooks.allow_http is set, so events can leave without TLS", "leave it out where receivers speak HTTPS");
  }
  if (webhooks.allow_private_cidrs.length > 0) {
    const ranges = webhooks.allow_private_cidrs.join(", ");
    open(
      `webhooks.allow_private_cidrs opens ${ranges} to whoever may register an endpoint`,
      "name single addresses, such as 10.0.0.5/32, or leave it out",
    );
  }
  if (isOffSchedule(webhooks)) {
    open(
      "webhooks.attempt_timeout or webhooks.retry_delays is changed, and receivers rely on the defaults",
      "leave both out",
    );
  }
  if (checks.length > 0) return checks;
  const ports = [443, ...webhooks.allow_ports].join(", ");
  const detail = `HTTPS to public addresses only, on the ports ${ports} and from 1024`;
  return [ok("webhook_egress", webhooks.deliver ? detail : `${detail}; another process sends`)];
}

function variableChecks(env: Variables): readonly Check[] {
  return misspeltNames(env).map(({ name, meant }) =>
    warn("variables", `the variable ${name} is not known and has no effect`, `write ${meant}, if that is meant`),
  );
}
