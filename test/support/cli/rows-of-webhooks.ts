import * as z from "zod";
import { signWebhook } from "../../../src/lib/webhook-signature.js";
import { eventually } from "../eventually.js";
import * as answers from "./answers.js";
import type { CommandRows } from "./command-row.js";

const secret = `whsec_${Buffer.alloc(32, "s").toString("base64")}`;
const body = '{"type":"request.completed"}';
const signature = () => signWebhook({ secrets: [secret], timestampS: Math.floor(Date.now() / 1000), body });
const needsId = { words: [], says: "missing required argument 'id'" };

/** Endpoints, deliveries, and help for receivers. */
export const rowsOfWebhooks: CommandRows = {
  "webhooks add": {
    done: (scene) => ({ words: [...scene.addEndpoint("taken").slice(2), "--account", scene.name()] }),
    answer: answers.newEndpoint,
    text: /^Endpoint {2}we_\S+\nSecret {4}whsec_\S+ {3}\(shown once: store it now\)\n$/,
    wrong: { words: ["--url", "https://example.com/"], says: "required option '--events <types>'" },
    failing: () => ({ words: ["--url", "https://example.com/", "--events", "request.begun"], says: "request.begun" }),
    asksService: true,
  },
  "webhooks list": {
    done: async (scene) => ({ words: (await scene.endpoint()).slice(1) }),
    answer: z.array(answers.endpoint).length(1),
    text: /^ID +STATUS +ACCOUNT +URL +EVENTS +FAILING SINCE\nwe_\S+ {2}enabled .*request\.completed\n$/,
    wrong: { words: ["we_1"], says: "too many arguments" },
    failing: null,
    asksService: true,
  },
  "webhooks rm": {
    done: async (scene) => ({ words: await scene.endpoint() }),
    answer: z.strictObject({
      id: z.string().startsWith("we_"),
      object: z.literal("webhook_endpoint"),
      deleted: z.literal(true),
    }),
    text: /^we_\S+ is deleted\./,
    wrong: needsId,
    failing: () => ({ words: ["we_unknown"], says: "There is no webhook endpoint with this id" }),
    asksService: true,
  },
  "webhooks rotate": {
    done: async (scene) => ({ words: [...(await scene.endpoint()), "--overlap", "1h"] }),
    answer: answers.newEndpoint.extend({ previous_secret_expires_at: z.iso.datetime() }),
    text: /^Endpoint {2}we_\S+\nSecret {4}whsec_\S+ {3}\(shown once: store it now\)\n$/,
    wrong: { words: ["we_1", "--overlap", "soon"], says: `--overlap: invalid duration "soon"` },
    failing: () => ({ words: ["we_unknown"], says: "There is no webhook endpoint with this id" }),
    asksService: true,
  },
  "webhooks test": {
    done: async (scene) => ({ words: await scene.endpoint("taken") }),
    answer: z.strictObject({
      delivered: z.literal(true),
      status: z.literal(200),
      error: z.null(),
      latency_ms: z.number(),
      response: z.string(),
      event: z.looseObject({ id: z.string(), type: z.literal("request.completed"), test: z.literal(true) }),
    }),
    text: /^delivered: 200 after \d+ ms\n/,
    wrong: needsId,
    failing: async (scene) => ({
      words: await scene.endpoint("refused"),
      says: "not delivered: 500 after",
      on: "stdout",
    }),
    asksService: true,
  },
  "webhooks deliveries": {
    done: async (scene) => {
      await scene.delivery();
      return { words: ["--limit", "10"] };
    },
    answer: z.array(answers.listedDelivery).length(1),
    text: /^ID +CREATED +EVENT +ENDPOINT +STATE +ATTEMPTS +LAST +NEXT ATTEMPT\ndlv_\S+ {2}\S+ {2}request\.completed {2}we_\S+ {2}/,
    wrong: { words: ["--state", "lost"], says: "Allowed choices are pending, " },
    failing: null,
    asksService: true,
  },
  "webhooks inspect": {
    done: async (scene) => ({ words: [await scene.delivery()] }),
    answer: answers.delivery.extend({ event: z.looseObject({ type: z.literal("request.completed") }) }),
    text: /^ID .*\ndlv_\S+ .*\n {2}1 .* schedule {2}500 after \d+ ms\n/,
    wrong: needsId,
    failing: () => ({ words: ["dlv_unknown"], says: "There is no delivery with this id" }),
    asksService: true,
  },
  "webhooks retry": {
    done: async (scene) => ({ words: [await scene.delivery()] }),
    answer: answers.delivery,
    text: /^ID .*\ndlv_\S+ {2}/,
    wrong: needsId,
    failing: () => ({ words: ["dlv_unknown"], says: "There is no delivery with this id" }),
    asksService: true,
  },
  "webhooks replay": {
    done: async (scene) => {
      const [id = "", ...account] = await scene.endpoint();
      return { words: [id, "--from", "2026-01-01", ...account] };
    },
    answer: z.strictObject({
      replay_id: z.string(),
      queued: z.literal(0),
      waiting: z.literal(0),
      delivered: z.literal(0),
      failed: z.literal(0),
      created_before: z.iso.datetime(),
    }),
    text: /^\S+: 0 queued;/,
    wrong: { words: ["we_1", "--from", "yesterday"], says: `--from: invalid date "yesterday"` },
    failing: () => ({ words: ["we_unknown", "--from", "2026-01-01"], says: "must be the id of a webhook endpoint" }),
    asksService: true,
  },
  "webhooks verify": {
    done: () => ({ words: ["--secret", secret, "--header", signature()], stdin: body }),
    answer: z.strictObject({ valid: z.literal(true) }),
    text: /^valid\n$/,
    wrong: { words: ["--header", "t=1"], says: "required option '--secret <secret>'" },
    failing: () => ({
      words: ["--secret", secret, "--header", signature()],
      stdin: `${body}\n`,
      says: "not valid: no signature v1 matches this body",
      on: "stdout",
    }),
    asksService: false,
  },
  "webhooks listen": {
    done: () => ({ words: ["--port", "0"] }),
    answer: answers.receivedDelivery,
    text: /^\d\d:\d\d:\d\d {2}request\.completed {2}not verified\n/,
    progress: /^Listening at http:\S+, signatures are not verified without --secret\. Ctrl-C ends it\.\n$/,
    wrong: { words: ["--port", "70000"], says: "between 0 and 65535" },
    failing: (scene) => ({ words: ["--port", String(scene.receiver.port)], says: "choose another one with --port" }),
    asksService: false,
    untilSignal: async ({ stdout, stderr }) => {
      await eventually(() => stderr().includes("Ctrl-C"), "the address", 30_000);
      const [url = ""] = /http:\/\/\S+\//.exec(stderr()) ?? [];
      await fetch(url, { method: "POST", body });
      await eventually(() => stdout().endsWith("\n"), "the delivery");
    },
  },
};
