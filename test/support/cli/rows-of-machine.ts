import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { restoreEmbeddedState } from "../../../src/state/embedded/database/restore.js";
import { eventually } from "../eventually.js";
import * as answers from "./answers.js";
import type { CommandRows } from "./command-row.js";

const oneFault = "models: [{ id: m, engine: scripted }]\nlimts: {}\n";

/** The service itself, its models, configuration and state. */
export const rowsOfMachine: CommandRows = {
  serve: {
    done: (scene) => ({
      words: ["--config", "good.yaml", "--data-dir", scene.file()],
      env: { LOG_LEVEL: "silent" },
      cwd: scene.folder,
    }),
    answer: answers.ready,
    text: /^Unified Inference \S+ is ready\.\n[\s\S]*Ctrl-C/,
    wrong: { words: ["--port", "eighty"], says: "between 0 and 65535" },
    // A start fails only for wrong usage or configuration: test/integration/cli/serve.test.ts.
    failing: null,
    asksService: false,
    untilSignal: async ({ stdout }) =>
      await eventually(() => /^\{.*\}\n$|Ctrl-C/.test(stdout()), "a service that is ready", 30_000),
  },
  run: {
    done: () => ({ words: ["test-chat", "Say hello."] }),
    answer: z.strictObject({
      id: z.string().startsWith("chatcmpl-"),
      object: z.literal("chat.completion"),
      created: z.number(),
      model: z.literal("test-chat"),
      choices: z.array(z.looseObject({ message: z.looseObject({ content: z.literal("Hello from the script.") }) })),
      usage: z.looseObject({ total_tokens: z.number() }),
      system_fingerprint: z.string(),
    }),
    text: /^Hello from the script\.\n$/,
    wrong: { words: ["test-chat"], says: "missing prompt: pass it as an argument or on stdin" },
    failing: () => ({ words: ["no-such-model", "Hi"], says: "no-such-model" }),
    asksService: true,
  },
  ps: {
    done: () => ({ words: [] }),
    answer: z.array(answers.runningModel).min(1),
    text: /^MODEL +STATE +MEMORY +RUNNING +WAITING +SLOTS +TOKENS +PROBLEM\n[\s\S]*^test-chat +ready +- +0 +0 +\d+ +\d+$/m,
    wrong: { words: ["all"], says: "too many arguments" },
    failing: null,
    asksService: true,
  },
  "models list": {
    done: async (scene) => {
      await scene.model();
      return { words: [], env: scene.apart };
    },
    answer: z.array(answers.listedModel).min(1),
    text: /^ID +KIND +CONTEXT +STATE +FILE\n[\s\S]*^n\d+ +chat +\d+ +not loaded +1\.9 MB$/m,
    wrong: { words: ["all"], says: "too many arguments" },
    failing: null,
    asksService: true,
  },
  "models pull": {
    done: (scene) => ({
      words: [`${scene.hub.endpoint}/owner/repo/resolve/main/chat.gguf`, "--id", scene.name()],
      env: scene.apart,
    }),
    answer: answers.model,
    text: /^n\d+ is stored and not loaded: no service is running here; chat, /,
    progress: /^(fetching: +\d+ %, .* of .*\n){1,11}warning: .*\n$/,
    wrong: { words: ["hf:a/b/c.gguf", "--sha256", "abc"], says: "64 hexadecimal digits" },
    failing: (scene) => ({ words: ["hf:owner/repo/gone.gguf@main"], env: scene.apart, says: "gone.gguf" }),
    asksService: true,
  },
  "models search": {
    done: (scene) => ({ words: ["owner", "repo"], env: scene.apart }),
    answer: z.array(answers.foundModel).min(1),
    text: /^SOURCE +SIZE +DOWNLOADS +LICENSE\nhf:owner\/repo +1234 +mit\n$/,
    wrong: { words: [], says: "missing required argument 'words'" },
    failing: (scene) => ({
      words: ["owner"],
      env: { ...scene.apart, HF_ENDPOINT: "http://127.0.0.1:1" },
      says: "127.0.0.1:1 cannot be reached",
    }),
    asksService: true,
  },
  "models pulls": {
    done: async (scene) => {
      await scene.stalledPull();
      return { words: [] };
    },
    answer: z.array(answers.pull).min(1),
    text: /^ID +STATE +PROGRESS +PROBLEM\n[\s\S]*^n\d+ +downloading +\d+ %, \S+ \S+ of 1\.9 MB\b/m,
    wrong: { words: ["all"], says: "too many arguments" },
    failing: null,
    asksService: true,
  },
  "models cancel": {
    done: async (scene) => ({ words: [await scene.stalledPull()] }),
    answer: answers.pull,
    text: /^The pull of n\d+ is cancelled; the received part is kept\.\n$/,
    wrong: { words: [], says: "missing required argument 'id'" },
    failing: () => ({ words: ["unknown"], says: "No pull of the model 'unknown' is running" }),
    asksService: true,
  },
  "models import": {
    done: (scene) => ({
      words: ["chat.gguf", "--id", scene.name()],
      env: scene.apart,
      cwd: scene.folder,
    }),
    answer: answers.model,
    text: /^n\d+ is stored and not loaded: no service is running here; chat, /,
    wrong: { words: ["chat.gguf", "--id", "two words"], says: "option '--id <id>'" },
    failing: (scene) => ({ words: ["gone.gguf"], env: scene.apart, says: "gone.gguf" }),
    asksService: true,
  },
  "models rm": {
    done: async (scene) => ({ words: [await scene.model()], env: scene.apart }),
    answer: answers.model,
    text: /^n\d+ is removed\.\n$/,
    wrong: { words: [], says: "missing required argument 'id'" },
    failing: (scene) => ({ words: ["unknown"], env: scene.apart, says: "unknown" }),
    asksService: true,
  },
  "models inspect": {
    done: async (scene) => ({ words: [await scene.model()], env: scene.apart }),
    answer: answers.inspectedModel,
    text: /^id +n\d+\nkind +chat\n/,
    wrong: { words: [], says: "missing required argument 'id-or-file'" },
    failing: (scene) => ({ words: ["unknown"], env: scene.apart, says: "no model is stored" }),
    asksService: true,
  },
  "upstreams check": {
    // The service itself is the upstream, because it has OpenAI's API.
    done: async (scene) => {
      const file = scene.file();
      await writeFile(file, scene.service.key);
      return { words: [`${scene.service.http}/v1`, "--key-file", file] };
    },
    answer: answers.checkedUpstream,
    text: /^http:\S+ is generic, with \d+ models?; answered in \d+ ms\.\n[\s\S]*\nupstreams:\n/,
    wrong: { words: ["http://169.254.169.254/v1"], says: "link-local or metadata address" },
    failing: () => ({ words: ["http://127.0.0.1:1/v1"], says: "cannot be reached" }),
    asksService: false,
  },
  completion: {
    done: () => ({ words: ["bash"] }),
    answer: z.strictObject({ shell: z.literal("bash"), script: z.string().includes("complete -o filenames") }),
    text: /^# Completion of uis for bash\. /,
    wrong: { words: ["tcsh"], says: "Allowed choices are bash, zsh, fish" },
    failing: null,
    asksService: false,
  },
  "config init": {
    done: (scene) => ({ words: [`${scene.name()}.yaml`], cwd: scene.folder }),
    answer: z.strictObject({ file: z.string().endsWith(".yaml") }),
    text: /n\d+\.yaml is written\. Edit it, then: uis config check --config n\d+\.yaml, uis serve/,
    wrong: { words: ["a.yaml", "b.yaml"], says: "too many arguments" },
    failing: (scene) => ({ words: ["good.yaml"], cwd: scene.folder, says: "it exists, and is not overwritten" }),
    asksService: false,
  },
  "config check": {
    done: (scene) => ({ words: ["good.yaml"], cwd: scene.folder }),
    answer: z.tuple([]),
    text: /good\.yaml is valid\.\n$/,
    wrong: { words: ["good.yaml", "bad.yaml"], says: "too many arguments" },
    // A faulty configuration is exit code 2: test/integration/cli/config.test.ts.
    failing: null,
    asksService: false,
  },
  "config import": {
    done: (scene) => ({ words: ["litellm", "litellm.yaml"], cwd: scene.folder }),
    answer: z.strictObject({ yaml: z.string().includes("upstreams:"), notes: z.array(z.looseObject({})) }),
    text: /\nupstreams:\n[\s\S]*\nmodels:\n/,
    progress: /^model_list has 1 entries: 1 models with 1 deployments on 1 upstreams\. .*\n/,
    wrong: { words: ["other", "litellm.yaml"], says: "Allowed choices are litellm" },
    // A file that cannot be imported is exit code 2: test/unit/app/litellm/import-litellm.test.ts.
    failing: null,
    asksService: false,
  },
  "config schema": {
    done: () => ({ words: [] }),
    answer: z.looseObject({ $schema: z.url(), type: z.literal("object"), properties: z.looseObject({}) }),
    text: /^\{\n {2}"\$schema"/,
    wrong: { words: ["all"], says: "too many arguments" },
    failing: null,
    asksService: false,
    foreignKeys: true,
  },
  "config show": {
    done: (scene) => ({ words: ["--config", "good.yaml"], cwd: scene.folder }),
    answer: z.looseObject({ server: z.looseObject({}), state: z.looseObject({}), models: z.array(z.looseObject({})) }),
    text: /^server:\n {2}host: /,
    wrong: { words: ["--config", "gone.yaml"], says: "gone.yaml does not exist" },
    failing: null,
    asksService: false,
  },
  doctor: {
    done: (scene) => ({
      words: ["--config", "good.yaml", "--data-dir", join(scene.folder, "doctor")],
      env: { PATH: process.env["PATH"] ?? "", UIS_OFFLINE: "1" },
      cwd: scene.folder,
    }),
    answer: z.array(answers.check).min(5),
    text: /^(ok|warn) +node /,
    wrong: { words: ["now"], says: "too many arguments" },
    failing: (scene) => ({
      words: ["--config", "bad.yaml"],
      cwd: scene.folder,
      says: 'did you mean "limits"',
      on: "stdout",
    }),
    asksService: false,
  },
  "engine list": {
    done: (scene) => ({ words: [], cwd: scene.folder }),
    answer: z.array(
      z.strictObject({
        name: z.enum(["cpu", "metal", "cuda", "vulkan", "rocm"]),
        platform: z.string(),
        installed: z.boolean(),
        in_use: z.boolean(),
        bytes: z.number().nullable(),
        download_bytes: z.number().nullable(),
        note: z.string().nullable(),
      }),
    ),
    text: /^NAME +PLATFORM +INSTALLED +IN USE +SIZE +NOTE\ncpu +linux-x64 +yes +yes +29\.6 MB\n/,
    wrong: { words: ["all"], says: "too many arguments" },
    failing: null,
    asksService: false,
  },
  "engine install": {
    done: (scene) => ({ words: ["cpu"], cwd: scene.folder }),
    answer: z.looseObject({ name: z.literal("cpu"), installed: z.literal(true), in_use: z.literal(true) }),
    text: /^cpu was installed already; it is in use\n$/,
    wrong: { words: ["quantum"], says: "Allowed choices are cpu, metal, cuda, vulkan, rocm" },
    failing: (scene) => ({ words: ["rocm"], cwd: scene.folder, says: "AMD cards use the build vulkan" }),
    asksService: false,
  },
  backup: {
    done: (scene) => ({ words: [scene.file()] }),
    answer: z.strictObject({ file: z.string() }),
    text: /^The state is copied to /,
    wrong: { words: [], says: "missing required argument 'file'" },
    failing: async (scene) => ({ words: [await scene.backup()], says: "exists and is not overwritten" }),
    asksService: true,
  },
  restore: {
    done: async (scene) => ({ words: [await scene.backup()], env: { UIS_DATA_DIR: scene.file() } }),
    answer: z.strictObject({ file: z.string(), data_dir: z.string(), replaced: z.string().nullable() }),
    text: /^The state in .* is that of /,
    wrong: { words: [], says: "missing required argument 'file'" },
    failing: async (scene) => ({ words: [await scene.backup()], says: "stop" }),
    asksService: false,
  },
  "state copy": {
    done: async (scene) => ({ words: ["--to", await scene.redis()] }),
    answer: z.strictObject({ source: z.string(), copied: z.record(z.string(), z.number()) }),
    text: /^KIND +COPIED\nsettings +\d+\napi_keys +\d+\n[\s\S]*\nStart the new service with UIS_MASTER_KEY=/,
    wrong: { words: [], says: "required option '--to <redis-url>' not specified" },
    failing: async (scene) => ({
      // Another database of the same Redis server, which is empty.
      words: ["--to", (await scene.redis()).replace(/0$/, "1"), "--check"],
      says: "Redis has another state",
      on: "stdout",
    }),
    asksService: true,
  },
  "state repair-time": {
    async done(scene) {
      const dataDir = scene.file();
      restoreEmbeddedState({ dataDir, file: await scene.backup(), nowMs: Date.now() });
      return { words: [], env: { UIS_DATA_DIR: dataDir } };
    },
    answer: z.strictObject({
      data_dir: z.string(),
      now: z.string(),
      changed: z.record(z.string(), z.number()),
      kept: z.string().nullable(),
    }),
    text: /^No time in .* is ahead of this machine's clock/,
    wrong: { words: ["now"], says: "too many arguments" },
    failing: (scene) => ({ words: [], env: { UIS_DATA_DIR: scene.file() }, says: "there is no state" }),
    asksService: false,
  },
};

/** Contents of the files that rows use, by file name. */
export const filesOfMachine: Readonly<Record<string, string>> = {
  "good.yaml": "models: [{ id: m, engine: scripted }]\nserver: { port: 0, grpc_port: 0, ops_port: 0 }\n",
  "bad.yaml": oneFault,
  "litellm.yaml":
    "model_list: [{ model_name: m, litellm_params: { model: hosted_vllm/m, api_base: 'http://gpu:8000/v1' } }]\n",
};
