import * as z from "zod";
import { oneOf, text, trueOrFalse, wholeNumber } from "./setting-types.js";

const file = text("the path of a file").nullable().prefault(null);

const redisUrl = text("a Redis URL")
  .regex(/^(rediss?:\/\/|rediss?\+(sentinel|cluster):\/\/|[^\s/,]+:\d+(,[^\s/,]+:\d+)+$)/, {
    error:
      "must begin with redis://, rediss://, redis+sentinel:// or redis+cluster://, or list nodes as host:port,host:port",
  })
  .nullable()
  .prefault(null)
  .describe(
    "Redis that all replicas share: one server, a Sentinel group or a cluster. Null: an embedded database file.",
  );

/** `state:`, where keys, limits, usage and deliveries are kept. */
export const stateSettings = z.strictObject({
  redis_url: redisUrl,
  durability: oneOf(["every-write", "none"])
    .prefault("every-write")
    .describe("`every-write`: kept as well as the store can. `none`: everything in memory, lost at the end."),
  allow_volatile: trueOrFalse
    .prefault(false)
    .describe("Whether a Redis without an append-only file is accepted: what it holds is lost when it stops."),
  redis_tls: z
    .strictObject({
      ca_file: file.describe("Certificates that Redis servers are checked against, PEM. Null: the system's."),
      cert_file: file.describe("Client certificate, PEM."),
      key_file: file.describe("Its private key, PEM."),
      server_name: text("a host name")
        .nullable()
        .prefault(null)
        .describe("Name that Redis's certificate is checked for. Null: the host of the URL."),
    })
    .prefault({}),
  when_away: oneOf(["local", "deny", "allow"])
    .prefault("local")
    .describe(
      "Limits while Redis is away: each process decides by its share (`local`), refuses with 503 (`deny`), or lets all in (`allow`).",
    ),
  spool_max: wholeNumber(1_000, 10_000_000)
    .prefault(1_000_000)
    .describe("Ends of requests that may wait in the data folder while the store is away."),
  spool_full: oneOf(["refuse", "uncounted"])
    .prefault("refuse")
    .describe("When that many wait: `refuse` new inference with 503, or go on `uncounted`, with an alarm in the log."),
});
