import * as z from "zod";
import { uis } from "../cli-run.js";
import { eventually } from "../eventually.js";
import * as answers from "./answers.js";
import type { CommandRows } from "./command-row.js";

const metered = ["--metric", "tokens", "--period", "day", "--limit"];

/** Keys, usage, its limits, and the administrator. */
export const rowsOfAccess: CommandRows = {
  "keys create": {
    done: (scene) => ({ words: ["--name", scene.name(), "--scope", "read", "--expires", "30d", "--rpm", "60"] }),
    answer: answers.newKey,
    text: /^Key {5}key_\S+\nSecret {2}sk-uis-\S+ {3}\(shown once: store it now\)\n$/,
    wrong: { words: ["--name", "x", "--scope", "admin"], says: "Allowed choices are read, read_write" },
    failing: () => ({ words: ["--name", "x", "--scope", "read", "--account", "Not An Account"], says: "account" }),
    asksService: true,
  },
  "keys list": {
    done: async (scene) => {
      await scene.key();
      return { words: [] };
    },
    answer: z.array(answers.key).min(1),
    text: /^ID +NAME +ACCOUNT +SCOPE +SECRET +STATE +LAST USED +EXPIRES\nkey_\S+ {2}n\d+ +default +read +sk-uis-/,
    wrong: { words: ["key_1"], says: "too many arguments" },
    failing: null,
    asksService: true,
  },
  "keys update": {
    done: async (scene) => ({ words: [await scene.key(), "--name", "renamed", "--expires", "never", "--rpm", "none"] }),
    answer: answers.key.extend({ name: z.literal("renamed"), expires_at: z.null() }),
    text: /^ID .*\nkey_\S+ {2}renamed {2}/,
    wrong: { words: ["key_1"], says: "nothing to change" },
    failing: () => ({ words: ["key_unknown", "--name", "x"], says: "There is no API key with this id" }),
    asksService: true,
  },
  "limits set": {
    done: (scene) => ({ words: ["--account", scene.name(), "--rpm", "600"] }),
    answer: answers.limitReport,
    text: /^Limits of the account n\d+:\n\nLIMIT .*\nrequests per minute +600 +600 +- +0\n/,
    wrong: { words: ["--rpm", "600"], says: "name one owner" },
    failing: () => ({ words: ["--key", "key_unknown", "--rpm", "1"], says: "There is no API key with this id" }),
    asksService: true,
  },
  "limits show": {
    done: () => ({ words: ["--model", "test-chat"] }),
    answer: answers.limitReport,
    text: /^Limits of the model test-chat, used by the account default:\n\nLIMIT .*\nrequests per minute +unlimited/,
    wrong: { words: ["--key", "key_1", "--model", "m"], says: "--key excludes the others" },
    failing: () => ({ words: ["--account", "Not An Account"], says: "account" }),
    asksService: true,
  },
  "keys revoke": {
    done: async (scene) => ({ words: [await scene.key()] }),
    answer: answers.key.extend({ revoked_at: z.iso.datetime() }),
    text: /^key_\S+ is revoked\.\n$/,
    wrong: { words: [], says: "missing required argument 'id'" },
    failing: () => ({ words: ["key_unknown"], says: "There is no API key with this id" }),
    asksService: true,
  },
  "keys rotate": {
    done: async (scene) => ({ words: [await scene.key(), "--overlap", "1h"] }),
    answer: answers.newKey,
    text: /^Key {5}key_\S+\nSecret {2}sk-uis-\S+ {3}\(shown once: store it now\)\n$/,
    wrong: { words: ["key_1", "--overlap", "soon"], says: `--overlap: invalid duration "soon"` },
    failing: () => ({ words: ["key_unknown"], says: "There is no API key with this id" }),
    asksService: true,
  },
  "admin link": {
    done: () => ({ words: [] }),
    answer: z.strictObject({ url: z.url() }),
    text: /^http:\S+#token=\S+\n\nValid for one use/,
    wrong: { words: ["now"], says: "too many arguments" },
    failing: null,
    asksService: true,
  },
  usage: {
    done: async (scene) => {
      await scene.delivery();
      return { words: ["--by", "day,model,key"] };
    },
    answer: z.array(answers.usageRow).min(1),
    text: /^DAY +MODEL +KEY +REQUESTS +.* COST\n\d{4}-\d\d-\d\d {2}test-chat +key_\S+ .* \$0\.00\n/,
    wrong: { words: ["--by", "week"], says: "--by takes day, model, key and operation, not week" },
    failing: () => ({ words: ["--from", "2026-02-01", "--to", "2026-01-01"], says: "start_time" }),
    asksService: true,
  },
  logs: {
    done: async (scene) => {
      await scene.delivery();
      const words = ["--limit", "1", "--model", "test-chat", "--code", "ok"];
      await eventually(
        async () => (await uis(["logs", ...words], { env: scene.env })).stdout !== "",
        "a stored request",
      );
      return { words };
    },
    answer: answers.requestLog,
    text: /^TIME +CODE +MODEL +KEY +ATTEMPTS +FIRST +TOTAL +TOKENS +COST +REQUEST\n\S+Z {2}ok +test-chat +key_.* req_\w+\n$/,
    wrong: { words: ["--limit", "0"], says: "between 1 and 1000" },
    failing: () => ({ words: ["--code", "nonsense"], says: "'code' must be ok, error for all errors" }),
    asksService: true,
  },
  "thresholds add": {
    done: (scene) => ({
      words: [...metered, "1000", "--percents", "50,100", "--action", "refuse", "--account", scene.name()],
    }),
    answer: answers.threshold,
    text: /^ID .*\nthr_\S+ {2}n\d+ +tokens +day +0 +1000 +refuse +50% 100%\n$/,
    wrong: { words: [...metered, "much"], says: `--limit: invalid limit "much"; use a whole number` },
    failing: () => ({ words: [...metered, "1000", "--percents", "500"], says: "percents" }),
    asksService: true,
  },
  "thresholds list": {
    done: async (scene) => {
      await scene.threshold();
      return { words: [] };
    },
    answer: z.array(answers.threshold).min(1),
    text: /^ID +OWNER +METRIC +PERIOD +USED +LIMIT +ACTION +NOTIFY AT\nthr_\S+ {2}/,
    wrong: { words: ["--account"], says: "argument missing" },
    failing: null,
    asksService: true,
  },
  "thresholds rm": {
    done: async (scene) => ({ words: [await scene.threshold()] }),
    answer: answers.threshold.extend({ deleted: z.literal(true) }),
    text: /^thr_\S+ is deleted\.\n$/,
    wrong: { words: [], says: "missing required argument 'id'" },
    failing: () => ({ words: ["thr_unknown"], says: "thr_unknown" }),
    asksService: true,
  },
};
