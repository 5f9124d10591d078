/**
 * Limits of sizes and times, with their defaults. Most are a setting `limits.<name in snake case>`, the others are
 * constants. Times are milliseconds, sizes are bytes, texts are counted in UTF-16 code units. Most limits can change while
 * the service runs: keep a reference to the table, and read a limit when it is needed.
 */
export const defaultLimits = {
  /** Header block of an HTTP/1.1 request, as Node counts it. */
  headerBytesMax: 32 * 1024,
  /** Header lines of an HTTP/1.1 request. */
  headerLinesMax: 100,
  /** Header list of an HTTP/2 request. */
  http2HeaderBytesMax: 16 * 1024,
  /** Path and query of a URL. */
  urlBytesMax: 8 * 1024,
  /** One request body or message, on every protocol. */
  bodyBytesMax: 20 * 1024 * 1024,
  /** All request bodies that are being received at the same time, on every protocol. */
  bodiesBytesMax: 256 * 1024 * 1024,
  /** Nesting of a JSON body or a protobuf message. */
  jsonDepthMax: 64,
  /** Values, keys and brackets of a JSON body; fields, messages and list elements of a protobuf message. */
  jsonTokensMax: 200_000,
  /** From the first byte of a request to the end of its headers. */
  headersTimeoutMs: 10_000,
  /** From the first byte of a request to the end of its body. */
  requestTimeoutMs: 300_000,
  /** Minimum bytes per second of a body, once bodyRateGraceMs have passed. */
  bodyRateMin: 1024,
  bodyRateGraceMs: 5_000,
  /** Time until an idle connection is closed. */
  keepAliveTimeoutMs: 65_000,
  /** Time without an event on a stream after which a keep-alive is sent. */
  sseKeepAliveMs: 15_000,
  /** How long a client may stop reading before its request is ended. */
  stallMs: 30_000,
  /** Buffer of a stream whose reader is slower than the engine. */
  streamBufferBytesMax: 64 * 1024,
  /** Streams per HTTP/2 connection. */
  grpcStreamsMax: 100,
  /** Choices per prompt (`n`). */
  nMax: 16,
  /** Choices of one request: prompts times n. */
  choicesMax: 128,
  stopMax: 4,
  stopCharsMax: 256,
  toolsMax: 128,
  /** JSON Schemas of all tools of a request together; also the schema of a response format. */
  schemaCharsMax: 64 * 1024,
  embeddingInputsMax: 2048,
  /** Tokens of all inputs of one embeddings request. */
  embeddingTokensMax: 300_000,
  /** Maximum wait for a slot, including the load of the model. */
  queueWaitMs: 30_000,
  /** Maximum duration of a whole request, also if the client sets a longer deadline. */
  deadlineMs: 600_000,
  /** From the granted slot to the time when the status is sent even without content. */
  commitMs: 2_000,
  /** How long running requests may finish after the stop has begun. */
  drainMs: 120_000,
};

export type ServiceLimits = { readonly [Name in keyof typeof defaultLimits]: number };

/** Bounds that are part of the interface and not settings. */
export const fixedLimits = {
  /** A request message of an RPC about sessions or without a credential, which contains a few short texts. */
  sessionMessageBytesMax: 16 * 1024,
  modelIdCharsMax: 128,
  nameCharsMax: 512,
  toolCallIdCharsMax: 256,
  toolNameCharsMax: 64,
  userCharsMax: 512,
  safetyIdentifierCharsMax: 64,
  rerankDocumentsMax: 1_000,
  rerankQueryCharsMax: 65_536,
  /** Query and documents of a rerank request together, in UTF-8. */
  rerankBytesMax: 8 * 1024 * 1024,
  /** A schema, regular expression, grammar or all choices of a constraint in fields of other servers. */
  constraintCharsMax: 65_536,
  constraintChoicesMax: 1_000,
  /** Tokens with log probabilities of a whole answer, of all choices together: writing them blocks other requests. */
  wholeLogprobsMax: 32_768,
  metadataPairsMax: 16,
  metadataKeyCharsMax: 64,
  metadataValueCharsMax: 512,
  int32Max: 2_147_483_647,
} as const;
