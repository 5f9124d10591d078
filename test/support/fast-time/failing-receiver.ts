/**
 * The first process under `faketime`: a receiver of webhooks that waits and then always answers 500. It sends its
 * parent each request and, on demand, the time of its clock; it ends with its parent.
 */
import process from "node:process";
import { startReceiver } from "../receivers/receiver.js";
import type { ReceiverMessage } from "./receiver-message.js";

/** Delay of the answer in fast time: long enough to distinguish the end of an attempt from its start. */
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
