import * as z from "zod";
import * as answers from "./answers.js";
import type { CommandRows } from "./command-row.js";

/** The upstreams of the running service. */
export const rowsOfUpstreams: CommandRows = {
  "upstreams add": {
    done: async (scene) => ({ words: await scene.addUpstream(scene.name()) }),
    answer: answers.upstream,
    text: /^NAME +SOURCE +KIND +URL +STATE +MODELS\nn\d+ +stored +generic +http:\S+ +\d+ of \d+ ready.*\n/,
    wrong: { words: ["gpu", "--url", "http://gpu/v1", "--kind", "other"], says: "Allowed choices are openai" },
    failing: () => ({ words: ["gpu", "--url", "http://127.0.0.1:1/v1"], says: "cannot be reached" }),
    asksService: true,
  },
  "upstreams list": {
    done: async (scene) => {
      await scene.upstream();
      return { words: [] };
    },
    answer: z.array(answers.upstream).min(1),
    text: /^\S+ +stored +\S+ +http:\S+ +\d+ of \d+ ready/m,
    wrong: { words: ["all"], says: "too many arguments" },
    failing: null,
    asksService: true,
  },
  "upstreams rm": {
    done: async (scene) => ({ words: [(await scene.upstream()).name] }),
    answer: z.strictObject({ name: z.string(), object: z.literal("upstream"), deleted: z.literal(true) }),
    text: /^n\d+ is deleted\. Its running requests end normally\.\n$/,
    wrong: { words: [], says: "missing required argument 'name'" },
    failing: () => ({ words: ["nobody"], says: "There is no stored upstream with the name" }),
    asksService: true,
  },
  "upstreams drain": {
    done: async (scene) => ({ words: [(await scene.upstream()).deployment] }),
    answer: answers.deployment,
    text: /^n\d+\/\S+ gets no new requests; 0 still run\.\n$/,
    wrong: { words: [], says: "missing required argument 'deployment'" },
    failing: () => ({ words: ["nobody/none"], says: "There is no deployment with the id" }),
    asksService: true,
  },
};
