/** Runs the documented snippet on vectors: a line `secret,header,body,now` each, the first three in hex. */
import { createInterface } from "node:readline";

interface Snippet {
  verify(secret: string, header: string, body: Uint8Array, now: number): boolean;
}

const { verify } = (await import(new URL("webhook.mts", import.meta.url).href)) as Snippet;

for await (const line of createInterface({ input: process.stdin })) {
  const [secret = "", header = "", body = "", now] = line.split(",");
  const text = (hex: string) => Buffer.from(hex, "hex").toString("utf8");
  const valid = verify(text(secret), text(header), Buffer.from(body, "hex"), Number(now));
  process.stdout.write(`${valid}\n`);
}
