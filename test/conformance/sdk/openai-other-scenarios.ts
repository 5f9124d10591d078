import type { OpenAiContext } from "./openai-context.js";

/** Models, embeddings and legacy completions. */
export const otherScenarios = {
  async models(context: OpenAiContext) {
    const client = context.client({ apiKey: context.target.readKey });
    const listed = [];
    for await (const model of client.models.list()) listed.push(model);
    return { listed, retrieved: await client.models.retrieve("org/chat:tag") };
  },

  /** Requests embeddings of the same inputs in the SDK's default encoding, as numbers, and as undecoded text. */
  async embeddings(context: OpenAiContext) {
    const client = context.client();
    const params = { model: "vectors", input: ["red", "green", "blue"] };
    const [byDefault, asFloat, raw] = await Promise.all([
      client.embeddings.create(params),
      client.embeddings.create({ ...params, encoding_format: "float" }),
      client.embeddings.create({ ...params, encoding_format: "base64" }),
    ]);
    return { byDefault, asFloat, raw };
  },

  async legacy(context: OpenAiContext) {
    const params = { model: "org/chat:tag", prompt: ["One", "Two"] };
    const completion = await context.client().completions.create(params);
    const chunks = [];
    const stream = await context.client().completions.create({
      ...params,
      stream: true,
      stream_options: { include_usage: true },
    });
    for await (const chunk of stream) chunks.push(chunk);
    return { completion, chunks };
  },
};
