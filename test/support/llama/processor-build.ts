import type { BuildChoice } from "../../../src/engines/llama/builds/builds.js";

/** The build for the processor, as npm installed it. */
export const processorBuild: BuildChoice = { gpus: [false], packages: {}, gpuLayers: null, moduleDir: null };
