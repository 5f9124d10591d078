const secretNames: ReadonlySet<string> = new Set(["api_key", "token", "secret", "password"]);
const hidden = "***";

/** Settings as they may be shown: without passwords in addresses, keys and tokens. What is hidden reads `***`. */
export function redacted<T>(settings: T): T {
  return redactedValue("", settings) as T;
}

function redactedValue(name: string, value: unknown): unknown {
  if (Array.isArray(value)) return value.map((item) => redactedValue(name, item));
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([inner, held]) => [inner, redactedValue(inner, held)]));
  }
  if (typeof value !== "string" || value === "") return value;
  return secretNames.has(name) ? hidden : withoutLogin(name, value);
}

/** User and password stand before the last @; only in an address of a store may a password hold a slash. */
function withoutLogin(name: string, text: string): string {
  const login = name === "redis_url" ? /^([a-z+]+:\/\/)?.*@/i : /^([a-z][a-z0-9+.-]*:\/\/)[^/]*@/i;
  return text.replace(login, (_, scheme: string | undefined) => `${scheme ?? ""}${hidden}@`);
}
