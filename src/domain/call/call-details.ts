/** Sampling options of a request, without its content. */
export interface AskedOptions {
  readonly maxTokens: number | null;
  readonly temperature: number;
  readonly topP: number;
  readonly stop: readonly string[];
  readonly seed?: bigint;
}

/** What a trace says of a call beyond its end. Kept for traces only. */
export class CallDetails {
  readonly finishReasons: string[] = [];
  #options: AskedOptions | null = null;
  #responseId: string | null = null;
  #choices = 1;
  #isStream = false;

  asked(options: AskedOptions | undefined, choices: number, responseId: string): void {
    this.#options = options ?? null;
    this.#choices = choices;
    this.#responseId = responseId;
  }

  streams(): void {
    this.#isStream = true;
  }

  /** Null where nothing is generated. */
  get options(): AskedOptions | null {
    return this.#options;
  }

  /** Of the whole request. */
  get choices(): number {
    return this.#choices;
  }

  /** `chatcmpl-…`, `cmpl-…`; null where answers have no id. */
  get responseId(): string | null {
    return this.#responseId;
  }

  get isStream(): boolean {
    return this.#isStream;
  }
}
