import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type RunningService, startService } from "../../support/start-service.js";
import { type Api, createApi, expectError, type Reply } from "./api.js";

const path = "/v1/responses";
const models = [{ id: "echo", engine: "scripted", context_length: 1_000_000 }];
const call = { type: "function_call", call_id: "call_1", name: "weather", arguments: '{"at":"Bonn"}' };
const result = { type: "function_call_output", call_id: "call_1", output: "sunny" };

let service: RunningService;
let api: Api;
let reader: Api;
let stranger: Api;
beforeAll(async () => {
  service = await startService({ config: { models, responses: { keep: "1h" } } });
  api = createApi(service);
  reader = createApi({ http: service.http, key: service.readKey });
  const other = { name: "other", account: "other", scope: "read_write" } as const;
  const { secret } = await service.service.parts.apiKeys.create(other);
  stranger = createApi({ http: service.http, key: secret });
});
afterAll(() => service.close());

const remove = (of: Api, id: string) => of.send("DELETE", `${path}/${id}`, undefined, { "content-type": "" });

async function create(fields: object, expected = 200): Promise<Reply> {
  const reply = await api.post(path, { model: "echo", ...fields });
  expect([reply.status, reply.text]).toEqual([expected, reply.text]);
  return reply;
}

/** The response in the last event of a stream, as text. */
function lastResponse({ text }: Reply): string {
  const data = text.trimEnd().split("\n").at(-1) ?? "";
  return data.slice(data.indexOf('"response":') + '"response":'.length, -1);
}

const textOf = (response: Reply["json"]): string => response.output.at(-1).content[0].text;

