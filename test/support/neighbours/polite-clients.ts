import { once } from "node:events";
import { Agent, createServer, type IncomingMessage, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { ServiceClient } from "../service-client.js";
import { names, type Scene } from "./scene.js";

/** Latencies and failures of polite clients. Times are in milliseconds. */
export interface PoliteFigures {
  /** Number of requests, streams and deliveries. */
  readonly done: number;
  readonly failed: number;
  /** The first few failures. */
  readonly failures: readonly string[];
  /** 99th percentile of a chat's duration. */
  readonly chatP99: number;
  /** 99th percentile of the time between two events of a stream. */
  readonly gapP99: number;
  /** 99th percentile from the end of an answer to the delivery of its event. */
  readonly deliveryP99: number;
}

const chatEveryMs = 50;
const streamsAtOnce = 2;
/** A request without an answer after this time has failed. */
const hangMs = 20_000;
/** A later delivery counts as missing. */
export const deliveryMaxMs = 5_000;
const failuresShown = 3;

/** Measured values since the last call of `takeP99`. */
class Samples {
  #values: number[] = [];

  add(value: number): void {
    this.#values.push(value);
  }

  takeP99(): number {
    const sorted = this.#values.sort((a, b) => a - b);
    this.#values = [];
    return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * 0.99))] ?? 0;
  }
}

/** A client of chats at a steady rate, one of streams, and a receiver of the events of both, of one account. */
export class PoliteClients {
  readonly #url: string;
  readonly #key: string;
  readonly #agent = new Agent({ keepAlive: true });
  readonly #receiver: Server;
  readonly #chats = new Samples();
  readonly #gaps = new Samples();
  readonly #deliveries = new Samples();
  /** End of the answers whose event has not arrived, and arrival of events whose answer has not ended, by request id. */
  readonly #endedAtMs = new Map<string, number>();
  readonly #early = new Map<string, number>();
  #done = 0;
  #failures: string[] = [];
  #streamModel: string = names.stream;
  #isOver = false;
  #running: readonly Promise<void>[] = [];

  static async start({ service, politeKey }: Scene): Promise<PoliteClients> {
    const receiver = createServer().listen(0, "127.0.0.1");
    await once(receiver, "listening");
    const client = new ServiceClient(service.http, politeKey);
    const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`;
    const { status, text } = await client.post("/v1/webhooks", { url, events: ["request.completed"] });
    if (status >= 300) throw new Error(`no endpoint: ${text}`);
    return new PoliteClients(service.http, politeKey, receiver);
  }

  private constructor(http: string, key: string, receiver: Server) {
    this.#url = `${http}/v1/chat/completions`;
    this.#key = key;
    this.#receiver = receiver;
    receiver.keepAliveTimeout = 60_000;
    receiver.on("request", (req, res) => {
      void textOf(req).then((text) => {
        res.end();
        this.#delivered((JSON.parse(text) as { data: { request_id: string } }).data.request_id);
      });
    });
    const streams = Array.from({ length: streamsAtOnce }, () => this.#streamRepeatedly());
    this.#running = [this.#chatAtRate(), ...streams];
  }

  /** The model of the streams that begin from now on. */
  streamFrom(model: string): void {
    this.#streamModel = model;
  }

  /** Figures since the last call. */
  take(): PoliteFigures {
    const now = performance.now();
    for (const [id, endedAtMs] of this.#endedAtMs) {
      if (now - endedAtMs < deliveryMaxMs) continue;
      this.#endedAtMs.delete(id);
      this.#failures.push(`the event of ${id} has not arrived`);
    }
    const figures = {
      done: this.#done,
      failed: this.#failures.length,
      failures: this.#failures.slice(0, failuresShown),
      chatP99: this.#chats.takeP99(),
      gapP99: this.#gaps.takeP99(),
      deliveryP99: this.#deliveries.takeP99(),
    };
    this.#done = 0;
    this.#failures = [];
    return figures;
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#running);
    this.#agent.destroy();
    this.#receiver.close();
    this.#receiver.closeAllConnections();
  }

  async #chatAtRate(): Promise<void> {
    const running = new Set<Promise<void>>();
    const startedAtMs = performance.now();
    for (let number = 0; !this.#isOver; number += 1) {
      const sentAtMs = performance.now();
      const chat = this.#send({ model: names.chat }, () => {}).then((isAnswered) => {
        running.delete(chat);
        if (isAnswered) this.#chats.add(performance.now() - sentAtMs);
      });
      running.add(chat);
      await delay(startedAtMs + (number + 1) * chatEveryMs - performance.now());
    }
    await Promise.all(running);
  }

  async #streamRepeatedly(): Promise<void> {
    while (!this.#isOver) {
      let lastAtMs: number | null = null;
      await this.#send({ model: this.#streamModel, stream: true, max_tokens: 50 }, () => {
        const now = performance.now();
        if (lastAtMs !== null) this.#gaps.add(now - lastAtMs);
        lastAtMs = now;
      });
    }
  }

  /** False: the request failed. */
  async #send(body: object, onData: () => void): Promise<boolean> {
    const messages = [{ role: "user", content: "Say the five words." }];
    try {
      const { id, status, text } = await this.#post({ ...body, messages }, onData);
      const isWhole = !("stream" in body) || text.endsWith("data: [DONE]\n\n");
      if (status !== 200 || !isWhole || text.includes('"error"')) throw new Error(`${status} ${text.slice(0, 200)}`);
      this.#done += 1;
      this.#ended(id);
      return true;
    } catch (error) {
      this.#failures.push(error instanceof Error ? error.message : String(error));
      return false;
    }
  }

  #post(body: object, onData: () => void): Promise<{ id: string; status: number; text: string }> {
    return new Promise((resolve, reject) => {
      const headers = { authorization: `Bearer ${this.#key}`, "content-type": "application/json" };
      const sent = request(this.#url, { method: "POST", agent: this.#agent, headers, timeout: hangMs });
      sent.once("timeout", () => sent.destroy(new Error(`no data for ${hangMs / 1_000} s`)));
      sent.once("error", reject);
      sent.once("response", (response) => {
        response.on("data", onData);
        const { statusCode: status = 0, headers: answered } = response;
        textOf(response).then((text) => resolve({ id: String(answered["x-request-id"]), status, text }), reject);
      });
      sent.end(JSON.stringify(body));
    });
  }

  #ended(id: string): void {
    const now = performance.now();
    const arrivedAtMs = this.#early.get(id);
    if (arrivedAtMs === undefined) this.#endedAtMs.set(id, now);
    else this.#deliveries.add(0);
    this.#early.delete(id);
  }

  #delivered(id: string): void {
    const now = performance.now();
    const endedAtMs = this.#endedAtMs.get(id);
    if (endedAtMs === undefined) this.#early.set(id, now);
    else this.#deliveries.add(now - endedAtMs);
    this.#endedAtMs.delete(id);
    this.#done += 1;
  }
}

async function textOf(message: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of message) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}
