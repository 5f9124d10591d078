import { createInterface } from "node:readline";
import { admission } from "../../../support/records.js";
import { keyScope, openReplica } from "./redis-ledger-harness.js";

/**
 * A replica for bursts.test.ts. Arguments: URL, name, limit of requests, limit of tokens, tokens of a request. It reads
 * lines with the number of ms to advance the time and the number of requests to admit in parallel, and writes how many were
 * admitted.
 */
const [url = "", name = "", requestsPerMinute, tokensPerMinute, tokens] = process.argv.slice(2);
const limits = { requestsPerMinute: Number(requestsPerMinute), tokensPerMinute: Number(tokensPerMinute) };
const reserve = { tokens: Number(tokens), costNano: 0 };
const replica = await openReplica(url);
let asked = 0;

process.stdout.write("ready\n");
for await (const line of createInterface({ input: process.stdin })) {
  const [advanceMs = 0, count = 0] = line.split(" ").map(Number);
  replica.advance(advanceMs);
  const admissions = await Promise.all(
    Array.from({ length: count }, () =>
      replica.ledger.admit(admission(`${name}_${asked++}`, { scopes: [keyScope(limits)], reserve })),
    ),
  );
  process.stdout.write(`${admissions.filter(({ admitted }) => admitted).length}\n`);
}
replica.close();
