/**
 * Doubles a 24 kHz signal to 48 kHz with a half-band filter; needed only for PCM sessions.
 *
 * Even output samples are the input, untouched; odd ones are interpolated from 32 neighbours.
 */

const TAPS = 32; // neighbours of an interpolated sample, half on each side
const HALF = TAPS / 2;

/** Windowed sinc at the half-way points, normalised to unit gain at 0 Hz. */
const COEFFICIENTS = (() => {
  const taps = Float64Array.from({ length: TAPS }, (_, i) => {
    const x = i - HALF + 0.5;
    const window = 0.42 + 0.5 * Math.cos((Math.PI * x) / HALF) + 0.08 * Math.cos((2 * Math.PI * x) / HALF);
    return (Math.sin(Math.PI * x) / (Math.PI * x)) * window;
  });
  const sum = taps.reduce((a, b) => a + b);
  return taps.map((tap) => tap / sum);
})();

export class Doubler {
  constructor() {
    this.history = new Float32Array(HALF - 1); // silence before the first sample
  }

  /** All output whose right-hand neighbours are known: 16 input samples stay inside. */
  push(samples) {
    const input = new Float32Array(this.history.length + samples.length);
    input.set(this.history);
    input.set(samples, this.history.length);
    const ready = Math.max(0, input.length - TAPS + 1);
    const output = new Float32Array(2 * ready);
    for (let i = 0; i < ready; i++) {
      let sum = 0;
      for (let j = 0; j < TAPS; j++) sum += COEFFICIENTS[j] * input[i + j];
      output[2 * i] = input[i + HALF - 1];
      output[2 * i + 1] = sum;
    }
    this.history = input.slice(ready);
    return output;
  }

  /** The samples still inside, followed by silence; the next signal starts anew. */
  flush() {
    const rest = this.push(new Float32Array(HALF));
    this.history = new Float32Array(HALF - 1);
    return rest;
  }
}
