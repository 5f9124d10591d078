/**
 * A source gave no file: unreachable, refusing, silent, switched off. Nothing is known to be wrong with the file, so
 * another source of the same model may be tried. The message names the cause and a fix.
 */
export class SourceUnavailable extends Error {
  override readonly name = "SourceUnavailable";
  /** HTTP status of the refusal; null when there was no answer. */
  readonly status: number | null;

  constructor(message: string, options?: ErrorOptions & { status?: number }) {
    super(message, options);
    this.status = options?.status ?? null;
  }
}

/** What is wrong with a file, or with the place where it should go. */
export type ModelFileFault =
  /** Its SHA-256 or its length is not the expected one. */
  | "checksum"
  /** It is no well-formed file of its format, or lies about what it holds. */
  | "malformed"
  /** Well-formed, but not something that this service can run. */
  | "unsupported"
  /** The disk has less room than the file needs. */
  | "no_space"
  /** There is no such file. */
  | "missing";

/** A file cannot be used. Never a reason to try the next source. The message names the cause and a fix. */
export class ModelFileError extends Error {
  override readonly name = "ModelFileError";
  readonly fault: ModelFileFault;

  constructor(fault: ModelFileFault, message: string, options?: ErrorOptions) {
    super(message, options);
    this.fault = fault;
  }
}
