/**
 * A process that signs in many browsers concurrently, each from its own address, and sends its parent each response. It
 * is separate so that its own work does not slow the measuring process.
 */
import { type IncomingHttpHeaders, request } from "node:http";
import process from "node:process";
import { setTimeout as delay } from "node:timers/promises";

export interface CrowdOrder {
  /** `http://127.0.0.1:<port>` */
  readonly http: string;
  /** Duration over which the attempts are sent evenly, without waiting for earlier answers. */
  readonly comingMs: number;
  readonly attempts: readonly { readonly user: string; readonly password: string }[];
}

export interface SignInAnswer {
  readonly user: string;
  /** 0: there was no answer within a minute. */
  readonly status: number;
  readonly retryAfter: string | undefined;
  readonly hasCookie: boolean;
  readonly body: string;
  readonly tookMs: number;
}

const hangMs = 60_000;

/** Every address in 127.0.0.0/8 is this machine. */
function addressOf(number: number): string {
  return `127.1.${number >> 7}.${1 + (number & 127)}`;
}

type Attempt = CrowdOrder["attempts"][number];

function signIn(http: string, { user, password }: Attempt, number: number): Promise<SignInAnswer> {
  const body = JSON.stringify({ user, password });
  const headers = { "content-type": "application/json", origin: http, "content-length": Buffer.byteLength(body) };
  const url = `${http}/unified.admin.v1.SessionService/SignIn`;
  const options = { method: "POST", headers, agent: false, localAddress: addressOf(number), timeout: hangMs };
  const sentAtMs = performance.now();
  return new Promise((resolve) => {
    const done = (status: number, answered: IncomingHttpHeaders, text: string) =>
      resolve({
        ...{ user, status, body: text, tookMs: performance.now() - sentAtMs },
        retryAfter: answered["retry-after"],
        hasCookie: answered["set-cookie"] !== undefined,
      });
    const fail = (error: Error) => done(0, {}, String(error));
    const asked = request(url, options, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (part: string) => {
        text += part;
      });
      response.on("error", fail);
      response.on("end", () => done(response.statusCode ?? 0, response.headers, text));
    });
    asked.on("timeout", () => asked.destroy(new Error("it hangs")));
    asked.on("error", fail);
    asked.end(body);
  });
}

process.on("message", ({ http, attempts, comingMs }: CrowdOrder) => {
  const answers = Promise.all(
    attempts.map(async (attempt, number) => {
      await delay((number * comingMs) / attempts.length);
      return signIn(http, attempt, number);
    }),
  );
  void answers.then((all) => process.send?.(all));
});
process.on("disconnect", () => process.exit());
process.send?.("ready");
