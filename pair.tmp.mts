import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { httpRequest, median } from "./test/bench/http-request.js";
import { startPinned } from "./test/bench/pinned-process.js";
import { load } from "./test/bench/raw-client.js";
// usage: pair.mts rounds seconds kind label=dist,durability ...
const [rounds = "8", seconds = "1", kind = "chat", ...subjects] = process.argv.slice(2);
const question = "Explain how a queue in front of a model keeps one busy customer from slowing down all others. ".repeat(4);
const folder = mkdtempSync(join(process.env["ON"] ?? tmpdir(), "uis-pair-"));
const ports = ["--port", "0", "--grpc-port", "0", "--ops-port", "0"];
const list: any[] = [];
const message = { model: "test-chat", temperature: 0.7, messages: [
  { role: "system", content: "You are a helpful assistant. Answer in short sentences and name your sources." }, { role: "user", content: question }] };
const embed = { model: "test-embed", input: "one two three", encoding_format: "float" };
for (const s of subjects) {
  const [label, rest] = s.split("="); const [dist, durability] = rest.split(",");
  const args0 = (process.env["ARGS_" + label] ?? "").split(" ").filter(Boolean);
  let p, path = "/v1/chat/completions", port, key = "x";
  if (dist === "echo") { p = await startPinned(0, ["--import", "tsx", "test/bench/echo-server.ts"], process.env); port = Number(p.ready["port"]); }
  else {
    const config = join(folder, label + ".yaml");
    writeFileSync(config, `${durability ? `state: { durability: ${durability} }\n` : ""}models:\n  - { id: test-chat, engine: scripted, slots: 32, scripted: { text: "one two three four five", tokens: 200 } }\n  - { id: test-embed, engine: scripted, slots: 32, scripted: { dimensions: 1536 } }\n`);
    p = await startPinned(0, [...args0, join(dist, "app/cli.js"), "serve", "--json", "--config", config, ...ports], { ...process.env, UIS_DATA_DIR: join(folder, label) });
    port = Number(new URL(String(p.ready["api"])).port); key = String((p.ready["api_key"] as any).secret);
  }
  const body = kind === "embed" ? embed : kind === "stream" ? { ...message, stream: true } : message;
  if (kind === "embed") path = "/v1/embeddings";
  const req = httpRequest(path, key, body);
  list.push({ label, p, port, req, cpu: [], rps: [] });
}
const one = async (x: any, s: number) => { const b = x.p.cpuMs(); const r = await load(x.port, x.req, 32, s); if (r.failures) throw new Error(x.label + " failures " + r.failures + "/" + r.answers); x.cpu.push(((x.p.cpuMs() - b) * 1000) / r.answers); x.rps.push(r.answers / r.seconds); };
for (const x of list) { await one(x, 5); x.cpu = []; x.rps = []; }
for (let i = 0; i < Number(rounds); i++) for (const x of list) await one(x, Number(seconds));
for (const x of list) console.log(x.label.padEnd(10), "cpu us", median(x.cpu).toFixed(1), "min", Math.min(...x.cpu).toFixed(1), "rps", Math.round(median(x.rps)), "ratio-to-first", median(x.rps.map((r: number, i: number) => r / list[0].rps[i])).toFixed(3));
await Promise.all(list.map((x) => x.p.stop()));
rmSync(folder, { recursive: true, force: true });
