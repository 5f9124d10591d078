import type { RunningService } from "../start-service.js";

/** Sends a chat request with the service's own key or another one. */
export async function ask(service: RunningService, model: string, key: string = service.key): Promise<number> {
  const response = await fetch(`${service.api}/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ model, messages: [{ role: "user", content: "Hello" }] }),
  });
  await response.text();
  return response.status;
}
