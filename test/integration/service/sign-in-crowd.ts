/**
 * A process that lets many browsers sign in beside each other, each from an address of its own, and tells its parent how
 * each was answered. Apart from the process that measures, whose own work would else be measured.
 */
import { type IncomingHttpHeaders, request } from "node:http";
import process from "node:process";
import { setTimeout as delay } from "node:timers/promises";

export interface CrowdOrder {
  /** `http://127.0.0.1:<port>` */
  readonly http: string;
  /** For so long they come, evenly; none waits for the answer of another. */
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

/** This machine is reached from all of 127.0.0.0/8. */
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
