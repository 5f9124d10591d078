import { execFile } from "node:child_process";
import { access, constants, readdir, readFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import type { System } from "./registry.js";

/** A graphics card of this machine. */
export interface Card {
  readonly vendor: "nvidia" | "amd" | "intel" | "apple";
  readonly name: string;
  /** Null: unknown, or shared with the processor. */
  readonly memoryBytes: number | null;
}

/** Cards, drivers and libraries that programs need to compute on graphics cards. */
export interface Graphics {
  readonly cards: readonly Card[];
  /** Version of NVIDIA's driver; null if no driver is loaded. */
  readonly nvidiaDriver: string | null;
  /** Whether libraries of the CUDA runtime are installed, version 12 or 13. */
  readonly hasCudaRuntime: boolean;
  /** Whether a Vulkan loader is installed. */
  readonly hasVulkan: boolean;
  /** Device files that the user of this process has no permission to open. */
  readonly closedDevices: readonly string[];
}

/** Access to the examined machine; tests simulate it. */
export interface Machine {
  readonly system: System;
  /** Prefix of absolute paths. */
  readonly root: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Output of a command; null if it is missing, fails or takes too long. */
  run(command: string, args: readonly string[]): Promise<string | null>;
}

const commandTimeoutMs = 5_000;
const outputBytesMax = 65_536;

export function thisMachine(env: Machine["env"]): Machine {
  return {
    system: process,
    root: "/",
    env,
    run: async (command, args) => {
      // Secrets among the variables are withheld.
      const passedOn = ["PATH", "Path", "SystemRoot", "LD_LIBRARY_PATH"].map((name) => [name, env[name]]);
      const options = {
        env: Object.fromEntries(passedOn),
        timeout: commandTimeoutMs,
        killSignal: "SIGKILL",
        maxBuffer: outputBytesMax,
      } as const;
      // A missing program is the usual case.
      return await promisify(execFile)(command, [...args], options).then(
        ({ stdout }) => stdout,
        () => null,
      );
    },
  };
}

/** Finds cards, drivers and libraries by reading files and with one call of `nvidia-smi`. Loads nothing. */
export async function findGraphics(machine: Machine): Promise<Graphics> {
  const { platform, arch } = machine.system;
  if (platform === "darwin") {
    const cards: readonly Card[] = arch === "arm64" ? [{ vendor: "apple", name: "Apple GPU", memoryBytes: null }] : [];
    return { cards, nvidiaDriver: null, hasCudaRuntime: false, hasVulkan: false, closedDevices: [] };
  }
  const nvidia = await askNvidia(machine);
  const [others, libraries, closedDevices] = await Promise.all([
    platform === "linux" ? cardsOfLinux(machine, nvidia.cards.length > 0) : [],
    platform === "linux" ? librariesOfLinux(machine) : librariesOfWindows(machine),
    platform === "linux" ? closedDevicesOf(machine) : [],
  ]);
  return { ...libraries, cards: [...nvidia.cards, ...others], nvidiaDriver: nvidia.driver, closedDevices };
}

/** One line for each card: name, driver, memory in MiB. */
const nvidiaQuery = ["--query-gpu=name,driver_version,memory.total", "--format=csv,noheader,nounits"];

async function askNvidia(machine: Machine): Promise<{ cards: readonly Card[]; driver: string | null }> {
  const lines = (await machine.run("nvidia-smi", nvidiaQuery))?.trim().split("\n") ?? [];
  const rows = lines.map((line) => line.split(",").map((cell) => cell.trim())).filter((row) => row.length === 3);
  const [first] = rows;
  if (first !== undefined) {
    const cards = rows.map(([name = "", , memory]): Card => {
      const bytes = Number(memory) * 1_048_576;
      return { vendor: "nvidia", name, memoryBytes: bytes > 0 ? bytes : null };
    });
    return { cards, driver: first[1] ?? null };
  }
  // The driver is loaded, and its command is not installed, as in some containers.
  const version = await read(machine, "proc/driver/nvidia/version");
  if (version === null) return { cards: [], driver: null };
  const folder = "proc/driver/nvidia/gpus";
  const facts = await Promise.all(
    (await list(machine, folder)).map((id) => read(machine, `${folder}/${id}/information`)),
  );
  const names = facts.flatMap((text) => /^Model:\s*(.+)$/m.exec(text ?? "")?.[1] ?? []);
  const cards = names.map((name): Card => ({ vendor: "nvidia", name, memoryBytes: null }));
  return { cards, driver: /\b\d+\.\d+(\.\d+)?\b/.exec(version)?.[0] ?? null };
}

/** PCI ids of vendors. */
const vendors: ReadonlyMap<string, { readonly vendor: Card["vendor"]; readonly name: string }> = new Map([
  ["0x10de", { vendor: "nvidia", name: "NVIDIA card" }],
  ["0x1002", { vendor: "amd", name: "AMD card" }],
  ["0x8086", { vendor: "intel", name: "Intel graphics" }],
]);

/** Cards that the kernel has a driver for, except NVIDIA's if those are known already. */
async function cardsOfLinux(machine: Machine, hasNvidia: boolean): Promise<readonly Card[]> {
  const names = (await list(machine, "sys/class/drm")).filter((name) => /^card\d+$/.test(name));
  const cards = await Promise.all(
    names.map(async (name): Promise<Card | null> => {
      const device = `sys/class/drm/${name}/device`;
      const known = vendors.get((await read(machine, `${device}/vendor`))?.trim() ?? "");
      if (known === undefined || (known.vendor === "nvidia" && hasNvidia)) return null;
      const product = (await read(machine, `${device}/product_name`))?.trim() || known.name;
      const bytes = Number(await read(machine, `${device}/mem_info_vram_total`));
      return { vendor: known.vendor, name: product, memoryBytes: bytes > 0 ? bytes : null };
    }),
  );
  return cards.filter((card) => card !== null);
}

type Libraries = Pick<Graphics, "hasCudaRuntime" | "hasVulkan">;

/** The cache of the dynamic linker has the names of all libraries that it finds. */
async function librariesOfLinux(machine: Machine): Promise<Libraries> {
  const folders = (machine.env["LD_LIBRARY_PATH"] ?? "").split(":").filter((folder) => folder !== "");
  const listed = await Promise.all(folders.map((folder) => list(machine, folder)));
  const cached = (await read(machine, "etc/ld.so.cache", "latin1")) ?? "";
  const has = (name: string): boolean => cached.includes(`${name}\0`) || listed.some((names) => names.includes(name));
  const isWhole = (major: number) => has(`libcudart.so.${major}`) && has(`libcublas.so.${major}`);
  return { hasCudaRuntime: isWhole(13) || isWhole(12), hasVulkan: has("libvulkan.so.1") };
}

async function librariesOfWindows(machine: Machine): Promise<Libraries> {
  const { env } = machine;
  const system = join(env["SystemRoot"] ?? "C:\\Windows", "System32");
  const cuda =
    env["CUDA_PATH"] === undefined ? [] : [join(env["CUDA_PATH"], "bin"), join(env["CUDA_PATH"], "bin", "x64")];
  const path = (env["PATH"] ?? env["Path"] ?? "").split(delimiter).filter((folder) => folder !== "");
  const names = new Set<string>();
  for (const folder of [system, ...cuda, ...path])
    for (const name of await list(machine, folder)) names.add(name.toLowerCase());
  const isWhole = (major: number) => names.has(`cudart64_${major}.dll`) && names.has(`cublas64_${major}.dll`);
  return { hasCudaRuntime: isWhole(13) || isWhole(12), hasVulkan: names.has("vulkan-1.dll") };
}

/** Vulkan opens `/dev/dri/renderD*`, ROCm's driver `/dev/kfd`. */
async function closedDevicesOf(machine: Machine): Promise<readonly string[]> {
  const render = (await list(machine, "dev/dri")).filter((name) => name.startsWith("renderD"));
  const devices = [...render.map((name) => `/dev/dri/${name}`), "/dev/kfd"];
  const isClosed = await Promise.all(
    devices.map((device) =>
      access(join(machine.root, device), constants.R_OK | constants.W_OK).then(
        () => false,
        (error: NodeJS.ErrnoException) => error.code === "EACCES",
      ),
    ),
  );
  return devices.filter((_, i) => isClosed[i]);
}

async function read({ root }: Machine, path: string, encoding: BufferEncoding = "utf8"): Promise<string | null> {
  return await readFile(join(root, path), encoding).catch(() => null);
}

async function list({ root }: Machine, path: string): Promise<readonly string[]> {
  return await readdir(join(root, path)).catch(() => []);
}
