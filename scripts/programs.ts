import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";

/** A program outside npm that some tests need. */
interface Program {
  readonly name: string;
  /** Exits 0 when the program is there and complete. */
  readonly probe: readonly [string, ...string[]];
  /** Debian packages that bring it. */
  readonly packages: readonly string[];
  /** What is left out without it. */
  readonly use: string;
}

const programs: readonly Program[] = [
  {
    name: "python3 with venv",
    probe: ["python3", "-c", "import venv, ensurepip"],
    packages: ["python3", "python3-venv"],
    use: "conformance with clients of other languages",
  },
  {
    name: "pip",
    probe: ["python3", "-m", "pip", "--version"],
    packages: ["python3-pip"],
    use: "real models, which come from a package index",
  },
  { name: "openssl", probe: ["openssl", "version"], packages: ["openssl"], use: "TLS listeners" },
  {
    name: "redis-server with redis-cli",
    probe: ["sh", "-c", "redis-server --version && redis-cli --version"],
    packages: ["redis-server", "redis-tools"],
    use: "state in Redis: one server, Sentinel, a cluster",
  },
  {
    name: "gcc",
    probe: ["sh", "-c", "echo 'int main(void){return 0;}' | gcc -x c -o /dev/null -"],
    packages: ["gcc", "libc6-dev"],
    use: "power cuts",
  },
  { name: "strace", probe: ["strace", "--version"], packages: ["strace"], use: "the order of sync and answer" },
  {
    name: "faketime",
    probe: ["faketime", "--version"],
    packages: ["faketime"],
    use: "the schedule of webhooks, in hours",
  },
  { name: "prlimit", probe: ["prlimit", "--version"], packages: ["util-linux"], use: "full disks" },
  {
    name: "promtool",
    probe: ["promtool", "--version"],
    packages: ["prometheus"],
    use: "the check of the metrics' form",
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
  {
    name: "chromium",
    probe: ["chromium", "--version"],
    packages: ["chromium"],
    use: "the dashboard in a browser",
  },
  { name: "curl", probe: ["curl", "--version"], packages: ["curl"], use: "the documented curl lines" },
];

function succeeds(command: string, args: readonly string[]): boolean {
  return spawnSync(command, args, { stdio: "ignore" }).status === 0;
}

function missing(): Program[] {
  return programs.filter(({ probe: [command, ...args] }) => !succeeds(command, args));
}

function mayInstall(): boolean {
  return process.getuid?.() === 0 && existsSync("/usr/bin/apt-get");
}

/**
 * Looks for the programs that tests need and installs what is missing, as root on Debian and Ubuntu. What is still
 * missing then is named in one line each; false when that must fail the run, which is so with `CI=true`.
 */
export function providePrograms(): boolean {
  const wanted = missing();
  if (wanted.length > 0 && mayInstall()) {
    const packages = wanted.flatMap((program) => program.packages);
    console.log(`installing ${packages.join(", ")}`);
    succeeds("apt-get", ["update", "-qq"]);
    succeeds("apt-get", ["install", "-y", "-qq", "--no-install-recommends", ...packages]);
  }
  const left = missing();
  for (const { name, use, packages } of left) {
    console.log(`${name} is not here, so this is left out: ${use}. To get it: apt-get install ${packages.join(" ")}`);
  }
  return left.length === 0 || process.env["CI"] !== "true";
}
