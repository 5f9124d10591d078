/** Runs in a separate network namespace, where port 53 is free: the system's name server there serves this zone. */
import process from "node:process";
import { createWebhookSender } from "../../../src/outbound/webhook-sender.js";
import { startDnsServer } from "../../support/receivers/dns-server.js";
import { startReceiver } from "../../support/receivers/receiver.js";

/** Statuses of answers, or the errors of attempts without one. */
export interface SystemNamesReport {
  readonly attacker: readonly (number | string | null)[];
  readonly neighbour: readonly (number | string | null)[];
  /** A name of the hosts file, looked up while another look-up reads the file for the first time. */
  readonly listedAtStart: number | string | null;
  readonly listed: number | string | null;
  readonly searched: number | string | null;
}

const hanging = Array.from({ length: 20 }, (_, index) => `name-${index}.hangs.test`);
const zone = { ...Object.fromEntries(hanging.map((name) => [name, "silence" as const])) };
const dns = await startDnsServer(
  { ...zone, "good.example.test": ["127.0.0.1"], "hooks.lab.corp.test": ["127.0.0.1"] },
  53,
);
const receiver = await startReceiver();
const sender = createWebhookSender({
  allowHttp: true,
  allowPrivateCidrs: ["127.0.0.0/8"],
  allowPorts: [],
  dnsServers: [],
});
const post = async (account: string, host: string): Promise<number | string | null> => {
  const url = `http://${host}:${receiver.port}/`;
  const { status, error } = await sender.send({ account, url, headers: {}, body: "{}", budgetMs: 5_000 });
  return status ?? error;
};

const attacks = hanging.map((host) => post("attacker", host));
const listedAtStart = post("neighbour", "listed.example.test");
const neighbour = await Promise.all(Array.from({ length: 5 }, () => post("neighbour", "good.example.test")));
const listed = await post("neighbour", "listed.example.test");
const searched = await post("neighbour", "hooks.lab");
const report: SystemNamesReport = {
  attacker: await Promise.all(attacks),
  neighbour,
  listedAtStart: await listedAtStart,
  listed,
  searched,
};
process.stdout.write(JSON.stringify(report));
sender.close();
await receiver.close();
await dns.close();
