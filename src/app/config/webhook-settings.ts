import { isIP } from "node:net";
import * as z from "zod";
import { duration, trueOrFalse, wholeNumber } from "./setting-types.js";

/** Lease of a claimed delivery. An attempt and the write of its result must be shorter, so it limits the timeout. */
export const webhookLeaseMs = 15_000;
const attemptTimeoutMaxMs = webhookLeaseMs - 5_000;

const dayMs = 86_400_000;

export const addressRange = z.string({ error: "must be text" }).refine((text) => isAddressRange(text), {
  error: "must be an address range such as 10.0.0.0/8 or fd12:3456::/32",
});
const resolver = z.string({ error: "must be text" }).refine((text) => isResolver(text), {
  error: "must be an address with or without a port, such as 1.1.1.1, 127.0.0.1:5353 or [::1]:53",
});

/** `webhooks:`, the delivery of events. */
export const webhookSettings = z.strictObject({
  deliver: trueOrFalse
    .prefault(true)
    .describe("Whether this process sends deliveries. If not, they wait for another process with the same store."),
  allow_http: trueOrFalse
    .prefault(false)
    .describe("Whether receivers without TLS are allowed. For development only: the start logs a warning."),
  allow_private_cidrs: z
    .array(addressRange, { error: "must be a list of address ranges" })
    .prefault([])
    .describe("Private addresses that may receive webhooks. Link-local addresses are never allowed."),
  allow_ports: z
    .array(wholeNumber(1, 65_535), { error: "must be a list of ports" })
    .prefault([])
    .describe("Allowed ports of receivers, in addition to 443 and all ports from 1024 on."),
  dns_servers: z
    .array(resolver, { error: "must be a list of addresses" })
    .prefault([])
    .describe("DNS servers that resolve the host names of receivers. Empty: the system's."),
  endpoints_max: wholeNumber(1, 1_000).prefault(20).describe("Maximum endpoints of an account."),
  attempt_timeout: duration(10, attemptTimeoutMaxMs)
    .prefault("5s")
    .describe(
      "Maximum time of one attempt, from name resolution to the response headers. Change it for tests only: receivers " +
        "rely on 5s.",
    ),
  retry_delays: z
    .array(duration(10, 30 * dayMs), { error: "must be a list of times" })
    .min(1, { error: "must have at least one time" })
    .max(20, { error: "must have at most 20 times" })
    .prefault(["30s", "2m", "10m", "30m", "2h"])
    .describe("Delays after failed attempts. Change them for tests only: receivers rely on the default."),
  disable_after: duration(0, 365 * dayMs)
    .prefault("5d")
    .describe(
      "Time without a success after which a failing endpoint is disabled, if at least 20 of its deliveries have " +
        "permanently failed. 0s: never.",
    ),
});

/** Whether the settings differ from those that receivers rely on. */
export function isOffSchedule({
  attempt_timeout: timeoutMs,
  retry_delays: delaysMs,
}: z.output<typeof webhookSettings>) {
  const { attempt_timeout, retry_delays } = webhookSettings.parse({});
  return timeoutMs !== attempt_timeout || delaysMs.join() !== retry_delays.join();
}

function isAddressRange(text: string): boolean {
  const [address = "", length = "", ...rest] = text.split("/");
  const bits = isIP(address) === 4 ? 32 : isIP(address) === 6 ? 128 : 0;
  return bits > 0 && rest.length === 0 && /^(0|[1-9][0-9]{0,2})$/.test(length) && Number(length) <= bits;
}

function isResolver(text: string): boolean {
  const bracketed = /^\[(.+)\](?::([0-9]{1,5}))?$/.exec(text);
  if (bracketed !== null) return isIP(bracketed[1] ?? "") === 6 && Number(bracketed[2] ?? 53) <= 65_535;
  const [address = "", port = "53", ...rest] = isIP(text) === 6 ? [text] : text.split(":");
  return isIP(address) !== 0 && rest.length === 0 && /^[0-9]{1,5}$/.test(port) && Number(port) <= 65_535;
}
