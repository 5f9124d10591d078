import { printableLine } from "../lib/display-text.js";

/** Formats a line of the JSON log for people. The text ends with a line break and contains no control characters of the fields. */
export type LineFormat = (line: string) => string;

type Fields = Readonly<Record<string, unknown>>;

/** `12:03:07 warn  message: cause  key=value`, in the time zone of this machine. */
export function prettyFormat({ colors }: { readonly colors: boolean }): LineFormat {
  const paint = (code: number, text: string): string => (colors ? `\u001b[${code}m${text}\u001b[0m` : text);
  return (line) => {
    const { level, time, msg, err, ...rest } = JSON.parse(line) as Fields;
    const error = isFields(err) ? err : null;
    const message = printableLine(String(msg));
    const text = msg === "request" ? requestText(rest) : message + causeText(message, error);
    const fields = msg === "request" ? [] : pairsOf(rest);
    const parts = [
      paint(dim, clockTime(String(time))),
      paint(levelColors[String(level)] ?? plain, String(level).padEnd(levelWidth)),
      fields.length === 0 ? text : `${text}  ${paint(dim, fields.join(" "))}`,
    ];
    return `${parts.join(" ")}\n${stackLines(error)
      .map((frame) => `${paint(dim, frame)}\n`)
      .join("")}`;
  };
}

/** Codes of ANSI colors. */
const plain = 0;
const dim = 2;
const levelColors: Readonly<Record<string, number>> = { debug: dim, warn: 33, error: 31, fatal: 31 };
const levelWidth = 5;

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Time of day of a timestamp: `12:03:07`. */
function clockTime(isoTime: string): string {
  const time = new Date(isoTime);
  return [time.getHours(), time.getMinutes(), time.getSeconds()].map((part) => String(part).padStart(2, "0")).join(":");
}

/** The text of the cause, unless the message contains it. */
function causeText(message: string, error: Fields | null): string {
  const cause = error === null ? "" : printableLine(String(error["message"] ?? ""));
  return cause === "" || message.includes(cause) ? "" : `: ${cause}`;
}

/** The fields of a request that people need. The JSON form has all fields. */
function requestText(fields: Fields): string {
  const { operation, model, outcome, error, prompt_tokens: input, completion_tokens: output, duration_ms } = fields;
  const subject = [operation, model].filter((part) => part !== null).map(String);
  const result = error === null ? String(outcome) : String(error);
  const tokens = input === undefined ? "" : `, ${String(input)} tokens in, ${String(output)} out`;
  const took = `${(Number(duration_ms) / 1000).toFixed(2)} s`;
  return printableLine(`${subject.join(" ")}: ${result} in ${took}${tokens}  ${String(fields["request_id"])}`);
}

/** `key=value` for each field that has a value; fields of objects as `key.field=value`. */
function pairsOf(fields: Fields, prefix = ""): readonly string[] {
  return Object.entries(fields).flatMap(([name, value]) => {
    if (value === null || value === "") return [];
    if (isFields(value)) return pairsOf(value, `${prefix}${name}.`);
    const text = printableLine(Array.isArray(value) ? value.map(String).join(",") : String(value));
    return [`${printableLine(prefix + name)}=${/[\s"]/.test(text) ? `"${text.replaceAll('"', "'")}"` : text}`];
  });
}

/** The stack frames of an error. The log has them for faults of the program only. */
function stackLines(error: Fields | null): readonly string[] {
  return String(error?.["stack"] ?? "")
    .split("\n")
    .slice(1)
    .map((frame) => `    ${printableLine(frame).trim()}`);
}
