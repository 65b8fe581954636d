// Pastes playout-core.js into playback-worklet.js: `node web/paste-core.mjs` after every change of the core.
import { readFileSync, writeFileSync } from "node:fs";

const at = (name) => new URL(name, import.meta.url);
const core = readFileSync(at("playout-core.js"), "utf8").replace(/^export .*\n/m, "");
const worklet = readFileSync(at("playback-worklet.js"), "utf8");
const [begin, end] = ["// <playout-core>\n", "// </playout-core>\n"];
const head = worklet.slice(0, worklet.indexOf(begin) + begin.length);
const fresh = head + core.trimEnd() + "\n" + worklet.slice(worklet.indexOf(end));
if (process.argv[2] === "--check") process.exit(fresh === worklet ? 0 : 1);
writeFileSync(at("playback-worklet.js"), fresh);
