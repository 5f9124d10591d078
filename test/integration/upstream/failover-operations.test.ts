import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ServiceClient } from "../../support/service-client.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { failingAnswers } from "../../support/upstream/failing-answers.js";
import { answerBytes, RawUpstream, sse, streamHead } from "../../support/upstream/raw-upstream.js";

const json = (body: object): string => answerBytes("200 OK", "application/json", JSON.stringify(body));

interface Operation {
  readonly name: string;
  readonly path: string;
  readonly body: object;
  readonly capabilities: readonly string[];
  /** Answer of the upstream that works. */
  readonly answer: string;
  /** Requests that the upstream that works receives. */
  readonly tries: number;
}

const completion =
  streamHead +
  sse({ choices: [{ index: 0, text: "Hello", finish_reason: "stop" }] }) +
  sse({ choices: [], usage: { prompt_tokens: 3, completion_tokens: 1 } }) +
  sse("[DONE]");
const text = { path: "/v1/completions", capabilities: ["completions"], answer: completion };
const operations: readonly Operation[] = [
  { ...text, name: "completion", body: { prompt: "a" }, tries: 1 },
  { ...text, name: "streamed completion of two prompts", body: { prompt: ["a", "b"], stream: true }, tries: 2 },
  {
    name: "embedding",
    path: "/v1/embeddings",
    body: { input: "a" },
    capabilities: ["embeddings"],
    answer: json({ data: [{ index: 0, embedding: [0.5] }], usage: { prompt_tokens: 3 } }),
    tries: 1,
  },
  {
    name: "ranking",
    path: "/v1/rerank",
    body: { query: "a", documents: ["b"] },
    capabilities: ["rerank"],
    answer: json({ results: [{ index: 0, relevance_score: 0.5 }], usage: { total_tokens: 3 } }),
    tries: 1,
  },
];

const cases = failingAnswers.flatMap((failure) => operations.map((operation) => ({ failure, operation })));
const caseOf = (body: string) => cases[Number(/"model":"m(\d+)"/.exec(body)?.[1])];

let bad: RawUpstream;
let works: RawUpstream;
let service: RunningService;

beforeAll(async () => {
  bad = await RawUpstream.start((socket, { body }) => {
    const failure = caseOf(body)?.failure;
    if (failure?.before !== undefined) socket.write(failure.before);
    failure?.fail(socket);
  });
  works = await RawUpstream.start((socket, { body }) => void socket.end(caseOf(body)?.operation.answer ?? ""));
  const at = ({ url }: RawUpstream) => ({ url, kind: "vllm", discover: "off" });
  service = await startService({
    config: {
      // Each case has an upstream of its own, because a 401 or 429 pauses the key of an upstream.
      upstreams: { ...Object.fromEntries(cases.map((_, i) => [`bad${i}`, at(bad)])), works: at(works) },
      models: cases.map(({ operation: { capabilities } }, i) => {
        const deployment = { engine: "openai", model: `m${i}`, capabilities };
        const deployments = [
          { ...deployment, upstream: `bad${i}` },
          { ...deployment, upstream: "works", priority: 1 },
        ];
        return { id: `m${i}`, deployments };
      }),
    },
  });
});
afterAll(async () => {
  await service.close();
  await bad.close();
  await works.close();
});

describe("a first deployment that fails", () => {
  it.each(cases.map(({ failure, operation }, at) => ({ at, failure: failure.name, operation: operation.name })))(
    "with $failure: the second deployment answers the $operation (REL-8)",
    async ({ at }) => {
      const { operation } = cases[at] ?? {};
      if (operation === undefined) throw new Error("there is no such case");
      const model = `m${at}`;
      const answer = await new ServiceClient(service.api, service.key).post(operation.path, {
        ...operation.body,
        model,
      });
      expect(answer.status, answer.text).toBe(200);
      expect(answer.text).not.toContain('"error"');
      expect(answer.text.match(/Hello/g)?.length ?? 0).toBe(operation.answer === completion ? operation.tries : 0);
      const received = works.requests.filter(({ method, body }) => method === "POST" && caseOf(body) === cases[at]);
      expect(received).toHaveLength(operation.tries);
    },
  );
});
