"use strict";
// Charts by uPlot. A canvas says nothing to a screen reader: beside each chart stands a table with the same numbers.

const COLOURS = 8;

function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function written(value, unit) {
  if (value === null || value === undefined) return "–";
  if (unit === "share") return (100 * value).toFixed(1) + " %";
  const text = Math.abs(value) >= 100 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));
  return unit === "seconds" ? text + " s" : text;
}

/** Return uPlot's columns and series: each curve is followed by the two ends of its interval, which are not drawn. */
function columns(chart) {
  const data = [chart.x];
  const series = [{}];
  const bands = [];
  chart.series.forEach((curve, index) => {
    const colour = css(`--c${(index % COLOURS) + 1}`);
    const dash = index < COLOURS ? [] : [6, 4];
    const dots = curve.values.filter((value) => value !== null).length < 60;
    data.push(curve.values);
    series.push({ stroke: colour, width: 1.75, dash, spanGaps: true, points: { show: dots, size: 4, fill: colour } });
    if (!curve.low.length) return;
    data.push(curve.high, curve.low);
    series.push(...[0, 1].map(() => ({ stroke: "transparent", width: 0, spanGaps: true, points: { show: false } })));
    bands.push({ series: [data.length - 2, data.length - 1], fill: colour + "26" });
  });
  return { data, series, bands };
}

function drawChart(figure, chart, onSteps) {
  const plot = figure.querySelector(".plot");
  const values = [...figure.querySelectorAll(".legend .value")];
  const { data, series, bands } = columns(chart);
  const whole = chart.x.every(Number.isInteger) || chart.steps.length ? { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 1e4, 1e5, 1e6, 1e7, 1e8] } : {};
  const axis = { stroke: css("--muted"), grid: { stroke: css("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui" };
  const place = (self) => {
    const at = self.cursor.idx;
    const known = at !== null && at !== undefined;
    let column = 1;
    chart.series.forEach((curve, index) => {
      if (values[index]) values[index].textContent = known ? written(curve.values[at], chart.unit) : "";
      column += curve.low.length ? 3 : 1;
    });
    const where = figure.querySelector(".where");
    if (where) where.textContent = known ? `${chart.x_name} ${span(chart, at)}` : "";
  };
  plot.replaceChildren();
  const height = 190;
  const drawn = new uPlot(
    {
      width: plot.clientWidth,
      height,
      legend: { show: false },
      cursor: { y: false, drag: { x: true, y: false }, points: { size: 7 } },
      scales: { x: { time: false }, y: { range: (self, low, high) => extent(low, high, chart.unit) } },
      axes: [
        { ...axis, ...whole, size: 26, values: (self, ticks) => ticks.map((tick) => written(tick, "number")) },
        { ...axis, size: 52, values: (self, ticks) => ticks.map((tick) => written(tick, chart.unit).replace(".0 %", " %")) },
      ],
      series,
      bands,
      hooks: { setCursor: [place] },
    },
    data,
    plot,
  );
  if (chart.steps.length && onSteps) {
    let pressed = 0;
    drawn.over.addEventListener("mousedown", (event) => (pressed = event.clientX));
    drawn.over.addEventListener("click", (event) => {
      const at = drawn.cursor.idx;
      if (Math.abs(event.clientX - pressed) < 4 && at !== null && at !== undefined) onSteps(...chart.steps[at]);
    });
  }
  return drawn;
}

function span(chart, at) {
  if (!chart.steps.length) return written(chart.x[at], "number");
  const [first, last] = chart.steps[at];
  return first === last ? String(first) : `${first}–${last}`;
}

function extent(low, high, unit) {
  if (low === null || high === null) return [0, 1];
  const margin = (high - low || Math.abs(high) || 1) * 0.06;
  return unit === "share" ? [Math.max(0, low - margin), Math.min(1, high + margin)] : [low - margin, high + margin];
}

/** Draw every chart of the page, again when its width or the colours change. */
function drawCharts(charts, onSteps) {
  const drawn = new Map();
  const draw = (figure) => {
    drawn.get(figure)?.destroy();
    drawn.set(figure, drawChart(figure, charts[figure.dataset.chart], onSteps));
  };
  const figures = [...document.querySelectorAll("figure[data-chart]")];
  const resized = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const plot = drawn.get(target.closest("figure"));
      if (plot && target.clientWidth && plot.width !== target.clientWidth) {
        plot.setSize({ width: target.clientWidth, height: plot.height });
      }
    }
  });
  for (const figure of figures) {
    draw(figure);
    resized.observe(figure.querySelector(".plot"));
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => figures.forEach(draw));
  return draw;
}
