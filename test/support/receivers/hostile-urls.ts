import type { Zone } from "./dns-server.js";
import { privateAddresses, urlHost } from "./traps.js";

export interface HostileUrl {
  readonly url: string;
  /** Why the URL is rejected. */
  readonly why: string;
}

/** Spellings of hosts in a URL, by the kind of address that they mean. Each is tried as an https URL. */
const hosts: Readonly<Record<string, readonly string[]>> = {
  "loopback, dotted": ["127.0.0.1", "127.255.255.254", "127.127.127.127"],
  "loopback, short": ["127.1", "127.0.1", "127.65535"],
  "loopback, one number": ["2130706433", "0x7f000001", "0X7F000001", "017700000001"],
  "loopback, hex parts": ["0x7f.1", "0x7f.0x0.0x0.0x1", "127.0x1", "0x7f.0.0.1"],
  "loopback, octal parts": ["0177.0.0.1", "0177.1", "00000177.0.0.01", "0177.0x0.1"],
  "loopback, dot at the end": ["127.0.0.1.", "127.1.", "2130706433."],
  "loopback, other digits and dots": [
    "１２７.0.0.1",
    "１２７．０．０．１",
    "127。0。0。1",
    "127｡0｡0｡1",
    "①②⑦.⓪.⓪.①",
    "𝟏𝟐𝟕.𝟎.𝟎.𝟏",
  ],
  "loopback, percent-encoded": ["127%2e0%2e0%2e1", "%31%32%37.0.0.1", "%EF%BC%91%EF%BC%92%EF%BC%97.0.0.1"],
  "unspecified and this network": ["0", "0.0.0.0", "0x0", "00000", "0.1.2.3"],
  "private, 10/8": ["10.0.0.1", "10.255.255.255", "10.1", "0x0a000001", "167772161", "012.0.0.1"],
  "private, 172.16/12": ["172.16.0.1", "172.31.255.255", "0xac.0x10.1", "2886729729"],
  "private, 192.168/16": ["192.168.0.1", "192.168.257", "0xc0a80101", "3232235777", "0300.0250.1.1"],
  "link-local and metadata, IPv4": [
    "169.254.169.254",
    "169.254.170.2",
    "169.254.1",
    "2852039166",
    "0xa9fea9fe",
    "0251.0376.0251.0376",
    "0xa9.254.0251.254",
  ],
  "metadata outside of link-local": ["100.100.100.200", "168.63.129.16", "192.0.0.192"],
  "carrier-grade NAT": ["100.64.0.1", "100.127.255.255", "0x64400001"],
  "documentation and benchmarking": ["192.0.2.1", "198.51.100.1", "203.0.113.1", "198.18.0.1", "198.19.255.255"],
  "protocol assignments and relays": ["192.0.0.1", "192.88.99.1"],
  "multicast, reserved, broadcast": ["224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255", "4294967295"],
  "loopback, IPv6": ["[::1]", "[0:0:0:0:0:0:0:1]", "[0000::0001]", "[::0.0.0.1]"],
  "unspecified, IPv6": ["[::]", "[0:0:0:0:0:0:0:0]"],
  "mapped IPv4": [
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[0:0:0:0:0:ffff:7f00:0001]",
    "[::FFFF:10.0.0.1]",
    "[::ffff:a9fe:a9fe]",
    "[::ffff:0.0.0.0]",
    "[::ffff:100.64.0.1]",
  ],
  "compatible IPv4": ["[::127.0.0.1]", "[::7f00:1]", "[::169.254.169.254]", "[::808:808]"],
  "translated IPv4": ["[::ffff:0:127.0.0.1]", "[::ffff:0:a9fe:a9fe]"],
  NAT64: ["[64:ff9b::127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b::a9fe:a9fe]", "[64:ff9b::10.0.0.1]"],
  "local NAT64": ["[64:ff9b:1::127.0.0.1]", "[64:ff9b:1:a9fe:a9:fe00::]", "[64:ff9b:1::808:808]"],
  "6to4": ["[2002:7f00:1::]", "[2002:a9fe:a9fe::]", "[2002:c0a8:101::1]", "[2002:808:808::]"],
  Teredo: ["[2001:0:7f00:1::]", "[2001:0:4136:e378:8000:63bf:80ff:fffe]", "[2001::5601:5601]"],
  "link-local, IPv6": ["[fe80::1]", "[febf::1]", "[fe80::a9fe:a9fe]"],
  "site-local and unique local": ["[fec0::1]", "[fc00::1]", "[fd12:3456::1]"],
  "metadata, IPv6": ["[fd00:ec2::254]", "[fd20:ce::254]", "[fd00:0ec2:0:0:0:0:0:0254]"],
  "multicast, IPv6": ["[ff02::1]", "[ff0e::1]"],
  "documentation and discard, IPv6": ["[2001:db8::1]", "[3fff::1]", "[100::1]"],
  "not handed out, IPv6": ["[4000::1]", "[1::1]", "[5f00::1]", "[2001:2::1]", "[2001:20::1]"],
  "localhost by name": [
    "localhost",
    "LOCALHOST",
    "LocalHost",
    "localhost.",
    "a.localhost",
    "a.b.localhost.",
    "ⓛocalhost",
  ],
  "private zones": ["printer.local", "a.internal", "db.corp.internal.", "box.home.arpa", "localhost.localdomain"],
  "metadata by name": ["metadata.google.internal", "metadata.goog", "metadata", "metadata.tencentyun.com"],
  "one part only": ["redis", "kubernetes", "intranet.", "xn--bcher-kva"],
  "dot at the end": ["hooks.example.com.", "example.com。"],
  "this machine": privateAddresses.map(urlHost),
};

