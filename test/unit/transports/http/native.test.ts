import { describe, expect, it } from "vitest";
import type { NativeOriginal } from "../../../../src/domain/inference/native-chat.js";
import { translatedFrames } from "../../../../src/transports/http/native.js";
import type { StreamFrames } from "../../../../src/transports/http/sse.js";

interface Item {
  readonly text: string;
  native?: string;
}

/** Frames of a translation, in the words that its events would have. */
function frames(seen: string[] = []): StreamFrames<Item> {
  return {
    begin: () => "begin ",
    frame: ({ text }) => `${text} `,
    beforeEnd: async () => void seen.push("stored"),
    end: () => "end",
    keepAlive: () => "ping ",
  };
}

const original = (isOffered: boolean): NativeOriginal => ({
  api: "responses",
  model: "m",
  fieldsJson: () => ({}),
  headers: {},
  refusal: null,
  isOffered,
});

describe("streams of requests that an upstream may get as they came", () => {
  it("are those of the translation where no deployment has the API", () => {
    const own = frames();
    expect(translatedFrames(own, undefined)).toBe(own);
    expect(translatedFrames(own, original(false))).toBe(own);
  });

  it("begin with the first item, and end as the translation does", async () => {
    const seen: string[] = [];
    const stream = translatedFrames(frames(seen), original(true));
    expect(stream.begin).toBeUndefined();
    expect([stream.keepAlive(), stream.frame({ text: "a" }), stream.frame({ text: "b" })]).toEqual([
      null,
      "begin a ",
      "b ",
    ]);
    expect(stream.keepAlive()).toBe("ping ");
    await stream.beforeEnd?.();
    expect([stream.end(), seen]).toEqual(["end", ["stored"]]);
  });

  it("have nothing of the translation once an upstream answers in the API", async () => {
    const seen: string[] = [];
    const stream = translatedFrames(frames(seen), original(true));
    expect(stream.frame({ text: "", native: "event: x\n\n" })).toBe("event: x\n\n");
    expect(stream.frame({ text: "finish" })).toBe("");
    expect(stream.keepAlive()).toBeNull();
    await stream.beforeEnd?.();
    expect([stream.end(), seen]).toEqual(["", []]);
    expect(stream.failed?.({ error: { code: "x" } })).toBe('event: error\ndata: {"error":{"code":"x"}}\n\n');
  });
});
