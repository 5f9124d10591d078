import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { missingProgram } from "./missing-program.js";

/** A host of a network on this machine: a network namespace with an address of its own. */
export interface SeparateHost {
  readonly address: string;
  /** Wraps a program's command line so that it runs on this host. */
  under(command: readonly string[]): string[];
  /** Pulls its cable: packets from and to it are lost, and its connections stay open. */
  cutOff(): void;
  /** Loses the packets between it and the other hosts. This machine still reaches it. */
  cutOffFromHosts(): void;
  /** Undoes `cutOff` and `cutOffFromHosts`. */
  reconnect(): void;
}

export interface SeparateHosts {
  readonly hosts: readonly SeparateHost[];
  /** Ends the network. Programs on its hosts must have ended. */
  remove(): Promise<void>;
}

/**
 * Hosts on one Ethernet, which this machine can reach, too. The test is skipped if the user may not create them. They end no
 * later than the test process.
 */
export async function startSeparateHosts(count: number): Promise<SeparateHosts> {
  const name = `uis${process.pid % 100_000}`;
  // This range is reserved for benchmarks of networks (RFC 2544), so no machine uses it otherwise.
  const net = `198.18.${process.pid % 256}`;
  try {
    ip("link", "add", name, "type", "bridge");
  } catch (cause) {
    throw missingProgram(`this user may not create networks (ip link add type bridge): ${String(cause)}`);
  }
  const removeBridge = () => ip("link", "del", name);
  process.once("exit", removeBridge);
  ip("addr", "add", `${net}.254/24`, "dev", name);
  ip("link", "set", name, "up");
  const addresses = Array.from({ length: count }, (_, n) => `${net}.${n + 1}`);
  const keepers = await Promise.all(addresses.map(startNamespace));
  const hosts = keepers.map(({ pid, inside }, n): SeparateHost => {
    const [address = "", port] = [addresses[n], `${name}-${n}`];
    ip("link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", String(pid));
    ip("link", "set", port, "master", name, "up");
    inside("ip", "link", "set", "lo", "up");
    inside("ip", "addr", "add", `${address}/24`, "dev", "eth0");
    inside("ip", "link", "set", "eth0", "up");
    const others = keepers.filter((_, other) => other !== n);
    let isAlone = false;
    const forget = (what: "add" | "del") => {
      for (const other of addresses) if (other !== address) inside("ip", "route", what, "blackhole", other);
      for (const other of others) other.inside("ip", "route", what, "blackhole", address);
      isAlone = what === "add";
    };
    return {
      address,
      under: (command) => ["nsenter", `--net=/proc/${pid}/ns/net`, ...command],
      cutOff: () => ip("link", "set", port, "down"),
      cutOffFromHosts: () => forget("add"),
      reconnect() {
        ip("link", "set", port, "up");
        if (isAlone) forget("del");
      },
    };
  });
  return {
    hosts,
    async remove() {
      for (const { end } of keepers) await end();
      process.off("exit", removeBridge);
      removeBridge();
    },
  };
}

/** Starts a process that holds a network namespace. It ends with its input, so no later than this process. */
async function startNamespace() {
  const keeper = spawn("unshare", ["--net", "sh", "-c", "echo made && exec cat"], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const exited = once(keeper, "exit");
  await Promise.race([
    once(keeper.stdout, "data"),
    exited.then(() => Promise.reject(new Error("unshare --net created no namespace"))),
  ]);
  const pid = keeper.pid ?? 0;
  return {
    pid,
    inside: (program: string, ...args: string[]) => {
      execFileSync("nsenter", [`--net=/proc/${pid}/ns/net`, program, ...args], { stdio: "pipe" });
    },
    async end() {
      keeper.stdin.end();
      await exited;
    },
  };
}

function ip(...args: string[]): void {
  execFileSync("ip", args, { stdio: "pipe" });
}
