/** Wrap mono samples in [-1, 1] as a 16-bit WAV file. */
export function wavBlob(samples, rate) {
  const view = new DataView(new ArrayBuffer(44 + 2 * samples.length));
  const tag = (at, name) => [...name].forEach((letter, i) => view.setUint8(at + i, letter.charCodeAt(0)));
  tag(0, "RIFF");
  view.setUint32(4, 36 + 2 * samples.length, true);
  tag(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, 1, true);
  view.setUint32(24, rate, true);
  view.setUint32(28, 2 * rate, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  tag(36, "data");
  view.setUint32(40, 2 * samples.length, true);
  samples.forEach((sample, i) => view.setInt16(44 + 2 * i, Math.max(-1, Math.min(1, sample)) * 32_767, true));
  return new Blob([view.buffer], { type: "audio/wav" });
}