describe("stored responses", () => {
  it("are returned unchanged, whole and streamed, also to a key with the scope read (RSP-20, RSP-21)", async () => {
    const whole = await create({ input: "Hi", metadata: { "2": "b", "1": "ä\n" } });
    expect(whole.json).toMatchObject({ store: true, previous_response_id: null, status: "completed" });
    const got = await reader.get(`${path}/${whole.json.id}`);
    expect([got.status, got.text]).toEqual([200, whole.text]);
    const streamed = lastResponse(await create({ input: "one two", stream: true, store: true }));
    const { id, store } = JSON.parse(streamed);
    expect(store).toBe(true);
    expect((await reader.get(`${path}/${id}?stream=false`)).text).toBe(streamed);
    expect((await api.send("HEAD", `${path}/${id}`, undefined, { "content-type": "" })).status).toBe(200);
  });

  it("do not include answers with store: false or above 1 MiB, whose `store` is false (RSP-20)", async () => {
    for (const fields of [{ input: "Hi", store: false }, { input: "a".repeat(600_000) }]) {
      const whole = await create(fields);
      const streamed = JSON.parse(lastResponse(await create({ ...fields, stream: true })));
      for (const { id, store } of [whole.json, streamed]) {
        expect(store).toBe(false);
        expectError(await api.get(`${path}/${id}`), 404, "not_found");
        const next = await create({ input: "x", previous_response_id: id }, 400);
        expectError(next, 400, "previous_response_not_found", "previous_response_id");
      }
    }
  });

  it("are continued with all earlier items, but without the earlier instructions (RSP-23)", async () => {
    const first = await create({ input: "one two three", instructions: "be very brief and polite" });
    const turns = [
      { role: "user", content: "one two three" },
      { role: "assistant", content: textOf(first.json) },
    ];
    const calls = [{ role: "user", content: "four" }, call, result];
    const second = await create({ input: calls, previous_response_id: first.json.id });
    expect(second.json.previous_response_id).toBe(first.json.id);
    const again = await create({ input: [...turns, ...calls] });
    expect([textOf(second.json), second.json.usage]).toEqual([textOf(again.json), again.json.usage]);
    const answer = { role: "assistant", content: textOf(second.json) };
    const third = await create({ input: "five", previous_response_id: second.json.id, stream: true, store: false });
    const whole = await create({ input: [...turns, ...calls, answer, { role: "user", content: "five" }] });
    const { output, usage, previous_response_id } = JSON.parse(lastResponse(third));
    expect([output.at(-1).content[0].text, usage]).toEqual([textOf(whole.json), whole.json.usage]);
    expect(previous_response_id).toBe(second.json.id);
  });

  it("can be continued with the output of a call, and errors name the item at fault (RSP-23)", async () => {
    const first = await create({ input: [{ role: "user", content: "a" }, call, result] });
    const next = { previous_response_id: first.json.id };
    expectError(await create({ ...next, input: [result] }, 400), 400, "invalid_tool_messages", "input[0].call_id");
    const wrong = [
      { role: "user", content: "b" },
      { role: "nobody", content: "c" },
    ];
    expectError(await create({ ...next, input: wrong }, 400), 400, "invalid_value", "input[1].role");
  });

  it("list the input of the whole conversation in pages (RSP-22)", async () => {
    const first = await create({ input: "one" });
    const input = [{ id: "msg_mine", role: "user", content: [{ type: "input_text", text: "two" }] }, call, result];
    const second = await create({ input, previous_response_id: first.json.id });
    const items = `${path}/${second.json.id}/input_items`;
    const all = await reader.get(`${items}?order=asc`);
    expect(all.json).toMatchObject({ object: "list", has_more: false });
    const [user, answer, ...rest] = all.json.data;
    expect(user).toEqual({
      id: expect.stringMatching(/^msg_/),
      type: "message",
      role: "user",
      content: [{ type: "input_text", text: "one" }],
    });
    expect(answer).toEqual(first.json.output[0]);
    expect(rest).toEqual([
      { ...input[0], type: "message" },
      { ...call, id: expect.stringMatching(/^fc_/) },
      { ...result, id: expect.stringMatching(/^fco_/) },
    ]);
    const ids = all.json.data.map(({ id }: { id: string }) => id);
    expect([all.json.first_id, all.json.last_id]).toEqual([ids[0], ids[4]]);
    const found: string[] = [];
    for (let after = "", hasMore = true; hasMore; ) {
      const page = (await reader.get(`${items}?limit=2${after === "" ? "" : `&after=${after}`}`)).json;
      found.push(...page.data.map(({ id }: { id: string }) => id));
      [after, hasMore] = [page.last_id, page.has_more];
    }
    expect(found).toEqual(ids.toReversed());
    expect((await reader.get(`${items}?after=${ids[0]}`)).json).toMatchObject({ data: [], first_id: null });
    for (const [query, param] of [
      ["limit=0", "limit"],
      ["limit=101", "limit"],
      ["limit=x", "limit"],
      ["order=up", "order"],
      ["after=msg_none", "after"],
    ]) {
      expectError(await reader.get(`${items}?${query}`), 400, "invalid_value", param);
    }
  });

  it("are deleted completely with a key of the scope read_write, and only once (KEY-7, RSP-21)", async () => {
    const { id } = (await create({ input: "one" })).json;
    const next = (await create({ input: "two", previous_response_id: id })).json;
    expectError(await remove(reader, id), 403, "insufficient_permissions");
    const removed = await remove(api, id);
    expect([removed.status, removed.json]).toEqual([200, { id, object: "response", deleted: true }]);
    expectError(await remove(api, id), 404, "not_found");
    expectError(await api.get(`${path}/${id}`), 404, "not_found");
    expectError(await api.get(`${path}/${id}/input_items`), 404, "not_found");
    const broken = await create({ input: "three", previous_response_id: next.id }, 400);
    expectError(broken, 400, "previous_response_not_found", "previous_response_id");
    expect(broken.json.error.message).toContain(id);
    expect((await reader.get(`${path}/${next.id}/input_items`)).json.data).toHaveLength(1);
  });

  it("of another account are answered with the same bytes as missing ones (SEC-22)", async () => {
    const { id } = (await create({ input: "mine" })).json;
    const asStranger = async () => [
      (await stranger.get(`${path}/${id}`)).text,
      (await stranger.get(`${path}/${id}/input_items`)).text,
      (await remove(stranger, id)).text,
      (await stranger.post(path, { model: "echo", input: "x", previous_response_id: id })).text,
    ];
    const before = await asStranger();
    expectError(await stranger.get(`${path}/${id}`), 404, "not_found");
    expect((await remove(api, id)).status).toBe(200);
    expect(await asStranger()).toEqual(before);
  });

  it("are read, listed and deleted by OpenAI's library (RSP-21, RSP-22)", async () => {
    const { responses } = new OpenAI({ baseURL: service.api, apiKey: service.key, maxRetries: 0 });
    const first = await responses.create({ model: "echo", input: "one two" });
    const second = await responses.create({ model: "echo", input: "three", previous_response_id: first.id });
    expect((await responses.retrieve(second.id)).output_text).toBe(second.output_text);
    const texts: unknown[] = [];
    for await (const item of responses.inputItems.list(second.id, { limit: 1, order: "asc" })) {
      texts.push(item.type === "message" && "text" in (item.content[0] ?? {}) && item.content[0]);
    }
    expect(texts).toMatchObject([{ text: "one two" }, { text: first.output_text }, { text: "three" }]);
    await responses.delete(first.id);
    await expect(responses.retrieve(first.id)).rejects.toThrow(OpenAI.NotFoundError);
    const continued = responses.create({ model: "echo", input: "four", previous_response_id: first.id });
    await expect(continued).rejects.toThrow(OpenAI.BadRequestError);
  });

  it("cannot be streamed, and an id of another form gets 404", async () => {
    const { id } = (await create({ input: "one" })).json;
    expectError(await api.get(`${path}/${id}?stream=true`), 400, "unsupported_parameter", "stream");
    for (const unknown of ["", "resp_none", `${id}/x`, "a%2Fb", "%E2%82%AC"]) {
      expectError(await api.get(`${path}/${unknown}`), 404, "not_found");
    }
    expectError(await api.get(`${path}/%zz`), 400, "invalid_value");
    expectError(await api.send("PUT", `${path}/${id}`, "{}"), 405, "method_not_allowed");
  });

  it("have at most 1,000 items in a conversation (RSP-23)", async () => {
    const items = (count: number) => Array.from({ length: count }, () => ({ role: "user", content: "a" }));
    const { id } = (await create({ input: items(900) })).json;
    await create({ input: items(99), previous_response_id: id, store: false });
    const tooLong = await create({ input: items(100), previous_response_id: id }, 400);
    expectError(tooLong, 400, "array_above_max_length", "previous_response_id");
    await create({ input: items(1_001) });
  });
});

it("responses are not stored without responses.keep, and errors name the setting (RSP-24)", async () => {
  const off = await startService({ config: { models } });
  const { get, post, send } = createApi(off);
  const answered = await post(path, { model: "echo", input: "Hi", store: true });
  expect([answered.status, answered.json.store]).toEqual([200, false]);
  const named = `${path}/${answered.json.id}`;
  const replies = [
    await get(named),
    await get(`${named}/input_items`),
    await send("DELETE", named, undefined, { "content-type": "" }),
  ];
  for (const reply of replies) expectError(reply, 404, "not_found");
  const next = await post(path, { model: "echo", input: "Hi", previous_response_id: answered.json.id });
  expectError(next, 400, "unsupported_parameter", "previous_response_id");
  for (const reply of [...replies, next]) expect(reply.json.error.message).toContain("responses.keep");
  expect(off.service.parts.storedResponses).toBeNull();
  await off.close();
});
