// SPDX-License-Identifier: MIT

// SFTP with ssh2 at the speed of the path: npm install, then
//
//     node sftp.js [--stock] [--bdp BYTES] [--key FILE] [--accept-any-host] get|put USER@HOST:REMOTE LOCAL
//
// A channel has a window of 2 MiB, which no parameter changes: 168 Mbit/s over 100 ms. So the file goes over as many channels
// of one connection as hold twice what "autobuf explain" says that the path holds.
import { spawnSync } from "node:child_process";
import { open, readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { parseArgs, promisify } from "node:util";
import ssh2 from "ssh2";

const CHANNEL_BYTES = 2 << 20;
const BLOCK_BYTES = 32 << 10; // what every server takes in a request
const MOST_CHANNELS = 10; // sshd_config(5): MaxSessions

function told(program, ...args) {
  return spawnSync(program, args, { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] }).stdout || "";
}

// What the path holds; 0: not known.
function bdpBytes(host) {
  const path = JSON.parse(told("autobuf", "explain", "--json", host) || "{}");
  return Math.max(path.rx_bdp_bytes || 0, path.tx_bdp_bytes || 0);
}

// ssh2 reads no known_hosts: ssh-keygen finds the host's keys, of which the server has to have one.
function checkHost(host) {
  const lines = told("ssh-keygen", "-F", host, "-f", `${homedir()}/.ssh/known_hosts`).split("\n");
  const words = lines.filter((line) => line && !line.startsWith("#")).map((line) => line.split(/\s+/));
  const known = words.filter(([first]) => !first.startsWith("@"));
  const revoked = words.filter(([first]) => first === "@revoked").map((line) => line.slice(1));
  if (!known.length) throw new Error(`${host} is not in known_hosts`);
  const kinds = known.flatMap(([, kind]) => (kind === "ssh-rsa" ? ["rsa-sha2-512", "rsa-sha2-256"] : [kind]));
  return {
    algorithms: { serverHostKey: [...new Set(kinds)] },
    hostVerifier: (key) => {
      const has = (found) => found.some(([, , text]) => Buffer.from(text, "base64").equals(key));
      return has(known) && !has(revoked);
    },
  };
}

function connect(settings) {
  const client = new ssh2.Client();
  return new Promise((resolve, reject) => {
    client.on("ready", () => resolve(client)).on("error", reject).connect(settings);
  });
}

// A file as promises, on a channel of its own.
async function remoteFile(client, name, flags) {
  const sftp = await promisify(client.sftp.bind(client))();
  const call = (method) => promisify(sftp[method].bind(sftp));
  const handle = await call("open")(name, flags);
  return {
    size: async () => (await call("fstat")(handle)).size,
    read: (block, size, at) => call("read")(handle, block, 0, size, at),
    write: (block, size, at) => call("write")(handle, block, 0, size, at),
    close: () => call("close")(handle),
  };
}

async function localFile(name, flags) {
  const file = await open(name, flags);
  return {
    size: async () => (await file.stat()).size,
    read: async (block, size, at) => (await file.read(block, 0, size, at)).bytesRead,
    write: async (block, size, at) => {
      for (let done = 0; done < size; ) done += (await file.write(block, done, size - done, at + done)).bytesWritten;
    },
    close: () => file.close(),
  };
}

async function overChannels(client, get, remote, local, bdp) {
  if (!get) {
    const readable = await open(local); // or what is there would be emptied in vain
    await readable.read(Buffer.alloc(1), 0, 1, 0);
    await readable.close();
  }
  const first = await remoteFile(client, remote, get ? "r" : "w");
  const near = await localFile(local, get ? "w" : "r");
  const size = await (get ? first : near).size();
  let next = 0;
  const blocks = async (from, to) => {
    const block = Buffer.allocUnsafe(BLOCK_BYTES);
    while (next < size) {
      const at = next;
      const wanted = Math.min(BLOCK_BYTES, size - at);
      next += wanted;
      for (let had = 0, more; had < wanted; had += more) {
        more = await from.read(had ? block.subarray(had) : block, wanted - had, at + had);
        if (!more) throw new Error("the file became shorter");
      }
      await to.write(block, wanted, at);
    }
  };
  const channel = async (far) => {
    const requests = Array.from({ length: CHANNEL_BYTES / BLOCK_BYTES }, () => (get ? blocks(far, near) : blocks(near, far)));
    await Promise.all(requests);
    await far.close();
  };
  const wanted = Math.ceil(Math.min(2 * bdp, size) / CHANNEL_BYTES);
  const others = Array.from({ length: Math.max(Math.min(wanted, MOST_CHANNELS) - 1, 0) }, async () => {
    const far = await remoteFile(client, remote, get ? "r" : ssh2.utils.sftp.OPEN_MODE.WRITE).catch(() => null);
    if (far) await channel(far); // a server may allow fewer (MaxSessions)
  });
  await Promise.all([channel(first), ...others]);
  await near.close();
}

async function main() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      stock: { type: "boolean" },
      bdp: { type: "string" },
      key: { type: "string", default: `${homedir()}/.ssh/id_ed25519` },
      "accept-any-host": { type: "boolean" },
    },
  });
  const [direction, place, local] = positionals;
  const [, username, host, remote] = /^([^@]+)@([^:]+):(.+)$/.exec(place || "") || [];
  if (!remote || !local || !["get", "put"].includes(direction)) throw new Error("get|put USER@HOST:REMOTE LOCAL");
  const checked = values["accept-any-host"] ? {} : checkHost(host);
  const client = await connect({ host, username, privateKey: await readFile(values.key), ...checked });
  if (values.stock) {
    const sftp = await promisify(client.sftp.bind(client))();
    if (direction === "get") await promisify(sftp.fastGet.bind(sftp))(remote, local);
    else await promisify(sftp.fastPut.bind(sftp))(local, remote);
  } else {
    const bdp = values.bdp === undefined ? bdpBytes(host) : Number(values.bdp);
    await overChannels(client, direction === "get", remote, local, bdp);
  }
  client.end();
}

main().catch((error) => {
  console.error(error.message);
  process.exit(1);
});
