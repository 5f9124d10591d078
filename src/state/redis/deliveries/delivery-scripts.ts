import { loadScript } from "../load-script.js";

const before = ["prelude", "deliveries"];

/** What endpoints and deliveries run. A server is given them as soon as it is connected to. */
export const deliveryScripts = {
  claim: loadScript("claim", before),
  finish: loadScript("finish", before),
  handBack: loadScript("hand-back", before),
  retryNow: loadScript("retry-now", before),
  replay: loadScript("replay", before),
  nextDue: loadScript("next-due", before),
  find: loadScript("find-deliveries", before),
  scan: loadScript("scan-deliveries", before),
  backlog: loadScript("backlog", before),
  purge: loadScript("purge-deliveries", before),
  writeEndpoint: loadScript("write-endpoint", before),
};

/** Nobody's request waits for these, so a slow server is waited for. */
export const deliveryTimeoutMs = 1_000;
