/** A `format` that a grammar can enforce. */
export interface StringFormat {
  /** GBNF for the inside of the JSON string. Narrower than the format allows where that keeps the grammar small. */
  readonly body: string;
  /** Lengths of what `body` lets through, in characters. */
  readonly shortest: number;
  readonly longest: number;
  /** Whether a text is of the format, for the check of results. */
  readonly test: RegExp;
}

const hour = `([01] [0-9] | "2" [0-3])`;
const minute = "[0-5] [0-9]";
// Leap days are left out: they would need the grammar to know leap years.
const date = `[0-9]{4} "-" (("0" [13578] | "1" [02]) "-" ("0" [1-9] | [12] [0-9] | "3" [01]) | ("0" [469] | "11") "-" ("0" [1-9] | [12] [0-9] | "30") | "02-" ("0" [1-9] | "1" [0-9] | "2" [0-8]))`;
const time = `${hour} ":" ${minute} ":" ${minute} ("." [0-9]{1,9})? ("Z" | [+-] ${hour} ":" ${minute})`;
const octet = `("25" [0-5] | "2" [0-4] [0-9] | "1" [0-9] [0-9] | [1-9] [0-9] | [0-9])`;
const hex = (digits: number) => `[0-9a-f]{${digits}}`;
const label = "[a-z0-9]{1,20}";

const dateTest = String.raw`\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|[12]\d))`;
const timeTest = String.raw`(?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)(?:\.\d+)?(?:[zZ]|[+-](?:[01]\d|2[0-3]):?[0-5]\d)`;
const octetTest = String.raw`(?:25[0-5]|2[0-4]\d|1?\d?\d)`;

const formats: ReadonlyMap<string, StringFormat> = new Map([
  ["date", { body: date, shortest: 10, longest: 10, test: whole(dateTest) }],
  ["time", { body: time, shortest: 9, longest: 24, test: whole(timeTest) }],
  ["date-time", { body: `${date} "T" ${time}`, shortest: 20, longest: 35, test: whole(`${dateTest}[tT]${timeTest}`) }],
  [
    "uuid",
    {
      body: [hex(8), hex(4), hex(4), hex(4), hex(12)].join(' "-" '),
      shortest: 36,
      longest: 36,
      test: whole("[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"),
    },
  ],
  [
    "ipv4",
    {
      body: [octet, octet, octet, octet].join(' "." '),
      shortest: 7,
      longest: 15,
      test: whole(String.raw`(?:${octetTest}\.){3}${octetTest}`),
    },
  ],
  [
    "email",
    {
      body: `${label} ([._+-] ${label}){0,2} "@" ${label} ("-" ${label})? "." [a-z]{2,10}`,
      shortest: 6,
      longest: 116,
      test: whole(String.raw`[^\s@"]{1,64}@[^\s@"]{1,255}`),
    },
  ],
]);

/** Names of the formats that can be enforced. */
export const formatNames: readonly string[] = [...formats.keys()];

export function stringFormat(name: string): StringFormat | null {
  return formats.get(name) ?? null;
}

function whole(pattern: string): RegExp {
  return new RegExp(`^${pattern}$`);
}
