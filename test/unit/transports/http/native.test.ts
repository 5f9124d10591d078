import { describe, expect, it } from "vitest";
import type { NativeOriginal } from "../../../../src/domain/inference/native-chat.js";
import { translatedFrames } from "../../../../src/transports/http/native.js";
import type { StreamFrames } from "../../../../src/transports/http/stream.js";

interface Item {
  readonly text: string;
  native?: string;
}

/** Frames of a translated answer, with words in place of events. */
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

describe("the stream of a translated request whose original is kept", () => {
  it("has the translated events if no deployment supports the request's API", () => {
    const own = frames();
    expect(translatedFrames(own, undefined)).toBe(own);
    expect(translatedFrames(own, original(false))).toBe(own);
  });

  it("begins with the first item, and ends with the end of the translated stream", async () => {
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

  it("has no translated events after an upstream has answered in the request's API", async () => {
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
