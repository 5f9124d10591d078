import { access, constants } from "node:fs/promises";
import { delimiter, join } from "node:path";

/** How pip is started, in the order of preference. */
const candidates: readonly (readonly [command: string, ...args: string[]])[] = [
  ["pip"],
  ["pip3"],
  ["python3", "-m", "pip"],
];

/** The command and first arguments of the pip that is installed, looked for on PATH; null when there is none. */
export async function findPip(path: string): Promise<{ command: string; args: readonly string[] } | null> {
  const folders = path.split(delimiter).filter((folder) => folder !== "");
  for (const [name, ...args] of candidates) {
    for (const folder of folders) {
      const command = join(folder, process.platform === "win32" ? `${name}.exe` : name);
      if (await isExecutable(command)) return { command, args };
    }
  }
  return null;
}

async function isExecutable(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
