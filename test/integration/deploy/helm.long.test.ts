import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { loadConfig } from "../../../src/app/config/load-config.js";
import { goProgram } from "../../support/go-program.js";
import { hasPython, pythonVenv } from "../../support/python-venv.js";

const run = promisify(execFile);
const chart = "deploy/helm/unified-inference";
const forms = ["all-in-one", "gateway-core"] as const;
const ofForm = (form: string) => ["--values", `${chart}/ci/${form}-values.yaml`];
const withImage = ["--set", "image.repository=registry.example.com/unified-inference"];
/** The oldest version that the chart supports, and the newest one that kubernetes-validate knows. */
const kubernetesVersions = ["1.30", "1.37"];

interface KubernetesObject {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly data?: Readonly<Record<string, string>>;
  // biome-ignore lint/suspicious/noExplicitAny: the schemas of Kubernetes check its form
  readonly spec: any;
}

let helm: string;
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "uis-helm-"));
  helm = await goProgram("helm.sh/helm/v3/cmd/helm", "v3.21.4");
}, 1_200_000);
afterAll(() => rm(folder, { recursive: true, force: true }));

async function template(args: readonly string[]): Promise<string> {
  const { stdout } = await run(helm, ["template", "uis", chart, "--namespace", "models", ...args]);
  return stdout;
}

async function objectsOf(args: readonly string[]): Promise<readonly KubernetesObject[]> {
  return parseAllDocuments(await template(args)).map((document) => document.toJS() as KubernetesObject);
}

function named(objects: readonly KubernetesObject[], kind: string, name: string): KubernetesObject {
  const found = objects.find(
    (object) => object.kind === kind && object.metadata.name === `uis-unified-inference${name}`,
  );
  if (found === undefined) throw new Error(`there is no ${kind} ${name}`);
  return found;
}

/** The lines of objects that fit the schemas of a version of Kubernetes. Rejects with the program's output if one does not. */
async function validate(objects: readonly object[], version: string): Promise<readonly string[]> {
  const python = await pythonVenv("test/support/programs/kubernetes-validate.txt");
  const file = join(folder, "objects.json");
  await writeFile(file, objects.map((object) => `---\n${JSON.stringify(object)}\n`).join(""));
  // Run by its path, because its first line names a folder that was renamed after pip installed it.
  const program = join(dirname(python), "kubernetes-validate");
  const { stdout, stderr } = await run(python, [program, "--strict", "-k", version, file]);
  return `${stdout}${stderr}`.split("\n").filter((line) => line.includes(" passed for resource "));
}

/** The error message of Helm for invalid values. */
function refusal(args: readonly string[]): Promise<string> {
  return template(args).then(
    () => "nothing",
    (error: { readonly stderr: string }) => error.stderr,
  );
}

describe.each([
  ["all-in-one", ofForm("all-in-one")],
  ["gateway-core", ofForm("gateway-core")],
  ["the default values", withImage],
] as const)("the Helm chart with %s", (name, args) => {
  it("passes helm lint", async () => {
    const { stdout } = await run(helm, ["lint", "--strict", chart, ...args]);
    expect(stdout).toContain("0 chart(s) failed");
  });

  // Needs python3 with venv.
  it.skipIf(!hasPython).each(kubernetesVersions)(
    "fits the schemas of Kubernetes %s",
    async (version) => {
      // A ServiceMonitor is a custom resource, whose schema the program does not have.
      const own = (await objectsOf(args)).filter(({ kind }) => kind !== "ServiceMonitor");
      expect(await validate(own, version)).toHaveLength(own.length);
    },
    300_000,
  );

  it("has a uis.yaml that the service loads, with the hosts of probes", async () => {
    const maps = (await objectsOf(args)).filter(({ kind }) => kind === "ConfigMap");
    expect(maps).toHaveLength(name === "gateway-core" ? 2 : 1);
    for (const { metadata, data } of maps) {
      const file = join(folder, `${metadata.name}.yaml`);
      await writeFile(file, data?.["uis.yaml"] ?? "");
      const isOfFleet = name === "gateway-core";
      const env = {
        REDIS_URL: "redis://redis:6379",
        ...(isOfFleet ? { UIS_CORE_TOKEN: "a-token-of-this-test-0123456789" } : {}),
      };
      const { config } = await loadConfig({ env, cwd: folder, file });
      expect(config.server.host).toBe("0.0.0.0");
      const hosts = config.server.allowed_hosts;
      expect(hosts.length === 0 || hosts.includes("localhost")).toBe(true);
    }
  });
});

// Needs python3 with venv.
describe.skipIf(!hasPython)("kubernetes-validate", { timeout: 300_000 }, () => {
  it.each(kubernetesVersions)(
    "accepts the NetworkPolicy of deploy/kubernetes/kserve.yaml with Kubernetes %s",
    async (version) => {
      const text = await readFile("deploy/kubernetes/kserve.yaml", "utf8");
      const objects = parseAllDocuments(text).map((document) => document.toJS() as KubernetesObject);
      const policies = objects.filter(({ kind }) => kind === "NetworkPolicy");
      expect(await validate(policies, version)).toHaveLength(1);
    },
  );

  it("rejects a field that Kubernetes does not have", async () => {
    const [first] = (await objectsOf(withImage)).filter(({ kind }) => kind === "PodDisruptionBudget");
    const wrong = { ...first, spec: { ...first?.spec, maxUnavailible: 1 } };
    await expect(validate([wrong], "1.30")).rejects.toThrow();
  });
});

