import { Agent, request as httpRequest, type IncomingHttpHeaders } from "node:http";
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
  /** Whether the limits were decided without the store. */
  readonly isDegraded: boolean;
  /** Tokens that the answer's usage reports. */
  readonly tokens: number;
  /** The service's id of the request; empty without an answer. */
  readonly requestId: string;
  /** The body of a rejection, or the reason for a missing answer. */
  readonly failure: string;
}

export interface LoadOptions {
  /** `http://host:port` of the services, used in rotation. */
  readonly services: readonly string[];
  readonly key: string;
  /** Requests per second by model. */
  readonly rates: Readonly<Record<string, number>>;
  /** Whether the answers are streamed, with their usage; default: false. */
  readonly isStreamed?: boolean;
  /** `max_tokens` of the requests, which limits reserve; default: none. */
  readonly maxTokens?: number;
}

export interface SteadyLoad {
  /** Resolves with all answers when the last one has arrived. */
  end(): Promise<readonly Answer[]>;
}

/** A slower answer counts as missing. */
const hangMs = 10_000;

/** Sends chats at a steady rate, whether or not earlier ones are answered. */
export function startSteadyLoad({ services, key, rates, isStreamed = false, maxTokens }: LoadOptions): SteadyLoad {
  const agent = new Agent({ keepAlive: true });
  const pending: Promise<Answer>[] = [];
  let isOver = false;
  const senders = Object.entries(rates).map(async ([model, perSecond]) => {
    const startedAtMs = performance.now();
    for (let number = 0; !isOver; number += 1) {
      const service = number % services.length;
      pending.push(
        ask(agent, { model, service, url: `${services[service]}/v1/chat/completions`, key, isStreamed, maxTokens }),
      );
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
  readonly isStreamed: boolean;
  readonly maxTokens: number | undefined;
}

function ask(agent: Agent, { model, service, url, key, isStreamed, maxTokens }: Question): Promise<Answer> {
  const sentAtMs = performance.now();
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  return new Promise((resolve) => {
    const done = (status: number, headers: IncomingHttpHeaders, text: string) => {
      const tokens = status === 200 ? tokensOf(text, isStreamed) : 0;
      resolve({
        ...{ model, service, sentAtMs, tookMs: performance.now() - sentAtMs },
        // A stream that breaks off has no answer.
        status: tokens === null ? 0 : status,
        isDegraded: headers["x-ratelimit-degraded"] !== undefined,
        tokens: tokens ?? 0,
        requestId: String(headers["x-request-id"] ?? ""),
        failure: status === 200 && tokens !== null ? "" : text,
      });
    };
    const fail = (error: Error) => done(0, {}, String(error));
    const asked = httpRequest(url, { agent, method: "POST", headers, timeout: hangMs }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (part: string) => {
        text += part;
      });
      response.on("error", fail);
      response.on("end", () => done(response.statusCode ?? 0, response.headers, text));
    });
    asked.on("timeout", () => asked.destroy(new Error("it hangs")));
    asked.on("error", fail);
    const streaming = isStreamed ? { stream: true, stream_options: { include_usage: true } } : {};
    asked.end(
      JSON.stringify({ model, messages: [{ role: "user", content: "Hi" }], max_tokens: maxTokens, ...streaming }),
    );
  });
}

interface Usage {
  readonly usage: { readonly total_tokens: number };
}

/** Tokens of the answer's usage; null if a stream ended before its end marker. */
function tokensOf(text: string, isStreamed: boolean): number | null {
  if (!isStreamed) return (JSON.parse(text) as Usage).usage.total_tokens;
  const [last, end] = text.split("\n\n").slice(-3);
  if (end !== "data: [DONE]" || last === undefined) return null;
  return (JSON.parse(last.slice("data: ".length)) as Usage).usage.total_tokens;
}
