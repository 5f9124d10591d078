import { answerBytes, RawUpstream } from "./raw-upstream.js";

/** An answer: JSON with status 200, or the whole bytes. */
export type PathAnswer = object | string;

/** A server that answers GETs by their paths, and everything else with 404. */
export async function startServerWith(paths: Readonly<Record<string, PathAnswer>>): Promise<RawUpstream> {
  return await RawUpstream.start((socket, { path }) => {
    const answer = paths[path];
    if (answer === undefined) socket.end(answerBytes("404 Not Found", "text/plain", "no such page"));
    else if (typeof answer === "string") socket.end(answer);
    else socket.end(answerBytes("200 OK", "application/json", JSON.stringify(answer)));
  });
}

/** The answer of `GET /v1/models`. */
export function modelList(...models: readonly object[]): object {
  return { object: "list", data: models };
}
