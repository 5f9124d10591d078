import { describe, expect, it } from "vitest";
import { Channel, type Handlers } from "../../../../src/app/workers/channel.js";
import { eventually } from "../../../support/eventually.js";

type Failure = readonly [name: string, reason: string];

/** Two ends of an IPC channel; a message arrives in a later turn, as JSON. */
function connect(handlers: Handlers) {
  const failures: Failure[] = [];
  const onFailed = (cause: unknown, name: string) => void failures.push([name, (cause as Error).message]);
  const deliver = (to: () => Channel) => (message: object) => {
    const text = JSON.stringify(message);
    setImmediate(() => to().receive(JSON.parse(text)));
  };
  const asking: Channel = new Channel(
    deliver(() => answering),
    {},
    onFailed,
  );
  const answering: Channel = new Channel(
    deliver(() => asking),
    handlers,
    onFailed,
  );
  return { asking, failures };
}

const fail = () => {
  throw new Error("the handler fails");
};

describe("messages between the first process and a worker", () => {
  it("a failed handler of a message is reported in its process, and the channel continues to work", async () => {
    const { asking, failures } = connect({ thrown: fail, rejected: async () => fail(), echo: (body: string) => body });
    asking.tell("thrown");
    asking.tell("rejected");
    asking.tell("unknown");
    await eventually(() => failures.length === 3, "three failures");
    expect(failures).toEqual([
      ["thrown", "the handler fails"],
      ["rejected", "the handler fails"],
      ["unknown", 'unknown message "unknown"'],
    ]);
    expect(await asking.askOne("echo", "still here")).toBe("still here");
  });

  it("a question is rejected when its handler fails, and the failure is reported only to the sender", async () => {
    const { asking, failures } = connect({ rejected: async () => fail() });
    await expect(asking.ask("rejected")).rejects.toThrow("the handler fails");
    await expect(asking.ask("unknown")).rejects.toThrow('unknown message "unknown"');
    expect(failures).toEqual([]);
  });

  it("an answer may have several parts", async () => {
    const { asking } = connect({
      async *parts(count: number) {
        for (let part = 1; part <= count; part += 1) yield part;
      },
    });
    expect(await asking.ask("parts", 3)).toEqual([1, 2, 3]);
  });

  it("a question is rejected when the other process ends or does not answer in time", async () => {
    const { asking } = connect({ silent: () => new Promise(() => {}) });
    const ended = asking.ask("silent");
    const late = asking.ask("silent", null, 20);
    await expect(late).rejects.toThrow('no answer to "silent" within 20 ms');
    asking.close();
    await expect(ended).rejects.toThrow("the other process has ended");
  });
});
