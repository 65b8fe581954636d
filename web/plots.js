/** Three plots of the utterance on show: buffer, slack per chunk, arrivals. Loads uPlot when first used. */

const WINDOW = 10; // s shown while live
const SLACK_TOP = 1500; // ms; more is drawn at the top with a notch

const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const faint = (color) => (/^#[0-9a-f]{6}$/i.test(color) ? `${color}30` : color);
const ms = (value) => (value === null || value === undefined ? "–" : Math.round(value).toLocaleString("en").replaceAll(",", " "));

/** Options that all plots share. */
function common(element, { seconds }) {
  const axis = { stroke: () => token("muted"), grid: { stroke: () => token("line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
  const format = seconds ? (value) => `${+value.toFixed(1)} s` : (value) => (Number.isInteger(value) ? `${value}` : "");
  return {
    width: element.clientWidth,
    height: element.clientHeight,
    cursor: { sync: seconds ? { key: "time" } : undefined, points: { size: 6 }, drag: { setScale: false } },
    legend: { show: false },
    padding: [8, 14, 0, 0],
    scales: { x: { time: false, range: (_, least, most) => (least === null ? [0, WINDOW] : [least, Math.max(most, least + 1)]) } },
    axes: [
      { ...axis, size: 26, gap: 4, values: (_, splits) => splits.map(format) },
      { ...axis, size: 52, gap: 6, space: 26, values: (_, splits) => splits.map(ms) },
    ],
  };
}

/** Red bands where sound had run dry. */
function stallBands(shown) {
  return (plot) => {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.fillStyle = faint(token("bad"));
    for (const { from, to } of shown()?.stalls ?? []) {
      const left = plot.valToPos(from, "x", true);
      const right = plot.valToPos(to ?? shown().samples.at(-1).t, "x", true);
      ctx.fillRect(Math.max(left, bbox.left), bbox.top, Math.max(2, right - left), bbox.height);
    }
    ctx.restore();
  };
}

export class Plots {
  /** @param {() => object | null} shown the utterance on show */
  constructor(shown) {
    this.shown = shown;
    this.frozen = false;
    this.plots = null;
  }

  async open() {
    const { default: UPlot } = await import("./vendor/uplot.js");
    const at = (name) => document.getElementById(`plot-${name}`);
    this.plots = { buffer: this.#buffer(UPlot, at("buffer")), slack: this.#slack(UPlot, at("slack")), arrivals: this.#arrivals(UPlot, at("arrivals")) };
    new ResizeObserver(() => this.#resize()).observe(at("buffer"));
    this.clear();
    this.update();
  }

  /** Empty axes. */
  clear() {
    for (const plot of Object.values(this.plots)) plot.setData([[0, WINDOW], ...plot.series.slice(1).map(() => [null, null])]);
  }

  #resize() {
    for (const [name, plot] of Object.entries(this.plots)) {
      const { clientWidth: width, clientHeight: height } = document.getElementById(`plot-${name}`);
      if (width > 0) plot.setSize({ width, height });
    }
  }

  #buffer(UPlot, element) {
    const options = common(element, { seconds: true });
    options.series = [
      {},
      { stroke: () => token("accent"), fill: () => faint(token("accent")), width: 1.75, points: { show: false } },
      { stroke: () => token("muted"), dash: [5, 4], width: 1.5, points: { show: false }, spanGaps: true },
    ];
    options.scales.y = { range: (_, least, most) => [0, Math.max(400, (most ?? 0) * 1.12)] };
    options.hooks = { drawClear: [stallBands(this.shown)] };
    return new UPlot(options, [[], [], []], element);
  }

  #slack(UPlot, element) {
    const options = common(element, { seconds: false });
    options.scales.x.range = (_, least, most) => [(least ?? 0) - 0.7, Math.max(most ?? 0, 7) + 0.7];
    options.scales.y = { range: (_, least, most) => [Math.min(0, (least ?? 0) * 1.2), Math.max(100, Math.min(SLACK_TOP, most ?? 0) * 1.12)] };
    options.axes[0].incrs = [1, 2, 5, 10, 20, 50, 100];
    const bars = (color) => ({
      stroke: () => token(color), fill: () => `${token(color)}b0`, width: 1, points: { show: false },
      paths: UPlot.paths.bars({ size: [0.55, 28] }),
    });
    const dots = { stroke: () => token("text"), width: 0, paths: () => null, points: { show: true, size: 6, fill: () => token("text") } };
    options.series = [{}, bars("ok"), bars("warn"), bars("bad"), dots];
    options.hooks = { draw: [(plot) => zeroLine(plot)] };
    return new UPlot(options, [[], [], [], [], []], element);
  }

  #arrivals(UPlot, element) {
    const options = common(element, { seconds: true });
    options.series = [
      {},
      { stroke: () => token("accent"), width: 1.75, points: { show: false }, paths: UPlot.paths.stepped({ align: 1 }) },
      { stroke: () => token("ok"), width: 1.75, points: { show: false } },
    ];
    options.scales.y = { range: (_, least, most) => [0, Math.max(400, (most ?? 0) * 1.08)] };
    options.hooks = { drawClear: [stallBands(this.shown)] };
    return new UPlot(options, [[], [], []], element);
  }

  /** Show what is new; ten times a second is plenty. */
  update() {
    const shown = this.shown();
    if (!this.plots || this.frozen || !shown) return;
    const latest = shown.samples.at(-1)?.t ?? 0;
    const from = shown.finished ? 0 : Math.max(0, latest - WINDOW);
    const samples = shown.samples.filter(({ t }) => t >= from);
    const t = samples.map((sample) => sample.t);
    this.plots.buffer.setData([t, samples.map((s) => s.buffered), samples.map((s) => s.belief)]);
    this.plots.arrivals.setData([t, samples.map((s) => s.received), samples.map((s) => s.rendered)]);
    this.plots.slack.setData(slackColumns(shown.chunks.filter(({ slack }) => slack !== null)));
    this.#summarize(shown);
  }

  #summarize(shown) {
    const say = (name, text) => {
      document.getElementById(`plot-${name}-summary`).textContent = text;
      document.getElementById(`plot-${name}`).ariaLabel = text;
    };
    const last = shown.samples.at(-1);
    if (!last) return;
    const stalled = shown.stalls.reduce((sum, { from, to }) => sum + ((to ?? last.t) - from), 0);
    const stalls = shown.stalls.length;
    const dry = stalls === 0 ? "no stall" : `${stalls} ${stalls === 1 ? "stall" : "stalls"}, ${ms(1000 * stalled)} ms`;
    const highest = Math.max(...shown.samples.map(({ buffered }) => buffered));
    say("buffer", `Buffer ${ms(last.buffered)} ms, highest ${ms(highest)} ms, ${dry}`);
    const least = shown.minSlack;
    say("slack", `${shown.chunks.length} chunks, least slack ${Number.isFinite(least) ? `${ms(least)} ms` : "–"}`);
    say("arrivals", `Received ${ms(last.received)} ms, played ${ms(last.rendered)} ms`);
  }
}

/** One column per colour, so that a bar's colour says how close it was. */
function slackColumns(chunks) {
  const clipped = chunks.map(({ slack }) => Math.min(SLACK_TOP, slack));
  const keep = (test) => clipped.map((slack) => (test(slack) ? slack : null));
  return [
    chunks.map(({ seq }) => seq),
    keep((slack) => slack >= 50),
    keep((slack) => slack >= 0 && slack < 50),
    keep((slack) => slack < 0),
    chunks.map(({ promised }) => (promised === null ? null : Math.min(SLACK_TOP, promised))),
  ];
}

function zeroLine(plot) {
  const { ctx, bbox } = plot;
  const y = Math.round(plot.valToPos(0, "y", true));
  ctx.fillStyle = token("muted");
  ctx.fillRect(bbox.left, y - 1, bbox.width, 2);
}
