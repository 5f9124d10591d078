/**
 * What a browser sends with every request by itself, and what it is to keep. Because it comes by itself, it proves
 * nothing without the page that made the request: see `isSameOrigin` (KEY-22).
 */
export interface Browser {
  /** Value of the session cookie. */
  readonly sessionToken: string | undefined;
  /** Whether `Origin` names the very server that was called; undefined when the request has no such header. */
  readonly isSameOrigin: boolean | undefined;
  /** How it calls itself, at most 256 characters; empty when it does not. */
  readonly userAgent: string;
  /** Keeps the token of a session for `forMs`, or with null forgets the one it has. Before the answer is written. */
  keepSession(token: string | null, forMs: number): void;
}
