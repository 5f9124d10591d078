import { z } from "zod";
import { ModelFileError } from "../model-errors.js";

const size = z.number().int().min(1).max(1_000_000);

const configSchema = z.object({
  model_type: z.literal("bert"),
  hidden_act: z.literal("gelu"),
  num_hidden_layers: size.max(1_000),
  num_attention_heads: size.max(1_000),
  hidden_size: size,
  intermediate_size: size,
  max_position_embeddings: size,
  type_vocab_size: size,
  vocab_size: size,
  layer_norm_eps: z.number().positive().max(1),
});

/** The shape of a BERT encoder, as its config.json spells it. */
export type EncoderConfig = z.infer<typeof configSchema>;

/** Reads the text of a config.json. Throws ModelFileError when it is not that of a plain BERT encoder. */
export function parseEncoderConfig(text: string): EncoderConfig {
  const parsed = configSchema.safeParse(parseJson(text, "config.json"));
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new ModelFileError(
    "unsupported",
    `config.json: ${issue?.path.join(".")}: ${issue?.message}. Only plain BERT encoders are converted; for another model get a GGUF file`,
  );
}

const poolingSchema = z.object({
  pooling_mode_cls_token: z.boolean().default(false),
  pooling_mode_mean_tokens: z.boolean().default(false),
});

/**
 * How token vectors become the text's vector, from the text of a sentence encoder's pooling configuration; null (there
 * is none) means the usual mean.
 */
export function parsePooling(text: string | null): "mean" | "cls" {
  if (text === null) return "mean";
  const parsed = poolingSchema.safeParse(parseJson(text, "the pooling configuration"));
  if (parsed.success && parsed.data.pooling_mode_mean_tokens) return "mean";
  if (parsed.success && parsed.data.pooling_mode_cls_token) return "cls";
  throw new ModelFileError("unsupported", "the pooling of this encoder is neither the mean nor the first token");
}

function parseJson(text: string, name: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new ModelFileError("malformed", `${name} is not JSON. Fetch it again`, { cause });
  }
}
