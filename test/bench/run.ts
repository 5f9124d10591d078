/**
 * The first load run. Chat completions over REST at 32 connections against a bare node:http echo, in turns of a second on
 * the same core, with the state that `npm start` uses and with `state.durability: none`; the cost of streamed chunks, of
 * chats, responses and messages; embeddings of 1,536 numbers as `float`. Turns are short because a shared machine changes its
 * speed: a ratio compares two neighbouring turns, and the report has the median. Scripted engine, 200 tokens, authentication
 * and validation on. Needs Linux, two cores and a build (`npm run build`).
 *
 *   npm run bench [-- --seconds 1 --repeats 15]
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { temporaryFolder } from "./cleanup.js";
import { httpRequest, median } from "./http-request.js";
import { type PinnedProcess, startPinned } from "./pinned-process.js";
import { type LoadResult, load } from "./raw-client.js";

const serverCore = 0;
const connections = 32;
const tokens = 200;
/**
 * Required minimums: requests per second relative to the echo server, without and with state on disk; tokens per second of
 * streamed responses and messages relative to streamed chats; embeddings per second.
 */
const gates = {
  chat_over_echo: 0.5,
  durable_chat_over_echo: 0.3,
  responses_tokens_over_chat: 0.8,
  messages_tokens_over_chat: 0.8,
  embeddings_per_second: 4_000,
};
/** V8 continues to compile for about three seconds, on the same core. */
const warmUpSeconds = 5;
/** Text for a request of about 720 bytes with its headers: a short turn of a conversation, as in published comparisons. */
const question =
  "Explain how a queue in front of a model keeps one busy customer from slowing down all others. ".repeat(4);

const { values } = parseArgs({
  options: { seconds: { type: "string", default: "1" }, repeats: { type: "string", default: "15" } },
});
const seconds = Number(values.seconds);
const repeats = Number(values.repeats);

interface Measured extends LoadResult {
  readonly cpuMs: number;
}

type Measure = (seconds: number) => Promise<Measured>;

function measureOf(server: PinnedProcess, port: number, request: Buffer): Measure {
  return async (seconds) => {
    const before = server.cpuMs();
    const result = await load(port, request, connections, seconds);
    if (result.failures > 0) throw new Error(`${result.failures} of ${result.answers} answers were not 200`);
    return { ...result, cpuMs: server.cpuMs() - before };
  };
}

const folder = temporaryFolder("load");
const models = [
  {
    id: "test-chat",
    engine: "scripted",
    slots: connections,
    scripted: { text: "one two three four five", tokens },
  },
  { id: "test-embed", engine: "scripted", slots: connections, scripted: { dimensions: 1536 } },
];
const message = {
  model: "test-chat",
  temperature: 0.7,
  messages: [
    { role: "system", content: "You are a helpful assistant. Answer in short sentences and name your sources." },
    { role: "user", content: question },
  ],
};
/** The same chat in the format of the responses and the messages API. */
const { messages, ...agentRequest } = message;
const [system, ...rest] = messages;
const turns = { system: system?.content, messages: rest };
const processes: PinnedProcess[] = [];

/** Starts a service with its own data folder. Returns a function that prepares the measurement of a path. */
async function startService(name: string, state: object): Promise<(path: string, body: object) => Measure> {
  const config = join(folder, `${name}.yaml`);
  writeFileSync(config, JSON.stringify({ state, models }));
  const env = { ...process.env, UIS_DATA_DIR: join(folder, name), LOG_LEVEL: process.env["LOG_LEVEL"] ?? "info" };
  const ports = ["--port", "0", "--grpc-port", "0", "--ops-port", "0"];
  const args = ["dist/app/cli.js", "serve", "--json", "--config", config, ...ports];
  const service = await startPinned(serverCore, args, env);
  processes.push(service);
  const port = Number(new URL(String(service.ready["api"])).port);
  const key = String((service.ready["api_key"] as Record<string, unknown>)["secret"]);
  return (path, body) => measureOf(service, port, httpRequest(path, key, body));
}

async function startEcho(): Promise<Measure> {
  const echo = await startPinned(serverCore, ["--import", "tsx", "test/bench/echo-server.ts"], process.env);
  processes.push(echo);
  return measureOf(echo, Number(echo.ready["port"]), httpRequest("/v1/chat/completions", "none", message));
}

try {
  const measureEcho = await startEcho();
  const durable = await startService("durable", {});
  const volatile = await startService("volatile", { durability: "none" });
  const chatPath = "/v1/chat/completions";
  const embedding = { model: "test-embed", input: "one two three", encoding_format: "float" };
  const measures = {
    echo: measureEcho,
    chat: volatile(chatPath, message),
    durableChat: durable(chatPath, message),
    stream: volatile(chatPath, { ...message, stream: true }),
    responsesStream: volatile("/v1/responses", { ...agentRequest, input: message.messages, stream: true }),
    messagesStream: volatile("/v1/messages", { ...agentRequest, ...turns, max_tokens: tokens, stream: true }),
    embeddings: volatile("/v1/embeddings", embedding),
  };
  type Row = Record<keyof typeof measures, Measured>;
  for (const measure of Object.values(measures)) await measure(warmUpSeconds);
  const rows: Row[] = [];
  for (let i = 0; i < repeats; i++) {
    const row: Partial<Row> = {};
    for (const [name, measure] of Object.entries(measures)) row[name as keyof Row] = await measure(seconds);
    rows.push(row as Row);
  }
  const perSecond = ({ answers, seconds }: Measured): number => answers / seconds;
  const rateOf = (name: keyof Row): number => Math.round(median(rows.map((row) => perSecond(row[name]))));
  const overEcho = (name: keyof Row): number =>
    Number(median(rows.map((row) => perSecond(row[name]) / perSecond(row.echo))).toFixed(3));
  /** Tokens per second relative to streamed chats: every answer has the same number. */
  const tokensOverChat = (name: keyof Row): number =>
    Number(median(rows.map((row) => perSecond(row[name]) / perSecond(row.stream))).toFixed(3));
  const cpuOf = (name: keyof Row): number =>
    Math.round(median(rows.map((row) => (row[name].cpuMs * 1000) / row[name].answers)));
  const report = {
    connections,
    tokens,
    seconds,
    repeats,
    node: process.version,
    echo_requests_per_second: rateOf("echo"),
    chat_requests_per_second: rateOf("chat"),
    chat_over_echo: overEcho("chat"),
    durable_chat_requests_per_second: rateOf("durableChat"),
    durable_chat_over_echo: overEcho("durableChat"),
    echo_cpu_us_per_request: cpuOf("echo"),
    chat_cpu_us_per_request: cpuOf("chat"),
    durable_chat_cpu_us_per_request: cpuOf("durableChat"),
    stream_chunks_per_second: Math.round(median(rows.map(({ stream }) => stream.events / stream.seconds))),
    stream_cpu_us_per_chunk: Number(median(rows.map(({ stream }) => (stream.cpuMs * 1000) / stream.events)).toFixed(2)),
    responses_tokens_over_chat: tokensOverChat("responsesStream"),
    messages_tokens_over_chat: tokensOverChat("messagesStream"),
    embeddings_per_second: rateOf("embeddings"),
    gates,
  };
  process.stdout.write(`${JSON.stringify(report, null, 2)}\n`);
  for (const [name, gate] of Object.entries(gates)) {
    const reached = report[name as keyof typeof gates];
    if (reached >= gate) continue;
    process.stderr.write(`${name} is ${reached}; it must be at least ${gate}\n`);
    process.exitCode = 1;
  }
} finally {
  await Promise.all(processes.map((started) => started.stop()));
}
