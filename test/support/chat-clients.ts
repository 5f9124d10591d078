import { setTimeout as delay } from "node:timers/promises";

/** The request of a client. */
export interface Question {
  readonly model: string;
  readonly isStream: boolean;
  /** Whether the client disconnects after the first event of the answer. For streams only. */
  readonly leaves: boolean;
  readonly maxTokens: number;
}

/**
 * Outcome as seen by the client: a complete answer, the client's own disconnect, an error of the service, a 429, or a broken
 * or failed connection.
 */
export type Outcome = "completed" | "left" | "failed" | "refused" | "broken";

export interface Answer {
  readonly question: Question;
  /** Null if no headers arrived. */
  readonly requestId: string | null;
  readonly outcome: Outcome;
  /** Tokens according to the answer's usage; 0 if there was none. */
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** Whether the limits were decided without the store. */
  readonly isDegraded: boolean;
  /** Arrival of the headers, by `performance.now()`; infinite if there were none. */
  readonly begunAtMs: number;
  /** Time at which the request ended for the client, by `performance.now()`. */
  readonly endedAtMs: number;
}

export interface ChatClientsOptions {
  readonly count: number;
  /** Returns the service for the next request of client `number`; null while there is none. */
  readonly service: (number: number) => { readonly http: string } | null;
  readonly key: string;
  readonly question: () => Question;
  /** Wait of a client after a rejection or a failed connection. */
  readonly pauseMs: number;
}

export interface ChatClients {
  /** All answers so far, except 429s, which are only counted. */
  readonly answers: readonly Answer[];
  readonly refused: number;
  /** Resolves when all clients have ended their current request. */
  end(): Promise<void>;
}

/** Clients that send requests one after the other, each as soon as the previous one is answered. */
export function startChatClients({ count, service, key, question, pauseMs }: ChatClientsOptions): ChatClients {
  const answers: Answer[] = [];
  let refused = 0;
  let isOver = false;
  const run = async (number: number) => {
    while (!isOver) {
      const asked = service(number);
      const answer = asked === null ? null : await ask(asked.http, key, question());
      if (answer !== null && answer.outcome !== "refused") answers.push(answer);
      if (answer?.outcome === "refused") refused += 1;
      if (answer === null || answer.outcome === "refused" || answer.outcome === "broken") await delay(pauseMs);
    }
  };
  const running = Promise.all(Array.from({ length: count }, (_, number) => run(number)));
  return {
    answers,
    get refused() {
      return refused;
    },
    async end() {
      isOver = true;
      await running;
    },
  };
}

interface SeenUsage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
}

async function ask(http: string, key: string, question: Question): Promise<Answer> {
  const { model, isStream, leaves, maxTokens } = question;
  const leave = new AbortController();
  const seen = {
    requestId: null as string | null,
    isDegraded: false,
    begunAtMs: Number.POSITIVE_INFINITY,
  };
  const ended = (outcome: Outcome, usage?: SeenUsage): Answer => ({
    question,
    ...seen,
    endedAtMs: performance.now(),
    outcome,
    promptTokens: usage?.prompt_tokens ?? 0,
    completionTokens: usage?.completion_tokens ?? 0,
  });
  try {
    const response = await fetch(`${http}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({
        model,
        max_tokens: maxTokens,
        messages: [{ role: "user", content: "one two" }],
        ...(isStream ? { stream: true, stream_options: { include_usage: true } } : {}),
      }),
      signal: leave.signal,
    });
    seen.begunAtMs = performance.now();
    seen.requestId = response.headers.get("x-request-id");
    seen.isDegraded = response.headers.get("x-ratelimit-degraded") !== null;
    if (response.status === 200 && leaves) {
      await response.body?.getReader().read();
      leave.abort();
      return ended("left");
    }
    const text = await response.text();
    if (response.status === 429) return ended("refused");
    if (response.status !== 200) return ended("failed");
    if (!isStream) return ended("completed", (JSON.parse(text) as { usage: SeenUsage }).usage);
    return text.endsWith("data: [DONE]\n\n") ? ended("completed", usageIn(text)) : ended("failed");
  } catch {
    return ended("broken");
  }
}

/** The usage is in the last event before the end marker. */
function usageIn(stream: string): SeenUsage {
  const last = stream.split("\n\n").findLast((event) => event.includes('"usage":{'));
  return (JSON.parse(last?.slice("data: ".length) ?? "{}") as { usage: SeenUsage }).usage;
}
