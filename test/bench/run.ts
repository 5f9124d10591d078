/**
 * A first load run: chat completions over REST at 32 connections against a bare node:http echo, in turns of a second on
 * the same core, and the cost of streamed chunks. Turns are short because a shared machine is faster now and slower then:
 * a ratio is one of two neighbours, and the middle one of all is told. Scripted engine, 200 tokens, authentication and
 * validation on. Needs Linux, two cores and a build (`npm run build`).
 *
 *   npm run bench [-- --seconds 1 --repeats 15]
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { httpRequest, median } from "./http-request.js";
import { type PinnedProcess, startPinned } from "./pinned-process.js";
import { type LoadResult, load } from "./raw-client.js";

const serverCore = 0;
const connections = 32;
const tokens = 200;
/** The gate of the first load run: ours over the echo's requests per second. */
const gate = 0.5;
/** V8 goes on compiling for about three seconds, on the same core. */
const warmUpSeconds = 5;
/** Makes a request of about 720 bytes with its head: a short turn of a conversation, as in the published comparisons. */
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

const folder = mkdtempSync(join(tmpdir(), "uis-load-"));
const config = join(folder, "uis.yaml");
writeFileSync(
  config,
  `state: { durability: none }\nmodels:\n  - { id: test-chat, engine: scripted, slots: ${connections}, scripted: { text: "one two three four five", tokens: ${tokens} } }\n`,
);
const env = { ...process.env, UIS_DATA_DIR: join(folder, "data"), LOG_LEVEL: process.env["LOG_LEVEL"] ?? "info" };
const ports = ["--port", "0", "--grpc-port", "0", "--ops-port", "0"];
const ours = await startPinned(serverCore, ["dist/app/cli.js", "serve", "--json", "--config", config, ...ports], env);
const echo = await startPinned(serverCore, ["--import", "tsx", "test/bench/echo-server.ts"], env);
try {
  const ourPort = Number(new URL(String(ours.ready["api"])).port);
  const key = String((ours.ready["api_key"] as Record<string, unknown>)["secret"]);
  const echoPort = Number(echo.ready["port"]);
  const message = {
    model: "test-chat",
    temperature: 0.7,
    messages: [
      { role: "system", content: "You are a helpful assistant. Answer in short sentences and name your sources." },
      { role: "user", content: question },
    ],
  };
  const chat = httpRequest("/v1/chat/completions", key, message);
  const stream = httpRequest("/v1/chat/completions", key, { ...message, stream: true });

  const measures = {
    echo: measureOf(echo, echoPort, chat),
    chat: measureOf(ours, ourPort, chat),
    stream: measureOf(ours, ourPort, stream),
  };
  for (const measure of Object.values(measures)) await measure(warmUpSeconds);
  const rows: { echo: Measured; chat: Measured; stream: Measured }[] = [];
  for (let i = 0; i < repeats; i++) {
    rows.push({
      echo: await measures.echo(seconds),
      chat: await measures.chat(seconds),
      stream: await measures.stream(seconds),
    });
  }
  const perSecond = (row: Measured): number => row.answers / row.seconds;
  const report = {
    connections,
    tokens,
    seconds,
    repeats,
    node: process.version,
    echo_requests_per_second: Math.round(median(rows.map((row) => perSecond(row.echo)))),
    chat_requests_per_second: Math.round(median(rows.map((row) => perSecond(row.chat)))),
    chat_over_echo: Number(median(rows.map((row) => perSecond(row.chat) / perSecond(row.echo))).toFixed(3)),
    echo_cpu_us_per_request: Math.round(median(rows.map((row) => (row.echo.cpuMs * 1000) / row.echo.answers))),
    chat_cpu_us_per_request: Math.round(median(rows.map((row) => (row.chat.cpuMs * 1000) / row.chat.answers))),
    stream_chunks_per_second: Math.round(median(rows.map((row) => row.stream.events / row.stream.seconds))),
    stream_cpu_us_per_chunk: Number(
      median(rows.map((row) => (row.stream.cpuMs * 1000) / row.stream.events)).toFixed(2),
    ),
    gate,
  };
  process.stdout.write(`${JSON.stringify(report, null, 2)}\n`);
  if (report.chat_over_echo < gate) {
    process.stderr.write(
      `chat reached ${report.chat_over_echo} of the echo's requests per second; the gate is ${gate}\n`,
    );
    process.exitCode = 1;
  }
} finally {
  await Promise.all([ours.stop(), echo.stop()]);
  rmSync(folder, { recursive: true, force: true });
}
