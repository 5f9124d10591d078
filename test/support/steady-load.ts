import { Agent, request as httpRequest } from "node:http";
import { setTimeout as delay } from "node:timers/promises";

/** One request and its outcome. Times are by `performance.now()`. */
export interface Answer {
  readonly model: string;
  /** Index of the service in `services`. */
  readonly service: number;
  readonly sentAtMs: number;
  readonly tookMs: number;
  /** 0 without an answer. */
  readonly status: number;
  /** The limits were decided without the store. */
  readonly isDegraded: boolean;
  readonly tokens: number;
  /** The body of a rejection, or the reason for a missing answer. */
  readonly failure: string;
}

export interface LoadOptions {
  /** `http://host:port` of the services, used in rotation. */
  readonly services: readonly string[];
  readonly key: string;
  /** Requests per second by model. */
  readonly rates: Readonly<Record<string, number>>;
}

export interface SteadyLoad {
  /** Resolves with all answers when the last one has arrived. */
  end(): Promise<readonly Answer[]>;
}

/** A slower answer counts as missing. */
const hangMs = 10_000;

/** Sends chats without streaming at a steady rate, whether or not earlier ones are answered. */
export function startSteadyLoad({ services, key, rates }: LoadOptions): SteadyLoad {
  const agent = new Agent({ keepAlive: true });
  const pending: Promise<Answer>[] = [];
  let isOver = false;
  const senders = Object.entries(rates).map(async ([model, perSecond]) => {
    const startedAtMs = performance.now();
    for (let number = 0; !isOver; number += 1) {
      const service = number % services.length;
      pending.push(ask(agent, { model, service, url: `${services[service]}/v1/chat/completions`, key }));
      await delay(startedAtMs + ((number + 1) * 1_000) / perSecond - performance.now());
    }
  });
  return {
    async end() {
      isOver = true;
      await Promise.all(senders);
      const answers = await Promise.all(pending);
      agent.destroy();
      return answers;
    },
  };
}

interface Question {
  readonly model: string;
  readonly service: number;
  readonly url: string;
  readonly key: string;
}

function ask(agent: Agent, { model, service, url, key }: Question): Promise<Answer> {
  const sentAtMs = performance.now();
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  return new Promise((resolve) => {
    const done = (status: number, isDegraded: boolean, text: string) =>
      resolve({
        ...{ model, service, sentAtMs, tookMs: performance.now() - sentAtMs, status, isDegraded },
        tokens: status === 200 ? (JSON.parse(text) as { usage: { total_tokens: number } }).usage.total_tokens : 0,
        failure: status === 200 ? "" : text,
      });
    const fail = (error: Error) => done(0, false, String(error));
    const asked = httpRequest(url, { agent, method: "POST", headers, timeout: hangMs }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (part: string) => {
        text += part;
      });
      response.on("error", fail);
      response.on("end", () =>
        done(response.statusCode ?? 0, response.headers["x-ratelimit-degraded"] !== undefined, text),
      );
    });
    asked.on("timeout", () => asked.destroy(new Error("it hangs")));
    asked.on("error", fail);
    asked.end(JSON.stringify({ model, messages: [{ role: "user", content: "Hi" }] }));
  });
}
