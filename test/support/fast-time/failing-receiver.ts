/**
 * The first process of a fast time: a receiver of webhooks that takes a while and then answers 500, whatever comes. It
 * tells its parent what it gets and, when asked, what its clock says; it ends with its parent.
 */
import process from "node:process";
import { startReceiver } from "../receivers/receiver.js";
import type { ReceiverMessage } from "./receiver-message.js";

/** Of its own time: so long that the end of an attempt cannot be taken for its beginning. */
const answersAfterMs = 3_000;

const tell = (message: ReceiverMessage) => void process.send?.(message);
const shared = ["LD_PRELOAD", "FAKETIME", "FAKETIME_SHARED", "FAKETIME_DONT_RESET"];

process.on("disconnect", () => process.exit());
process.on("message", () => tell({ nowMs: Date.now() }));

const receiver = await startReceiver({
  answer({ path, headers, rawBody, arrivedAtMs }) {
    const answeredAtMs = arrivedAtMs + answersAfterMs;
    tell({ request: { path, headers, body: rawBody.toString(), arrivedAtMs, answeredAtMs } });
    return { status: 500, afterMs: answersAfterMs };
  },
});
const env = Object.fromEntries(shared.map((name) => [name, process.env[name] ?? ""]));
tell({ ready: { url: receiver.url, env } });
