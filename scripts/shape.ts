/** Measures the structure of `src` and checks it against the bounds below: `npm run shape`. */
import { dirname } from "node:path";
import { fileCircles, folderCircles, readSources, type SourceFile } from "./import-graph.js";

export interface Shape {
  readonly files: number;
  /** Lines of `src` without the dashboard. */
  readonly lines: number;
  /** Share of files with exactly one importer and fewer than `smallLines` lines. */
  readonly smallWithOneImporter: number;
  readonly medianLines: number;
  readonly p90Lines: number;
  /** Folders by the number of files that lie directly in them, the largest first. */
  readonly folders: readonly (readonly [string, number])[];
  readonly fileCircles: readonly (readonly string[])[];
  readonly folderCircles: readonly (readonly string[])[];
}

const smallLines = 60;

/** The number of files and of lines grows with the product: they are printed and not checked. */
export const bounds = {
  smallWithOneImporterMax: 0.08,
  medianLinesMin: 80,
  medianLinesMax: 140,
  p90LinesMax: 319,
  filesInFolderMax: 20,
} as const;

export function measureShape(sources: readonly SourceFile[]): Shape {
  const importers = new Map<string, number>();
  for (const { imports } of sources) {
    for (const path of new Set(imports.map((one) => one.path))) {
      if (path !== null) importers.set(path, (importers.get(path) ?? 0) + 1);
    }
  }
  const lines = sources.map((file) => file.lines).sort((a, b) => a - b);
  const small = sources.filter((file) => file.lines < smallLines && importers.get(file.path) === 1);
  const folders = new Map<string, number>();
  for (const { path } of sources) folders.set(dirname(path), (folders.get(dirname(path)) ?? 0) + 1);
  return {
    files: sources.length,
    lines: sum(sources.filter(({ path }) => !path.startsWith("src/dashboard/")).map((file) => file.lines)),
    smallWithOneImporter: small.length / sources.length,
    medianLines: lines[Math.floor(lines.length / 2)] ?? 0,
    p90Lines: lines[Math.floor(lines.length * 0.9)] ?? 0,
    folders: [...folders].sort(([, a], [, b]) => b - a),
    fileCircles: fileCircles(sources),
    folderCircles: folderCircles(sources),
  };
}

/** The bounds that the shape exceeds, each as a sentence. */
export function shapeFaults(shape: Shape): string[] {
  const { smallWithOneImporter, medianLines, p90Lines, folders } = shape;
  const isMedianIn = medianLines >= bounds.medianLinesMin && medianLines <= bounds.medianLinesMax;
  return [
    ...shape.fileCircles.map((circle) => `files import each other: ${circle.join(", ")}`),
    ...shape.folderCircles.map((circle) => `folders import each other: ${circle.join(", ")}`),
    ...folders
      .filter(([, files]) => files > bounds.filesInFolderMax)
      .map(([folder, files]) => `${folder} has ${files} files; at most ${bounds.filesInFolderMax}`),
    ...(smallWithOneImporter > bounds.smallWithOneImporterMax
      ? [`${percent(smallWithOneImporter)} of the files are small and have one importer; at most 8 %`]
      : []),
    ...(isMedianIn ? [] : [`the median file has ${medianLines} lines, not 80 to 140`]),
    ...(p90Lines <= bounds.p90LinesMax ? [] : [`nine of ten files have up to ${p90Lines} lines, not fewer than 320`]),
  ];
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`;
}

if (process.argv[1]?.endsWith("shape.ts")) {
  const shape = measureShape(readSources());
  const [largest] = shape.folders;
  console.log(`files under src                          ${shape.files}`);
  console.log(`lines without the dashboard              ${shape.lines}`);
  console.log(`one importer and under ${smallLines} lines           ${percent(shape.smallWithOneImporter)}`);
  console.log(`lines of a file, median and p90          ${shape.medianLines}, ${shape.p90Lines}`);
  console.log(`largest folder                           ${largest?.[0]}: ${largest?.[1]} files`);
  console.log(`circles of files and of folders          ${shape.fileCircles.length}, ${shape.folderCircles.length}`);
  const faults = shapeFaults(shape);
  for (const fault of faults) console.error(`\n${fault}`);
  process.exitCode = faults.length === 0 ? 0 : 1;
}
