/** A POST with JSON, ready to be sent again and again over kept-alive connections. */
export function httpRequest(
  path: string,
  key: string,
  body: object,
  headers: Readonly<Record<string, string>> = {},
): Buffer {
  const json = JSON.stringify(body);
  const more = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return Buffer.from(
    `POST ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer ${key}\r\ncontent-type: application/json\r\n` +
      `${more.join("")}content-length: ${Buffer.byteLength(json)}\r\n\r\n${json}`,
  );
}

/** Calls an RPC over Connect, such as `unified.admin.v1.ApiKeyService/CreateApiKey`. Rejects unless it succeeds. */
export async function callRpc(
  url: string,
  token: string,
  method: string,
  request: object,
): Promise<Record<string, unknown>> {
  const answer = await fetch(new URL(`/${method}`, url), {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify(request),
  });
  const body = await answer.text();
  if (!answer.ok) throw new Error(`${method}: ${answer.status}: ${body}`);
  return JSON.parse(body) as Record<string, unknown>;
}

/** A GET request, ready to be sent again and again over kept-alive connections. */
export function httpGet(path: string, key: string): Buffer {
  return Buffer.from(`GET ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer ${key}\r\n\r\n`);
}

/** The median; for an even count the upper of the two middle numbers. 0 for no numbers. */
export function median(numbers: readonly number[]): number {
  return quantile(numbers, 0.5);
}

/** The quantile: the value that this share of the numbers is below. 0 for no numbers. */
export function quantile(numbers: readonly number[], share: number): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}