describe("the Helm chart", () => {
  it("gives a pod enough time to stop", async () => {
    const drain = ["--set", "drain.preStopSeconds=7,drain.delaySeconds=11,drain.maxSeconds=300"];
    for (const form of forms) {
      const objects = await objectsOf([...ofForm(form), ...drain]);
      for (const { spec } of objects.filter(({ kind }) => kind === "Deployment")) {
        const pod = spec.template.spec;
        expect(pod.terminationGracePeriodSeconds).toBe(7 + 11 + 300 + 20);
        expect(pod.containers[0].lifecycle.preStop).toEqual({ sleep: { seconds: 7 } });
      }
      for (const { data } of objects.filter(({ kind }) => kind === "ConfigMap")) {
        expect(data?.["uis.yaml"]).toMatch(/drain: 300s[\s\S]*drain_delay: 11s/);
      }
    }
  });

  it("runs pods without root, capabilities, a writable root file system and a token of the cluster", async () => {
    for (const args of [...forms.map(ofForm), withImage]) {
      for (const { spec } of (await objectsOf(args)).filter(({ kind }) => kind === "Deployment")) {
        const pod = spec.template.spec;
        expect(pod.automountServiceAccountToken).toBe(false);
        expect(pod.securityContext).toMatchObject({ runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } });
        expect(pod.containers[0].securityContext).toEqual({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ["ALL"] },
        });
      }
    }
  });

  it("connects gateways to the headless Service of the cores, which only they may reach", async () => {
    const objects = await objectsOf(ofForm("gateway-core"));
    const service = named(objects, "Service", "-core");
    const config = named(objects, "ConfigMap", "-gateway").data?.["uis.yaml"];
    expect(service.spec.clusterIP).toBe("None");
    expect(config).toContain(`dns:///${service.metadata.name}.models.svc.cluster.local:50051`);
    expect(config).not.toContain("models:");
    const rules = named(objects, "NetworkPolicy", "-core").spec.ingress;
    expect(rules[0].from).toEqual([
      { podSelector: { matchLabels: named(objects, "Deployment", "-gateway").spec.selector.matchLabels } },
    ]);
    for (const name of ["-gateway", "-core"]) {
      const { template } = named(objects, "Deployment", name).spec;
      const variables = template.spec.containers[0].env.map((variable: { name: string }) => variable.name);
      expect(variables).toEqual(
        expect.arrayContaining(["UIS_CORE_TOKEN_FILE", "REDIS_URL_FILE", "UIS_MASTER_KEY_FILE"]),
      );
    }
  });

  it("has selectors that match the pods of each component, and ports that these have", async () => {
    for (const args of [...forms.map(ofForm), withImage]) {
      const objects = await objectsOf(args);
      const pods = objects.filter(({ kind }) => kind === "Deployment").map(({ spec }) => spec.template);
      for (const { kind, spec } of objects) {
        const selector =
          kind === "Service" ? spec.selector : kind === "PodDisruptionBudget" ? spec.selector.matchLabels : null;
        if (selector === null) continue;
        const chosen = pods.filter(({ metadata }) =>
          Object.entries(selector).every(([label, value]) => metadata.labels[label] === value),
        );
        expect(chosen.length).toBeGreaterThan(0);
        const names = chosen.flatMap((pod) => pod.spec.containers[0].ports.map((port: { name: string }) => port.name));
        for (const { targetPort } of spec.ports ?? []) expect(names).toContain(targetPort);
      }
    }
  });

  it("stores an embedded database on one volume, which one process uses at a time", async () => {
    const objects = await objectsOf(withImage);
    const { spec } = named(objects, "Deployment", "-all-in-one");
    expect([spec.replicas, spec.strategy]).toEqual([1, { type: "Recreate" }]);
    const { metadata } = named(objects, "PersistentVolumeClaim", "");
    const volumes: readonly { persistentVolumeClaim?: { claimName: string } }[] = spec.template.spec.volumes;
    expect(volumes.flatMap(({ persistentVolumeClaim: claim }) => claim?.claimName ?? [])).toEqual([metadata.name]);
  });

  it.each([
    ["no image", [], "image.repository is empty"],
    ["several pods without Redis", [...withImage, "--set", "allInOne.replicas=2"], "needs secrets.redisUrl"],
    ["Redis without a master key", [...withImage, "--set", "secrets.redisUrl.name=uis"], "secrets.masterKey.name"],
    [
      "gateways without a token",
      [...ofForm("gateway-core"), "--set", "secrets.coreToken.name="],
      "needs secrets.coreToken.name",
    ],
    ["metrics without a token", [...withImage, "--set", "ops.expose=true"], "secrets.opsToken.name"],
    ["a ServiceMonitor without metrics", [...withImage, "--set", "serviceMonitor.enabled=true"], "needs ops.expose"],
    [
      "scaling by requests without metrics",
      [...ofForm("all-in-one"), "--set", "ops.expose=false,serviceMonitor.enabled=false"],
      "needs ops.expose",
    ],
    [
      "a setting that the chart sets",
      [...withImage, "--set", "config.server.port=80"],
      "config.server.port is set by the chart: use the value service.port",
    ],
    ["a value that does not exist", [...withImage, "--set", "replicas=2"], "replicas"],
  ] as const)("rejects %s with an error that names the value to change", async (_, args, message) => {
    expect(await refusal(args)).toContain(message);
  });
});
