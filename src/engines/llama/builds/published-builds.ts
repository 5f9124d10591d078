/** Written by scripts/engine-builds.ts from npm's registry. Builds of node-llama-cpp that can be installed. */

/** Version of node-llama-cpp that all of them belong to. */
export const publishedVersion = "3.21.1";

export interface PublishedPackage {
  /** Name below `@node-llama-cpp/`. */
  readonly id: string;
  /** Size of the download. */
  readonly packedBytes: number;
  /** Size on disk. */
  readonly bytes: number;
  /** SHA-512 of the download in base64, as npm writes it. */
  readonly integrity: string;
}

export const publishedPackages: readonly PublishedPackage[] = [
  {
    id: "linux-arm64",
    packedBytes: 7213055,
    bytes: 19621918,
    integrity: "sha512-eI3anSEGzJiwF2rpMpZVTdHzw47LztbvfvuRzlu/fPO18ROnBOd+75RPUBlV6qENPpmNtbov85+3VODwEwBurg==",
  },
  {
    id: "linux-armv7l",
    packedBytes: 4285216,
    bytes: 12636120,
    integrity: "sha512-N/IaOXCQogfyDrlANRXbU2u+l0dbZ4BBqc3/Rv1xknHbRi/rX0rrOf5elPG8S9I5p9ebcU48HrRqk2d9O/LNHw==",
  },
  {
    id: "linux-riscv64",
    packedBytes: 4781916,
    bytes: 11497805,
    integrity: "sha512-tjxegcxrw4heT3LIyPjXvCu7pFaD7e4ac1z+5KhWf/iS/9SSB9poqNyPXSkPibyzhTBB8BgDY47LgfBKqiu/xQ==",
  },
  {
    id: "linux-x64",
    packedBytes: 10582760,
    bytes: 29580529,
    integrity: "sha512-Totj6RTDMGo3FoK2yNUaz/oGmZD0olAqTrRluFUWmu0kW2i9TOzHSW0OWCAiGkzRCVX0WsU2CyUQo/W2NYtdPA==",
  },
  {
    id: "linux-x64-cuda",
    packedBytes: 142850036,
    bytes: 188693843,
    integrity: "sha512-idsE55VoD/FbvLhnBC9krUJaUoC0XnebseAAnCpm/brKf61HEbu+idgbb5eN6mxkjLSrHtILprJ0nDcUJjVrFg==",
  },
  {
    id: "linux-x64-cuda-ext",
    packedBytes: 176679086,
    bytes: 374197990,
    integrity: "sha512-1PuURowccBcks3CCoMe1mTHh5vD0V5bFHMUEgtbI/OSDjpP+Pdbn+lf42CGUrepTzR8kCH1HovQ7d8q6/vuIKA==",
  },
  {
    id: "linux-x64-vulkan",
    packedBytes: 27476121,
    bytes: 84483299,
    integrity: "sha512-flEeSzONQ6OIm5bYKLQf4eEnBzcC5WugFbyPUwkCqyyOFZ8pH0H9ulQ7ZNDLSIczeKneMRJornlyY1Hq7d3GDA==",
  },
  {
    id: "mac-arm64-metal",
    packedBytes: 4858447,
    bytes: 14666204,
    integrity: "sha512-6MIDAZV7DXD9R1+jEXWJkFuolni3GATGE6mmuyFYc6ZmtOh9djAy15df0T0AXK3sCmVKL+fQcOAWZezxx4MvQQ==",
  },
  {
    id: "mac-x64",
    packedBytes: 10809280,
    bytes: 30019289,
    integrity: "sha512-Q4nyNmbcNiKygBZQZjX+qLk2w3YzoiFpLWsxNURQN7xjyUi2p2rWxjRa7Otg0FrjGf/ri4aQ+X3Uj5Y0zD06eg==",
  },
  {
    id: "win-arm64",
    packedBytes: 4606830,
    bytes: 22460249,
    integrity: "sha512-/UDR7Y0B8iKfc/tqxBmWkcgRdZQ9Wrkwod7fYl4J6iZXcTIj286RkHvZSED7VMY67TrcUXVvxJVMNFtmjeYnDg==",
  },
  {
    id: "win-x64",
    packedBytes: 9787045,
    bytes: 48620398,
    integrity: "sha512-JcIpCnra7bAd7JNWA8ehdn2DIRaTMuj+fBC8bw+5rKSNzszWFbuj2XA05c5QHovonDMBLN1ePXE/hcfZtzXoUQ==",
  },
  {
    id: "win-x64-cuda",
    packedBytes: 138542727,
    bytes: 175510346,
    integrity: "sha512-PLz70neFEMkQTlmJqG1ujUtCSgHasLPMxQ9rLkqQVmZYAXqkRj+45TIHCjdn3XqUeaoun0vrO9rRaxZ8NVq9jg==",
  },
  {
    id: "win-x64-cuda-ext",
    packedBytes: 175417684,
    bytes: 367830717,
    integrity: "sha512-L2MxLVEYPDDe4O8EDWPmX6brldc9+Vt9hNoT/anj3pSnmrjkQcmaoKhHs6oP5qhEhb5Uog0rj6lgzNGtJO3p9Q==",
  },
  {
    id: "win-x64-vulkan",
    packedBytes: 26619567,
    bytes: 103426656,
    integrity: "sha512-HJ237Azh5m4Sz+w3A1IU/fYLaSDOocskcfn2ILTgqTuuORCB86EMnu3Yt/XsNhRHTtEiwz1Q/E0mO4PLIbZLAA==",
  },
];
