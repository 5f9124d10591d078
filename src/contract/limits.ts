/**
 * The one table of limits: what a request may weigh and how long things may take. Most rows are a setting
 * `limits.<name in snake case>`, whose default is the value here; the others are constants. Times are milliseconds, sizes are bytes, texts are
 * counted in UTF-16 code units.
 *
 * Most of them can change while the service runs: hold the table, and read a limit when it is needed.
 */
export interface ServiceLimits {
  /** Header block of an HTTP/1.1 request, as Node counts it. */
  readonly headerBytesMax: number;
  /** Header lines of an HTTP/1.1 request. */
  readonly headerLinesMax: number;
  /** Header list of an HTTP/2 request. */
  readonly http2HeaderBytesMax: number;
  /** Path and query. */
  readonly urlBytesMax: number;
  /** One request body or message, on every protocol. */
  readonly bodyBytesMax: number;
  /** All request bodies that are being received at the same time, on every protocol. */
  readonly bodiesBytesMax: number;
  /** Nesting of a JSON body or a protobuf message. */
  readonly jsonDepthMax: number;
  /** Values, keys and brackets of a JSON body; fields, messages and list elements of a protobuf message. */
  readonly jsonTokensMax: number;
  /** From the first byte of a request to the end of its headers. */
  readonly headersTimeoutMs: number;
  /** From the first byte of a request to the end of its body. */
  readonly requestTimeoutMs: number;
  /** Bytes per second that a body must bring, once bodyRateGraceMs have passed. */
  readonly bodyRateMin: number;
  readonly bodyRateGraceMs: number;
  /** How long an idle connection is kept. */
  readonly keepAliveTimeoutMs: number;
  /** Silence on a stream after which a keep-alive is sent. */
  readonly sseKeepAliveMs: number;
  /** How long a reader may refuse to read before its request is ended. */
  readonly stallMs: number;
  /** What is kept for a reader that is slower than the engine. */
  readonly streamBufferBytesMax: number;
  /** Streams per HTTP/2 connection. */
  readonly grpcStreamsMax: number;
  /** Choices per prompt. */
  readonly nMax: number;
  /** Choices of one request: prompts times n. */
  readonly choicesMax: number;
  readonly stopMax: number;
  readonly stopCharsMax: number;
  readonly toolsMax: number;
  /** JSON Schemas of all tools of a request together; also the schema of a response format. */
  readonly schemaCharsMax: number;
  readonly embeddingInputsMax: number;
  /** Tokens of all inputs of one embeddings request. */
  readonly embeddingTokensMax: number;
  /** Waiting for a slot, loading included. */
  readonly queueWaitMs: number;
  /** Whole request, whatever the client asks for. */
  readonly deadlineMs: number;
  /** From the granted slot to the moment when the status is sent without having seen content. */
  readonly commitMs: number;
  /** How long running requests may finish after the service was told to stop. */
  readonly drainMs: number;
}

export const defaultLimits: ServiceLimits = {
  headerBytesMax: 32 * 1024,
  headerLinesMax: 100,
  http2HeaderBytesMax: 16 * 1024,
  urlBytesMax: 8 * 1024,
  bodyBytesMax: 20 * 1024 * 1024,
  bodiesBytesMax: 256 * 1024 * 1024,
  jsonDepthMax: 64,
  jsonTokensMax: 200_000,
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 300_000,
  bodyRateMin: 1024,
  bodyRateGraceMs: 5_000,
  keepAliveTimeoutMs: 65_000,
  sseKeepAliveMs: 15_000,
  stallMs: 30_000,
  streamBufferBytesMax: 64 * 1024,
  grpcStreamsMax: 100,
  nMax: 16,
  choicesMax: 128,
  stopMax: 4,
  stopCharsMax: 256,
  toolsMax: 128,
  schemaCharsMax: 64 * 1024,
  embeddingInputsMax: 2048,
  embeddingTokensMax: 300_000,
  queueWaitMs: 30_000,
  deadlineMs: 600_000,
  commitMs: 2_000,
  drainMs: 120_000,
};

/** Bounds that are part of the interface and not settings. */
export const fixedLimits = {
  /** A request message of an RPC that needs no credential, or of sessions: a few short texts. */
  sessionMessageBytesMax: 16 * 1024,
  modelIdCharsMax: 128,
  nameCharsMax: 512,
  toolCallIdCharsMax: 256,
  toolNameCharsMax: 64,
  userCharsMax: 512,
  safetyIdentifierCharsMax: 64,
  metadataPairsMax: 16,
  metadataKeyCharsMax: 64,
  metadataValueCharsMax: 512,
  int32Max: 2_147_483_647,
} as const;
