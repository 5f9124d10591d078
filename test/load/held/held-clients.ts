import { spawn } from "node:child_process";
import { once } from "node:events";
import { Agent, request } from "node:http";
import { type ClientHttp2Session, connect as connectHttp2 } from "node:http2";
import { Socket } from "node:net";
import process from "node:process";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { create, toBinary } from "@bufbuild/protobuf";
import { Role } from "../../../gen/unified/inference/v1/chat_pb.js";
import {
  InferenceService,
  StreamChatCompletionRequestSchema,
} from "../../../gen/unified/inference/v1/inference_service_pb.js";
import { grpcPath } from "../../../src/lib/grpc-definition.js";
import type { SeparateHost } from "../../support/separate-hosts.js";

/** Streams whose clients never read. */
export interface HeldPlan {
  readonly protocol: "sse" | "grpc";
  readonly host: string;
  readonly port: number;
  readonly key: string;
  readonly model: string;
  readonly count: number;
}

/** gRPC streams of one connection. */
const grpcStreams = 100;
/** Connections and streams that are opened at the same time, fewer than a listener's backlog. */
const openingMax = 200;

/** Opens the streams from a process of its own on a host. Resolves when all have been requested; `end` closes them. */
export async function holdStreams(plan: HeldPlan, on: SeparateHost): Promise<{ end(): Promise<void> }> {
  const program = [process.execPath, "--import", "tsx", fileURLToPath(import.meta.url), JSON.stringify(plan)];
  const [command = "", ...args] = on.under(program);
  const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
  const exited = once(child, "exit");
  await Promise.race([
    once(child.stdout, "data"),
    exited.then(([code]) => Promise.reject(new Error(`the clients ended with ${code}`))),
  ]);
  return {
    async end() {
      child.stdin.end();
      await exited;
    },
  };
}

/** Time from a request over a new connection to the first byte of its streamed answer, in milliseconds. */
function firstByte(url: string, key: string, model: string): Promise<number> {
  const messages = [{ role: "user", content: "Hi" }];
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const startedMs = performance.now();
  return new Promise((resolve, reject) => {
    const agent = new Agent();
    const req = request(`${url}/v1/chat/completions`, { method: "POST", headers, agent }, (res) => {
      res.once("data", () => {
        resolve(performance.now() - startedMs);
        agent.destroy();
      });
      res.on("error", () => {});
    });
    req.on("error", reject);
    req.end(JSON.stringify({ model, messages, stream: true }));
  });
}

/** The median time to the first token of `count` requests, one after the other. */
export async function firstTokenMs(url: string, key: string, model: string, count: number): Promise<number> {
  const timesMs: number[] = [];
  for (let i = 0; i < count; i++) timesMs.push(await firstByte(url, key, model));
  return timesMs.sort((a, b) => a - b)[count >> 1] ?? Number.NaN;
}

type Open = () => Promise<unknown>;

/** Opens connections that send their request and are never read. */
function overHttp({ host, port, key, model }: HeldPlan): Open {
  const body = JSON.stringify({ model, stream: true, messages: [{ role: "user", content: "Go on." }] });
  const lines = ["POST /v1/chat/completions HTTP/1.1", "host: held", `authorization: Bearer ${key}`];
  const head = [...lines, "content-type: application/json", `content-length: ${body.length}`].join("\r\n");
  return async () => {
    const socket = new Socket().pause();
    // The service resets the connection of a client that does not read.
    socket.on("error", () => {});
    await once(socket.connect(port, host), "connect");
    socket.write(`${head}\r\n\r\n${body}`);
  };
}

/** Opens calls whose messages are never read, so that HTTP/2 flow control holds them back. */
function overGrpc({ host, port, key, model }: HeldPlan): Open {
  const message = toBinary(
    StreamChatCompletionRequestSchema,
    create(StreamChatCompletionRequestSchema, {
      params: { model, messages: [{ role: Role.USER, content: [{ part: { case: "text", value: "Go on." } }] }] },
    }),
  );
  const frame = Buffer.alloc(5 + message.length);
  frame.writeUInt32BE(message.length, 1);
  frame.set(message, 5);
  const headers = {
    ":method": "POST",
    ":path": grpcPath(InferenceService.method.streamChatCompletion),
    "content-type": "application/grpc",
    te: "trailers",
    authorization: `Bearer ${key}`,
  };
  let session: ClientHttp2Session | undefined;
  let opened = 0;
  return async () => {
    if (session === undefined || opened % grpcStreams === 0) session = connectHttp2(`http://${host}:${port}`);
    opened += 1;
    const stream = session.request(headers);
    stream.on("error", () => {});
    stream.end(frame);
    await once(stream, "response");
  };
}

async function run(plan: HeldPlan): Promise<void> {
  const open = plan.protocol === "sse" ? overHttp(plan) : overGrpc(plan);
  const opening = new Set<Promise<unknown>>();
  for (let i = 0; i < plan.count; i++) {
    const one: Promise<unknown> = open().finally(() => opening.delete(one));
    opening.add(one);
    if (opening.size >= openingMax) await Promise.race(opening);
    // The service accepts connections between turns of this loop.
    if (i % openingMax === 0) await delay(1);
  }
  await Promise.all(opening);
  process.stdout.write("open\n");
  await once(process.stdin.resume(), "end");
  process.exit(0);
}

const [, script, plan] = process.argv;
if (script === fileURLToPath(import.meta.url) && plan !== undefined) await run(JSON.parse(plan) as HeldPlan);
