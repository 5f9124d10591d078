import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ModelAdminService } from "../../../gen/unified/admin/v1/model_admin_service_pb.js";
import { serviceClient } from "../../../src/app/commands/service-client.js";
import { uis } from "../cli-run.js";
import { eventually } from "../eventually.js";
import { writeScriptedGguf } from "../gguf/scripted-gguf.js";
import { HubServer } from "../hub-server.js";
import { type Receiver, startReceiver } from "../receivers/receiver.js";
import { type RedisServer, startRedis } from "../redis/start-redis.js";
import { ServiceClient } from "../service-client.js";
import { type RunningService, startService } from "../start-service.js";

/** The environment of the commands: a running service, a rejecting receiver, a hub, and a folder with a model's file. */
export class CliScene {
  readonly service: RunningService;
  readonly receiver: Receiver;
  readonly hub: HubServer;
  /** Folder for files; it contains `chat.gguf`. */
  readonly folder: string;
  /** Variables of a command that calls the service. */
  readonly env: Readonly<Record<string, string>>;
  /** Variables of a command that works on a data folder of its own. */
  readonly apart: Readonly<Record<string, string>>;
  #names = 0;
  #endpoint: string | null = null;
  #redis: Promise<RedisServer> | null = null;

  private constructor(service: RunningService, receiver: Receiver, hub: HubServer, folder: string) {
    this.service = service;
    this.receiver = receiver;
    this.hub = hub;
    this.folder = folder;
    this.env = { UIS_URL: service.http, UIS_DATA_DIR: service.dataDir };
    this.apart = { UIS_DATA_DIR: join(folder, "apart"), HF_ENDPOINT: hub.endpoint };
  }

  static async start(): Promise<CliScene> {
    const folder = await mkdtemp(join(tmpdir(), "uis-commands-"));
    await writeScriptedGguf(join(folder, "chat.gguf"), { text: "It works." });
    const hub = await HubServer.start();
    hub.put("owner/repo", "chat.gguf", await readFile(join(folder, "chat.gguf")));
    const receiver = await startReceiver({ answer: ({ path }) => ({ status: path === "/taken" ? 200 : 500 }) });
    const webhooks = { allow_http: true, allow_private_cidrs: ["127.0.0.0/8"], retry_delays: ["1h"] };
    const config = { webhooks, state: { durability: "every-write" }, requests: { keep: 100 } };
    const service = await startService({ config });
    return new CliScene(service, receiver, hub, folder);
  }

  async close(): Promise<void> {
    await this.service.close();
    await this.receiver.close();
    await this.hub.close();
    await (await this.#redis)?.remove();
    await rm(this.folder, { recursive: true, force: true });
  }

  /** A name that is not used yet. */
  name(): string {
    this.#names += 1;
    return `n${this.#names}`;
  }

  /** A path in the folder at which no file exists. */
  file(): string {
    return join(this.folder, this.name());
  }

  async key(): Promise<string> {
    return this.#idOf(["keys", "create", "--name", this.name(), "--scope", "read"]);
  }

  async threshold(): Promise<string> {
    return this.#idOf(["thresholds", "add", "--metric", "tokens", "--period", "day", "--limit", "1000"]);
  }

  /** Arguments for an endpoint in a separate account, so that no request creates a delivery for it. */
  async endpoint(path: "taken" | "refused" = "taken"): Promise<readonly string[]> {
    const account = ["--account", this.name()];
    return [await this.#idOf([...this.addEndpoint(path), ...account]), ...account];
  }

  /** The model of a pull that runs in the service and receives nothing more. */
  async stalledPull(): Promise<string> {
    const id = this.name();
    const { http: url, adminToken: credential } = this.service;
    const models = serviceClient(ModelAdminService, { url, credential, credentialFrom: "" });
    // Pulls of one source share a download, so each has its own.
    this.hub.put("stalled/models", `${id}.gguf`, await readFile(join(this.folder, "chat.gguf")));
    this.hub.play({ stallAfterBytes: 500_000 });
    const source = `${this.hub.endpoint}/stalled/models/resolve/main/${id}.gguf`;
    // The caller cancels after the first message; the pull continues.
    for await (const _ of models.pullModel({ source, id })) break;
    return id;
  }

  addEndpoint(path: "taken" | "refused"): readonly string[] {
    return ["webhooks", "add", "--url", `${this.receiver.url}${path}`, "--events", "request.completed"];
  }

  /** The id of a delivery that the receiver rejected and for which no attempt is running. */
  async delivery(): Promise<string> {
    if (this.#endpoint === null) {
      this.#endpoint = await this.#idOf(this.addEndpoint("refused"));
      await new ServiceClient(this.service.http, this.service.key).chat("test-chat");
    }
    const list = ["webhooks", "deliveries", "--endpoint", this.#endpoint];
    let id = "";
    await eventually(async () => {
      const [found] = (await this.#json(list)) as { id: string; state: string }[];
      id = found?.id ?? "";
      return found !== undefined && ["awaiting_retry", "permanently_failed"].includes(found.state);
    }, "a delivery that was refused");
    return id;
  }

  /** The arguments that add the service as an upstream of itself, with one model that has the upstream's name. */
  async addUpstream(name: string): Promise<string[]> {
    const file = this.file();
    await writeFile(file, `${this.service.key}\n`);
    return [name, "--url", `${this.service.http}/v1`, "--key-file", file, "--models", name];
  }

  async upstream(): Promise<{ readonly name: string; readonly deployment: string }> {
    const name = this.name();
    await this.#json(["upstreams", "add", ...(await this.addUpstream(name))]);
    return { name, deployment: `${name}/${name}` };
  }

  /** A copy of the service's state. */
  async backup(): Promise<string> {
    const path = this.file();
    await this.#json(["backup", path]);
    return path;
  }

  /** URL of an empty Redis, or of one with a copy of the service's state. */
  async redis(): Promise<string> {
    this.#redis ??= startRedis({ aof: "always" });
    return (await this.#redis).url;
  }

  /** The id of a model that is stored in the data folder of `apart`. */
  async model(): Promise<string> {
    const id = this.name();
    await this.#json(["models", "import", join(this.folder, "chat.gguf"), "--id", id], this.apart);
    return id;
  }

  async #idOf(words: readonly string[]): Promise<string> {
    return ((await this.#json(words)) as { id: string }).id;
  }

  async #json(words: readonly string[], env = this.env): Promise<unknown> {
    const { code, stdout, stderr } = await uis([...words, "--json"], { env });
    if (code !== 0) throw new Error(`uis ${words.join(" ")}: ${stderr}`);
    return JSON.parse(stdout);
  }
}
