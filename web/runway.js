/**
 * The runway: chunks as blocks to the scale of time, sliding towards a line that is now.
 *
 * Colour tells how much sound was left when a chunk came: plenty, little, none.
 */

const PAST = 600; // ms shown left of the line
const FUTURE = 2700; // ms shown right of it
const TIGHT = 50; // ms of slack below which a chunk was lucky
const LABEL_GAP = 56; // px between axis labels

export class Runway {
  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
    this.drawnAt = 0;
    this.place = 0; // ms at the line, following the playhead smoothly
    this.id = null;
  }

  /** Draw, unless motion is unwelcome and the last picture is fresh. @param {number} now absolute ms */
  draw(shown, now) {
    if (this.still.matches && now - this.drawnAt < 66) return;
    this.drawnAt = now;
    const { context, canvas } = this;
    const scale = devicePixelRatio;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (canvas.width !== Math.round(width * scale)) canvas.width = Math.round(width * scale);
    if (canvas.height !== Math.round(height * scale)) canvas.height = Math.round(height * scale);
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    const style = getComputedStyle(canvas);
    this.colors = Object.fromEntries(
      ["text", "muted", "ok", "warn", "bad", "past", "line", "inset"].map((name) => [name, style.getPropertyValue(`--${name}`).trim()]),
    );
    this.#follow(shown, now);
    this.perMs = width / (PAST + FUTURE);
    this.#axis(width, height);
    for (const chunk of shown?.chunks ?? []) this.#block(chunk, shown, width);
    if (shown && shown.stalls.at(-1)?.to === null) this.#dry(width);
    this.#line(height);
  }

  #follow(shown, now) {
    const target = shown ? shown.heardBy(now) : 0;
    const jump = this.id !== shown?.id || Math.abs(target - this.place) > 300 || this.still.matches;
    this.id = shown?.id ?? null;
    this.place = jump ? target : this.place + 0.25 * (target - this.place);
  }

  #x(ms) {
    return (ms - this.place + PAST) * this.perMs;
  }

  #axis(width, height) {
    const { context, colors } = this;
    context.fillStyle = colors.muted;
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "center";
    const step = [500, 1000, 1500].find((ms) => ms * this.perMs >= LABEL_GAP + 14) ?? 2500;
    const line = PAST * this.perMs;
    context.fillText("now", line, height - 7);
    for (let ms = step; ms < FUTURE; ms += step) {
      const x = line + ms * this.perMs;
      if (x < width - 32) context.fillText(`+${ms} ms`, x, height - 7);
    }
  }

  #block({ seq, start, dur, slack }, shown, width) {
    const left = Math.max(-12, this.#x(start));
    const right = Math.min(width + 12, this.#x(start + dur));
    if (right < 0 || left > width || right - left < 1) return;
    const line = PAST * this.perMs;
    const late = slack !== null && slack < 0;
    const tight = slack !== null && slack >= 0 && slack < TIGHT;
    const color = late ? this.colors.bad : tight ? this.colors.warn : this.colors.ok;
    const played = Math.min(right, Math.max(left, line));
    this.#rect(left, right, { color: this.colors.past, radius: 5 });
    if (played < right) {
      const dropped = shown.stopped;
      this.#rect(played, right, { color: dropped ? this.colors.past : color, radius: 5, hatch: dropped ? "\\" : late ? "\\" : tight ? "/" : "" });
    }
    if (late) this.#gap(left);
    this.#label(seq, left, right, { future: played < right && !shown.stopped, line });
  }

  #rect(left, right, { color, radius, hatch = "" }) {
    const { context } = this;
    context.save();
    context.beginPath();
    context.roundRect(left + 1, 14, Math.max(1, right - left - 2), 32, radius);
    context.clip();
    context.fillStyle = color;
    context.fillRect(left, 14, right - left, 32);
    if (hatch) this.#hatch(left, right, hatch);
    context.restore();
  }

  #hatch(left, right, direction) {
    const { context } = this;
    context.strokeStyle = this.colors.inset;
    context.globalAlpha = 0.45;
    context.lineWidth = 2;
    context.beginPath();
    for (let x = left - 32; x < right + 32; x += 8) {
      context.moveTo(x, direction === "/" ? 46 : 14);
      context.lineTo(x + 32, direction === "/" ? 14 : 46);
    }
    context.stroke();
    context.globalAlpha = 1;
  }

  /** Nothing to play: what should lie ahead is red and hatched. */
  #dry(width) {
    this.context.globalAlpha = 0.35;
    this.#rect(PAST * this.perMs, width + 12, { color: this.colors.bad, radius: 5, hatch: "\\" });
    this.context.globalAlpha = 1;
  }

  /** A notch where the sound ran dry. */
  #gap(x) {
    this.context.fillStyle = this.colors.bad;
    this.context.fillRect(x - 2, 9, 4, 42);
  }

  #label(seq, left, right, { future, line }) {
    const { context } = this;
    const text = `#${seq}`;
    const at = Math.max(left, future ? line : 0) + 9;
    if (right - at < context.measureText(text).width + 8) return;
    context.textAlign = "left";
    context.fillStyle = future ? this.colors.inset : this.colors.text;
    context.fillText(text, at, 34);
  }

  #line(height) {
    const { context } = this;
    const x = PAST * this.perMs;
    context.fillStyle = this.colors.text;
    context.fillRect(x - 1, 8, 2, height - 30);
  }

  /** What the strip shows, in words. */
  static words(shown, now) {
    if (!shown || shown.chunks.length === 0) return "Runway: no sound yet";
    const left = Math.max(0, shown.received - shown.heardBy(now));
    return `Runway: ${shown.chunks.length} chunks, ${(left / 1000).toFixed(1)} s of sound ahead`;
  }
}
