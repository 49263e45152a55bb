"use strict";
/* Draws the charts of a page: each [data-chart] names the <script type="application/json"> that holds its Vega-Lite
   spec. Vega interprets its expressions (ast), so that the page needs no unsafe-eval. Colours come from style.css as
   --chart-NAME for each named style of the spec. New data goes into the drawn chart; the colour scheme redraws it. */
(() => {
  const ERRORS_ONLY = 1; /* that a chart has no rows of one kind is no reason to warn */
  const drawn = new Map();

  function specOf(element) {
    return JSON.parse(document.getElementById(element.dataset.chart).textContent);
  }

  function coloured(spec) {
    const css = getComputedStyle(document.documentElement);
    const colour = (name) => css.getPropertyValue(`--chart-${name}`).trim();
    const config = spec.config;
    config.background = "transparent";
    Object.assign(config.axis, {
      labelColor: colour("text"), titleColor: colour("text"), gridColor: colour("grid"),
      domainColor: colour("axis"), tickColor: colour("axis"),
    });
    for (const [name, style] of Object.entries(config.style)) style.color = colour(name) || style.color;
    return spec;
  }

  async function draw(element) {
    try {
      const result = await vegaEmbed(element, coloured(specOf(element)), {
        mode: "vega-lite", ast: true, actions: false, defaultStyle: false, renderer: "canvas", logLevel: ERRORS_ONLY,
        tooltip: { disableDefaultStyle: true },
      });
      drawn.set(element, result.view);
    } catch (error) {
      element.classList.add("failed");
      element.textContent = `This chart could not be drawn: ${error.message}`;
      throw error;
    }
  }

  async function update(element) {
    const view = drawn.get(element);
    if (view === undefined) return;
    const spec = specOf(element);
    for (const { name, value } of spec.params) view.signal(name, value);
    for (const [name, rows] of Object.entries(spec.datasets)) view.data(name, rows);
    await view.runAsync();
  }

  const elements = [...document.querySelectorAll("[data-chart]")];
  const drawAll = () => elements.forEach((element) => { drawn.get(element)?.finalize(); draw(element); });
  drawAll();
  document.addEventListener("soundings:refreshed", () => elements.forEach(update));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
})();
