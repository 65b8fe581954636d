import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const web = (name) => new URL(`../../../web/${name}`, import.meta.url);

test("the core pasted into the worklet is the core that is tested", () => {
  const { status } = spawnSync(process.execPath, [web("paste-core.mjs").pathname, "--check"]);

  assert.equal(status, 0, "run: node web/paste-core.mjs");
});

test("the worklet imports nothing, so that bundlers may copy it", () => {
  assert.doesNotMatch(readFileSync(web("playback-worklet.js"), "utf8"), /^\s*import\b|import\(/m);
});

test("vendored files are the ones the README describes", () => {
  const rows = readFileSync(web("vendor/README.md"), "utf8").matchAll(/`([\w.-]+)` sha256 `([0-9a-f]{64})`/g);
  const listed = [...rows];

  assert.equal(listed.length, 3);
  for (const [, name, hash] of listed) {
    assert.equal(createHash("sha256").update(readFileSync(web(`vendor/${name}`))).digest("hex"), hash, name);
  }
});
