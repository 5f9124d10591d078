import { readFileSync } from "node:fs";
import type { RunningService } from "./start-service.js";

/**
 * The code block of a page with this info string. Address and key of the page are replaced by those of a running service.
 * Throws if the page has no such block.
 */
export function blockOf(
  page: string,
  information: string,
  { http, key }: Pick<RunningService, "http" | "key">,
): string {
  const [, text] =
    new RegExp(`^\`\`\`${information}\\n([\\s\\S]*?)^\`\`\`$`, "m").exec(readFileSync(page, "utf8")) ?? [];
  if (text === undefined) throw new Error(`${page} has no block "${information}"`);
  return text.replaceAll("http://127.0.0.1:8080", http).replaceAll("sk-uis-…", key);
}
