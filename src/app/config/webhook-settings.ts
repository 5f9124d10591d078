import { isIP } from "node:net";
import * as z from "zod";
import { duration, trueOrFalse, wholeNumber } from "./setting-types.js";

/** How long a delivery belongs to who tries it. An attempt and noting its end must fit in: that bounds the timeout. */
export const webhookLeaseMs = 15_000;
const attemptTimeoutMaxMs = webhookLeaseMs - 5_000;

const dayMs = 86_400_000;

const addressRange = z.string({ error: "must be text" }).refine((text) => isAddressRange(text), {
  error: "must be a range of addresses such as 10.0.0.0/8 or fd12:3456::/32",
});
const resolver = z.string({ error: "must be text" }).refine((text) => isResolver(text), {
  error: "must be an address with or without a port, such as 1.1.1.1, 127.0.0.1:5353 or [::1]:53",
});

/** `webhooks:`, how events reach their receivers. */
export const webhookSettings = z.strictObject({
  deliver: trueOrFalse
    .prefault(true)
    .describe("Whether this process sends. Without it events wait for another process of the same store."),
  allow_http: trueOrFalse
    .prefault(false)
    .describe("Whether receivers may be reached without TLS. For development: a warning says so at start."),
  allow_private_cidrs: z
    .array(addressRange, { error: "must be a list of address ranges" })
    .prefault([])
    .describe("Addresses that are not public and may receive webhooks nevertheless. Link-local ones stay closed."),
  allow_ports: z
    .array(wholeNumber(1, 65_535), { error: "must be a list of ports" })
    .prefault([])
    .describe("Ports of receivers beside 443 and those from 1024."),
  dns_servers: z
    .array(resolver, { error: "must be a list of addresses" })
    .prefault([])
    .describe("Servers that resolve receivers' names. Empty: as the system does."),
  endpoints_max: wholeNumber(1, 1_000).prefault(20).describe("Endpoints that an account may have."),
  attempt_timeout: duration(10, attemptTimeoutMaxMs)
    .prefault("5s")
    .describe("For one attempt, from the name to the answer's headers. For tests: receivers rely on 5s."),
  retry_delays: z
    .array(duration(10, 30 * dayMs), { error: "must be a list of times" })
    .min(1, { error: "must have at least one time" })
    .max(20, { error: "must have at most 20 times" })
    .prefault(["30s", "2m", "10m", "30m", "2h"])
    .describe("Waits after the failures of a delivery. For tests: receivers rely on the default."),
  disable_after: duration(0, 365 * dayMs)
    .prefault("5d")
    .describe("An endpoint that only fails for so long, 20 deliveries for good at least, is disabled. 0s: never."),
});

/** Where the settings are not those that receivers rely on. */
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
