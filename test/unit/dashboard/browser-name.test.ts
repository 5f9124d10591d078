import { describe, expect, it } from "vitest";
import { browserName } from "../../../src/dashboard/lib/format.js";

const webKit = "AppleWebKit/605.1.15 (KHTML, like Gecko)";
const blink = "AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0";

describe("browserName", () => {
  it.each([
    ["Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"],
    [`Mozilla/5.0 (Windows NT 10.0; Win64; x64) ${blink} Safari/537.36`, "Chrome on Windows"],
    [`Mozilla/5.0 (Windows NT 10.0; Win64; x64) ${blink} Safari/537.36 Edg/142.0.0.0`, "Edge on Windows"],
    [`Mozilla/5.0 (Linux; Android 15; Pixel 9) ${blink} Mobile Safari/537.36`, "Chrome on Android"],
    [`Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) ${webKit} Version/18.6 Safari/605.1.15`, "Safari on macOS"],
    [`Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) ${webKit} CriOS/142.0 Safari/604.1`, "Chrome on iPhone"],
    ["curl/8.14.1", "curl/8.14.1"],
    ["", "unknown"],
  ])("of %j is %s", (userAgent, name) => {
    expect(browserName(userAgent)).toBe(name);
  });
});
