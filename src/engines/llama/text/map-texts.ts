/** The same JSON-like value with every text in it changed, names of members below the first level included. */
export function mapTexts<T>(value: T, change: (text: string) => string): T {
  return mapped(value, change) as T;
}

/** As `mapTexts`, with the names of the first level kept. */
export function mapMemberTexts<T extends object>(value: T, change: (text: string) => string): T {
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, mapped(member, change)])) as T;
}

function mapped(value: unknown, change: (text: string) => string): unknown {
  if (typeof value === "string") return change(value);
  if (Array.isArray(value)) return value.map((item) => mapped(item, change));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [change(name), mapped(member, change)]));
}
