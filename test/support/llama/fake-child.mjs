/**
 * Replaces the program of the engine's child processes: same protocol, and the first word of a prompt is a command.
 * The "model" is a JSON file with the result of each child's load in `loads`: "ok", "fail", "die", "hang"; the last one is
 * repeated. The loads are counted in a second file in the same folder.
 */
import { appendFileSync, readFileSync } from "node:fs";

const say = (message) => process.send(message);
const aborts = new Map();
const deep = [];
let isMute = false;
let life = 0;
/** The build with which the model is loaded. */
let build;

function events(call, ...list) {
  say({ type: "events", events: list.map((event) => [call, event]) });
}

const accepted = { type: "accepted", promptTokens: 7, cachedTokens: 2 };
const token = (outTokens) => ({ type: "text", choice: 0, text: `t${outTokens} `, outTokens });

function finish(call, outTokens) {
  events(
    call,
    { type: "finish", choice: 0, reason: "stop", outTokens },
    { type: "usage", promptTokens: 7, outTokens, cachedTokens: 2, reasoningTokens: 0 },
  );
  say({ type: "done", call });
}

function speak(call, text) {
  events(call, accepted, { type: "text", choice: 0, text, outTokens: 1 });
  finish(call, 1);
}

function endless(call) {
  let outTokens = 0;
  events(call, accepted);
  const timer = setInterval(() => events(call, token(++outTokens)), 2);
  aborts.set(call, () => {
    clearInterval(timer);
    const usage = { promptTokens: 7, outTokens: outTokens + 1, cachedTokens: 2 };
    say({ type: "failed", call, error: { code: "aborted", message: "aborted", retryable: false, param: null, usage } });
  });
}

/** Delays a death until the messages before it are sent. */
const soon = (run) => setTimeout(run, 20);
const die = () => process.kill(process.pid, "SIGKILL");
const stop = () => process.kill(process.pid, "SIGSTOP");

const deeds = {
  say: (call, count) => {
    events(call, accepted, ...Array.from({ length: count }, (_, i) => token(i + 1)));
    finish(call, count);
  },
  die: () => die(),
  "die-accepted": (call) => {
    events(call, accepted);
    soon(die);
  },
  "die-talking": (call, count) => {
    events(call, accepted, ...Array.from({ length: count }, (_, i) => token(i + 1)));
    soon(die);
  },
  "die-once": (call) => {
    events(call, accepted);
    if (life === 1) soon(die);
    else {
      events(call, token(1));
      finish(call, 1);
    }
  },
  /** The second child produces so many tokens and ends the call only when it is aborted. */
  "die-slow": (call, count) => {
    if (life === 1) {
      die();
      return;
    }
    events(call, accepted, ...Array.from({ length: count }, (_, i) => token(i + 1)));
    const usage = { promptTokens: 7, outTokens: count, cachedTokens: 2 };
    const error = { code: "aborted", message: "aborted", retryable: false, param: null, usage };
    aborts.set(call, () => say({ type: "failed", call, error }));
  },
  stop: () => stop(),
  "stop-talking": (call) => {
    events(call, accepted, token(1));
    soon(stop);
  },
  mute: () => {
    isMute = true;
  },
  endless,
  deaf: (call) => events(call, accepted, token(1)),
  /** Ends at the next `count` call; ignores aborts. */
  deep: (call) => {
    events(call, accepted, token(1));
    deep.push(call);
  },
  pid: (call) => speak(call, String(process.pid)),
  "max-tokens": (call, _, { maxTokens }) => speak(call, String(maxTokens)),
  env: (call) => speak(call, JSON.stringify(process.env)),
  build: (call) => speak(call, JSON.stringify(build)),
  refuse: (call) =>
    say({
      type: "failed",
      call,
      error: { code: "bad_schema", message: "no", retryable: false, param: "response_format", usage: null },
    }),
  warn: (call) => {
    process.stderr.write("plain line\n\u001b[31mERROR: \u0007bad thing\u001b[0m\n");
    process.stdout.write("this goes nowhere\n");
    soon(() => speak(call, "warned"));
  },
};

function load(path) {
  const { loads } = JSON.parse(readFileSync(path, "utf8"));
  appendFileSync(`${path}.lives`, ".");
  life = readFileSync(`${path}.lives`).length;
  const how = loads[Math.min(life, loads.length) - 1];
  const error = { code: "model_not_loaded", message: "bad magic", retryable: false, param: null, usage: null };
  if (how === "fail") say({ type: "load_failed", error });
  if (how === "die") {
    process.stderr.write("GGML_ASSERT(x) failed\n");
    soon(die);
  }
  if (how !== "ok") return;
  say({ type: "loading", share: 0.5 });
  const facts = {
    contextLength: 512,
    vocabSize: 300,
    longestTokenBytes: 8,
    tools: "auto",
    fingerprint: "0123456789ab",
    bindingVersion: "3",
    placement: { gpu: build.gpus[0] || null, gpuLayers: build.gpus[0] ? 3 : 0, layers: 4, unusable: [] },
  };
  say({ type: "loaded", facts: { ...facts, embeddingDims: path.includes("embedding") ? 4 : null } });
}

function generate({ call, request }) {
  const [deed, count] = (request.input.type === "text" ? request.input.text : "say 3").split(" ");
  deeds[deed](call, Number(count), request);
}

process.on("message", (message) => {
  if (isMute) return;
  switch (message.type) {
    case "ping":
      return say({ type: "pong", ping: message.ping, slotsBusy: 0, memoryBytes: 64_000_000 });
    case "load":
      build = message.model.build;
      return load(message.model.path);
    case "generate":
      return generate(message);
    case "embed":
      return message.request.inputs[0] === "die-once" && life === 1
        ? die()
        : say({
            type: "embedded",
            call: message.call,
            vectors: new Float32Array(message.request.inputs.flatMap(() => [0.5, 0.5, 0.5, 0.5])),
            promptTokens: message.request.inputs.length,
          });
    case "count":
      for (const call of deep.splice(0)) finish(call, 1);
      return say({ type: "counted", call: message.call, tokens: 7 });
    case "abort":
      return aborts.get(message.call)?.();
  }
});
process.on("disconnect", () => process.exit(0));
say({ type: "up" });
