import { execFile } from "node:child_process";
import { existsSync } from "node:fs";

export type Tier = "ci" | "long";

/** A program outside npm that some tests need. */
interface Program {
  readonly name: string;
  /** Exits 0 when the program is there and complete. */
  readonly probe: readonly [string, ...string[]];
  /** Debian packages that contain it. */
  readonly packages: readonly string[];
  /** The tests that are skipped without it. */
  readonly use: string;
}

/** Needed by `npm test`. */
const shortPrograms: readonly Program[] = [
  {
    name: "redis-server with redis-cli",
    probe: ["sh", "-c", "redis-server --version && redis-cli --version"],
    packages: ["redis-server", "redis-tools"],
    use: "state in Redis: one server, Sentinel, a cluster",
  },
  {
    name: "chromium",
    probe: ["chromium", "--version"],
    packages: ["chromium"],
    use: "the dashboard in a browser",
  },
  {
    name: "pip",
    probe: ["python3", "-m", "pip", "--version"],
    packages: ["python3-pip"],
    use: "models from a package index",
  },
  {
    name: "python3 with venv",
    probe: ["python3", "-c", "import venv, ensurepip"],
    packages: ["python3", "python3-venv"],
    use: "llama.cpp's own server as an upstream, clients in Python",
  },
  { name: "openssl", probe: ["openssl", "version"], packages: ["openssl"], use: "TLS listeners" },
  { name: "curl", probe: ["curl", "--version"], packages: ["curl"], use: "the documented curl lines" },
  {
    name: "prlimit",
    probe: ["prlimit", "--version"],
    packages: ["util-linux"],
    use: "limits of files and their sizes",
  },
];

/** Needed by `npm run test:long` in addition. */
const longPrograms: readonly Program[] = [
  {
    name: "gcc",
    probe: ["sh", "-c", "echo 'int main(void){return 0;}' | gcc -x c -o /dev/null -"],
    packages: ["gcc", "libc6-dev"],
    use: "simulated power cuts and jumps of the system clock",
  },
  { name: "strace", probe: ["strace", "--version"], packages: ["strace"], use: "the order of sync and answer" },
  {
    name: "faketime",
    probe: ["faketime", "--version"],
    packages: ["faketime"],
    use: "the retry schedule of webhooks over hours",
  },
  {
    name: "promtool",
    probe: ["promtool", "--version"],
    packages: ["prometheus"],
    use: "the check of the metrics' form",
  },
  {
    name: "nginx, haproxy and caddy",
    probe: ["sh", "-c", "nginx -v && haproxy -v && caddy version"],
    packages: ["nginx-light", "haproxy", "caddy"],
    use: "the documented configurations of proxies",
  },
  {
    name: "systemd-analyze",
    probe: ["systemd-analyze", "--version"],
    packages: ["systemd"],
    use: "the unit of the system service",
  },
  {
    name: "go",
    probe: ["go", "version"],
    packages: ["golang-go"],
    use: "the documented check of webhooks in Go",
  },
  {
    name: "javac of JDK 17 or newer",
    probe: ["javac", "--release", "17", "-version"],
    packages: ["default-jdk-headless"],
    use: "the documented check of webhooks in Java",
  },
  {
    name: "protoc with Java's runtime",
    probe: [
      "sh",
      "-c",
      "protoc --version && ls /usr/include/google/protobuf/timestamp.proto /usr/share/java/protobuf.jar",
    ],
    packages: ["protobuf-compiler", "libprotobuf-dev", "libprotobuf-java"],
    use: "compiling the Java code that clients generate",
  },
  {
    name: "cargo",
    probe: ["cargo", "--version"],
    packages: ["cargo"],
    use: "the documented check of webhooks in Rust",
  },
];

/**
 * Checks for the programs that the tests of a tier need, and installs missing ones, as root on Debian and Ubuntu. Prints a
 * line for each that is still missing; returns false if that must fail the run, as with `CI=true`.
 */
export async function providePrograms(tier: Tier): Promise<boolean> {
  const programs = tier === "long" ? [...shortPrograms, ...longPrograms] : shortPrograms;
  let missing = await missingOf(programs);
  if (missing.length > 0 && mayInstall()) {
    const packages = missing.flatMap((program) => program.packages);
    console.log(`installing ${packages.join(", ")}`);
    await succeeds("apt-get", ["update", "-qq"]);
    await succeeds("apt-get", ["install", "-y", "-qq", "--no-install-recommends", ...packages]);
    missing = await missingOf(missing);
  }
  for (const { name, use, packages } of missing) {
    console.log(
      `${name} is missing, so these tests are skipped: ${use}. To get it: apt-get install ${packages.join(" ")}`,
    );
  }
  return missing.length === 0 || process.env["CI"] !== "true";
}

async function missingOf(programs: readonly Program[]): Promise<Program[]> {
  const found = await Promise.all(programs.map(({ probe: [command, ...args] }) => succeeds(command, args)));
  return programs.filter((_, place) => found[place] !== true);
}

function succeeds(command: string, args: readonly string[]): Promise<boolean> {
  return new Promise((resolve) => execFile(command, [...args], (error) => resolve(error === null)));
}

function mayInstall(): boolean {
  return process.getuid?.() === 0 && existsSync("/usr/bin/apt-get");
}
