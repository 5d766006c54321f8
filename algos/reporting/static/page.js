"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const showSteps = data.browser ? startBrowser(data.browser) : null;
  const draw = drawCharts(data.charts, showSteps);
  const select = document.getElementById("metric");
  if (!select) return;
  const figure = select.closest("figure");
  select.addEventListener("change", () => {
    const name = select.value;
    data.charts[figure.dataset.chart].series = [{ name, values: data.metrics[name], low: [], high: [] }];
    draw(figure);
  });
})();
