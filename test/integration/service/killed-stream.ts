import type { ServiceClient } from "../../support/service-client.js";

export const killedEnv = { LOG_LEVEL: "error", UIS_BOOTSTRAP_API_KEY: "key-of-this-test" };
const oneAtATime = { concurrency: 1 };
export const killedConfig = {
  responses: { keep: "1h" },
  models: [
    { id: "m", engine: "scripted", scripted: { text: "three words here" } },
    {
      id: "hangs",
      engine: "scripted",
      scripted: { text: "one two end more", token_delay_ms: 50, hang_after_tokens: 3 },
    },
  ],
  rate_limits: { default_key: oneAtATime },
};

/** Kills the service during a stream, after some tokens. Returns whether the stream ended or broke. */
export async function killWhileStreaming(client: ServiceClient, kill: () => void): Promise<"ended" | "broke"> {
  const stream = await client.stream("hangs");
  let text = "";
  while (!text.includes("end")) text += Buffer.from((await stream.read()).value ?? []).toString();
  kill();
  try {
    while (!(await stream.read()).done) {}
    return "ended";
  } catch {
    return "broke";
  }
}

/** Counted requests by model. */
export async function countsOf(client: ServiceClient): Promise<Record<string, number>> {
  const range = `start_time=${Math.floor(Date.now() / 1_000) - 86_400}`;
  const { json } = await client.get(`/v1/usage?bucket_width=1d&limit=3&group_by=model&${range}`);
  const buckets = json["data"] as { results: { model: string; num_model_requests: number }[] }[];
  return Object.fromEntries(
    buckets.flatMap(({ results }) => results.map((row) => [row.model, row.num_model_requests])),
  );
}
