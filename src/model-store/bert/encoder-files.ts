/** The files of a sentence encoder that the converter looks for, relative to the encoder's folder. */
export const encoderFiles = {
  weights: "model.safetensors",
  required: ["config.json", "model.safetensors"],
  /** One of them is needed; the first is preferred. */
  vocabularies: ["vocab.txt", "tokenizer.json"],
  pooling: "1_Pooling/config.json",
} as const;