/** Host names that resolve to internal addresses, for a test's name server. */
export const hostileZone: Zone = {
  "127-0-0-1.nip.test": ["127.0.0.1"],
  "7f000001.nip.test": ["127.0.0.1"],
  "app.10.0.0.1.nip.test": ["10.0.0.1"],
  "six.nip.test": ["::1"],
  "mapped.nip.test": ["::ffff:127.0.0.1"],
  "nat64.nip.test": ["64:ff9b::7f00:1"],
  "6to4.nip.test": ["2002:7f00:1::"],
  "metadata.nip.test": ["169.254.169.254"],
  "linklocal.nip.test": ["fe80::1"],
  "zero.nip.test": ["0.0.0.0"],
  "shared.nip.test": ["100.64.0.1"],
  "xn--bcher-kva.test": ["127.0.0.1"],
  "good-and-bad.test": ["3ffe::1", "127.0.0.1"],
  "four-and-six.test": ["127.0.0.1", "::1"],
  "bad-in-the-middle.test": ["3ffe::1", "3ffe::2", "::1", "3ffe::3"],
  ...Object.fromEntries(privateAddresses.map((address, index) => [`own-${index}.nip.test`, [address]])),
};

const named = [...Object.keys(hostileZone).filter((name) => !name.startsWith("xn--")), "bücher.test"];

/** URLs that are invalid for another reason than their host. `:port` stands for the port. */
const others: Readonly<Record<string, readonly string[]>> = {
  credentials: [
    "https://user:pass@hooks.example.com/",
    "https://user@hooks.example.com/",
    "https://:p@hooks.example.com/",
  ],
  "credentials that look like a host": [
    "https://hooks.example.com@127.0.0.1:port/",
    "https://hooks.example.com%40x@[::1]:port/",
  ],
  fragment: [
    "https://hooks.example.com/#a",
    "https://hooks.example.com/#",
    "https://127.0.0.1:port#@hooks.example.com/",
  ],
  "port of another service": [22, 25, 53, 80, 110, 135, 445, 993, 0].map(
    (port) => `https://hooks.example.com:${port}/`,
  ),
  scheme: [
    "http://hooks.example.com/",
    "http://127.0.0.1:port/",
    "ftp://hooks.example.com/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:port/_x",
    "javascript:alert(1)",
    "data:text/plain,x",
    "ws://127.0.0.1:port/",
    "wss://hooks.example.com/",
    "unix:/run/docker.sock",
    "blob:https://hooks.example.com/x",
  ],
  "no URL": [
    "",
    "hooks.example.com",
    "//127.0.0.1:port/",
    "https://",
    "https:///",
    "https://1.2.3.4.5/",
    "https://256.1.1.1/",
  ],
  "no host": [
    "https://[::1",
    "https://[fe80::1%25eth0]/",
    "https://exa mple.com/",
    "https://%00/",
    "https://hooks..example.com:99999/",
  ],
  "hidden host": [
    "https:127.0.0.1:port/",
    "https:/127.0.0.1:port/",
    "https:\\\\127.0.0.1:port\\",
    "https://hooks.example.com\\@127.0.0.1:port/",
    "https://127.0.0.1\\hooks.example.com/",
    "\thttps://127.0.0.1:port/",
    "https://127.0.\n0.1:port/",
    "https://hooks.example.com\u0000.127.0.0.1/",
    "https://127.0.0.1:port?@hooks.example.com",
    "https://loc\u00adalhost:port/",
    "https://127.0.0.1\u200b:port/",
  ],
  "too long": [`https://hooks.example.com/${"a".repeat(2_048)}`],
};

/**
 * URLs to which nothing may ever be sent: a registration rejects each, and so does an attempt. Host names that resolve
 * to internal addresses are those of `hostileZone`. A URL without a port gets `port`.
 */
export function hostileUrls(port: number): readonly HostileUrl[] {
  const byHost = Object.entries({ ...hosts, "name that leads inside": named }).flatMap(([why, ofKind]) =>
    ofKind.map((host) => ({ url: `https://${host}:${port}/hook`, why })),
  );
  const byRest = Object.entries(others).flatMap(([why, ofKind]) =>
    ofKind.map((url) => ({ url: url.replace(":port", `:${port}`), why })),
  );
  return [...byHost, ...byRest];
}
