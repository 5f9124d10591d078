const days = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const months = [
  "January",
  "February",
  "March",
  "April",
  "May",
  "June",
  "July",
  "August",
  "September",
  "October",
  "November",
  "December",
];

const fields: Readonly<Record<string, (at: Date) => string>> = {
  Y: (at) => String(at.getUTCFullYear()),
  y: (at) => twoDigits(at.getUTCFullYear() % 100),
  m: (at) => twoDigits(at.getUTCMonth() + 1),
  d: (at) => twoDigits(at.getUTCDate()),
  e: (at) => String(at.getUTCDate()).padStart(2, " "),
  H: (at) => twoDigits(at.getUTCHours()),
  I: (at) => twoDigits(at.getUTCHours() % 12 || 12),
  M: (at) => twoDigits(at.getUTCMinutes()),
  S: (at) => twoDigits(at.getUTCSeconds()),
  p: (at) => (at.getUTCHours() < 12 ? "AM" : "PM"),
  A: (at) => days[at.getUTCDay()] ?? "",
  a: (at) => (days[at.getUTCDay()] ?? "").slice(0, 3),
  B: (at) => months[at.getUTCMonth()] ?? "",
  b: (at) => (months[at.getUTCMonth()] ?? "").slice(0, 3),
  Z: () => "UTC",
  "%": () => "%",
};

/** The time in UTC, written with the directives of C's strftime that chat templates use; others stay as they are. */
export function strftime(at: Date, format: string): string {
  return format.replaceAll(/%(.)/g, (directive, letter: string) => fields[letter]?.(at) ?? directive);
}

function twoDigits(value: number): string {
  return String(value).padStart(2, "0");
}
