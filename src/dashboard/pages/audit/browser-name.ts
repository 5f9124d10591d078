/** Marks of browsers in what they call themselves. Most name several others, too: the first that fits is the one. */
const browsers: readonly (readonly [mark: RegExp, name: string])[] = [
  [/\bEdg(?:e|A|iOS)?\//, "Edge"],
  [/\bOPR\//, "Opera"],
  [/\b(?:Firefox|FxiOS)\//, "Firefox"],
  [/\b(?:Headless)?Chrome\/|\bCriOS\//, "Chrome"],
  [/\bSafari\//, "Safari"],
];

const systems: readonly (readonly [mark: RegExp, name: string])[] = [
  [/\biPhone\b/, "iPhone"],
  [/\biPad\b/, "iPad"],
  [/\bAndroid\b/, "Android"],
  [/\bWindows\b/, "Windows"],
  [/\bMac OS X\b/, "macOS"],
  [/\bCrOS\b/, "ChromeOS"],
  [/\bLinux\b/, "Linux"],
];

/** `Firefox on Linux`; the whole text of a program that is none of those, `unknown` of one that does not say. */
export function browserName(userAgent: string): string {
  const [browser, system] = [browsers, systems].map((known) => known.find(([mark]) => mark.test(userAgent))?.[1]);
  if (browser === undefined) return userAgent || "unknown";
  return system === undefined ? browser : `${browser} on ${system}`;
}
