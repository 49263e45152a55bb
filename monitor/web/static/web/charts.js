"use strict";
/* Draws the charts of a page: each [data-chart] names the <script type="application/json"> that holds its spec, or its
   spec among those at the address [data-charts-from], which come after the page. The centre has compiled the specs to
   Vega. Vega interprets its expressions (ast), so that the page needs no unsafe-eval. Colours come from style.css as
   --chart-NAME for each named style of the spec. New data goes into the drawn chart; the colour scheme redraws it, and
   print makes it as wide as the paper; style.css turns what was drawn in dark light there.

   The page comes first: Vega (data-bundle of this script) is fetched when the browser is idle after the first paint, and
   the charts are drawn in tasks of their own, those in sight first, those of a closed tab when it opens. A chart with a
   drawing of the server keeps it until its interactive form is complete, in the same place. Each chart has its sentence
   for screen readers on its own element; Vega's name for it is inside, where they do not look. */
(() => {
  const bundle = document.currentScript.dataset.bundle;
  const ERRORS_ONLY = 1; /* that a chart has no rows of one kind is no reason to warn */
  const PAPER_PX = 660; /* what A4 and Letter both have between their margins */
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => getComputedStyle(document.documentElement).getPropertyValue("--scheme").trim() === "dark";
  const drawn = new Map();

  const from = document.querySelector("[data-charts-from]")?.dataset.chartsFrom;
  let specs = null;

  async function fetchSpecs() {
    const answer = await fetch(from, { cache: "no-store", credentials: "same-origin" });
    if (!answer.ok) throw new Error(`the centre answered ${answer.status}`);
    return answer.text();
  }

  function wantSpecs() {
    specs ??= fetchSpecs().catch((error) => {
      specs = null;
      throw error;
    });
    return specs;
  }

  /* Parsed anew each time, since Vega and the colours change it. */
  async function specOf(element) {
    const name = element.dataset.chart;
    const inPage = document.getElementById(name);
    const spec = inPage === null ? JSON.parse(await wantSpecs())[name] : JSON.parse(inPage.textContent);
    if (spec.failure !== undefined) throw new Error(spec.failure);
    return spec;
  }

  function coloured(spec) {
    const css = getComputedStyle(document.documentElement);
    const colour = (name) => css.getPropertyValue(`--chart-${name}`).trim();
    const palette = (spec.params ?? []).find((param) => param.name === "palette");
    if (palette !== undefined) {
      palette.value = palette.value.map((paper, step) => colour(`loss-step-${step}`) || paper);
    }
    const { config } = spec.vega;
    Object.assign(config.axis, {
      labelColor: colour("text"), titleColor: colour("text"), gridColor: colour("grid"),
      domainColor: colour("axis"), tickColor: colour("axis"),
    });
    for (const [name, style] of Object.entries(config.style)) style.color = colour(name) || style.color;
    return assembled(spec);
  }

  /* The layout with its rows and values, and with the colours of its styles, which the compiler resolves, in the marks. */
  function assembled({ vega, params, datasets }) {
    const values = new Map(params.map(({ name, value }) => [name, value]));
    for (const signal of vega.signals) if (values.has(signal.name)) signal.value = values.get(signal.name);
    for (const data of vega.data) if (data.name in datasets) data.values = datasets[data.name];
    recolour(vega.marks, vega.config.style);
    vega.background = "transparent";
    return vega;
  }

  function recolour(marks, styles) {
    for (const mark of marks) {
      const named = Array.isArray(mark.style) ? styles[mark.style.at(-1)] : undefined;
      const encoded = mark.encode?.update ?? {};
      for (const channel of ["fill", "stroke"]) {
        const isColour = encoded[channel]?.value !== undefined && encoded[channel].value !== "transparent";
        if (named !== undefined && isColour) encoded[channel].value = named.color;
      }
      recolour(mark.marks ?? [], styles);
    }
  }

  /* Dragging over a chart with [data-zoom] shows that stretch of time: it goes into the address. */
  const LEAST_DRAG_PX = 8;

  function zoomable(element, view, offset) {
    const canvas = element.querySelector("canvas");
    const mark = document.createElement("div");
    mark.className = "zoom";
    let from = null;
    const to = (event) => event.clientX - canvas.getBoundingClientRect().left;
    const at = (x) => new Date(view.scale("x").invert(x - view.origin()[0]) - offset).toISOString().slice(0, 16);
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || event.pointerType === "touch") return;
      from = to(event);
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (from === null) return;
      mark.style.left = `${canvas.offsetLeft + Math.min(from, to(event))}px`;
      mark.style.width = `${Math.abs(to(event) - from)}px`;
      element.append(mark);
    });
    canvas.addEventListener("pointerup", (event) => {
      const ends = [from, to(event)].sort((one, other) => one - other);
      from = null;
      mark.remove();
      if (ends[1] - ends[0] < LEAST_DRAG_PX) return;
      const query = new URLSearchParams(location.search);
      query.delete("period");
      query.delete("zone");
      query.set("since", at(ends[0]));
      query.set("until", at(ends[1]));
      location.search = query;
    });
  }

  /* The figures beside a chart, [data-steps-of], are of the step under the pointer, without one of the period. */
  function follow(element, view) {
    const locale = view.locale();
    const textOf = {
      t: (row) => locale.utcFormat("%Y-%m-%d %H:%M")(new Date(row.t)),
      loss: (row) => row.loss.split(": ").at(-1),
      median: (row) => `${locale.format(".4~g")(row.median)} ms`,
      p95: (row) => `${locale.format(".4~g")(row.p95)} ms`,
      test: (row) => view.data("tests").filter(({ t, ok }) => ok && t <= row.t2).at(-1)?.text.split(": ").at(-1) ?? "–",
    };
    let shown = null;
    const show = (row) => {
      if (row === shown) return;
      shown = row;
      const figures = document.querySelector(`[data-steps-of="${element.dataset.chart}"]`);
      figures?.classList.toggle("of-step", row !== null);
      for (const one of figures?.querySelectorAll("[data-step]") ?? []) {
        const text = one.querySelector("dd") ?? one;
        text.dataset.rest ??= text.textContent;
        text.textContent = row === null ? text.dataset.rest : textOf[one.dataset.step](row);
      }
    };
    view.addEventListener("mousemove", (_, item) => { show(item?.datum?.median === undefined ? null : item.datum); });
    view.addEventListener("mouseout", () => { show(null); });
  }

  let loading = null;

  function loadBundle() {
    if (window.vega !== undefined) return Promise.resolve();
    loading ??= new Promise((done) => {
      const script = document.createElement("script");
      script.src = bundle;
      script.onload = script.onerror = done; /* without it the first chart says so */
      document.head.append(script);
    });
    return loading;
  }

  const ROWS_AT_ONCE = 360;

  /* Parsed, made, filled and drawn in tasks of their own, so that a slow browser is not blocked for long. It is drawn
     once, at the end: before that it has no place. */
  async function viewOf(spec, tooltips, place) {
    const { View, parse, expressionInterpreter, TooltipHandler } = window.vega;
    const large = spec.data.filter(({ values }) => values?.length > ROWS_AT_ONCE);
    const rest = large.map(({ name, values }) => [name, values.splice(ROWS_AT_ONCE)]);
    const width = spec.signals.find(({ name }) => name === "width");
    const room = () => place.clientWidth - (spec.autosize === "none" ? spec.padding.left + spec.padding.right : 0);
    delete width.init; /* which asks the place; later widths do */
    width.value = room();
    const dataflow = parse(spec, undefined, { ast: true });
    await nextTask();
    const tooltip = new TooltipHandler({ disableDefaultStyle: true });
    const view = new View(dataflow, {
      expr: expressionInterpreter, renderer: "canvas", logLevel: ERRORS_ONLY,
      tooltip: (handler, event, item, value) => {
        const lines = tooltips[item?.mark.name];
        tooltip.call(handler, event, item, value && lines ? tipOf(item.datum, lines, view.locale()) : null);
      },
    });
    await view.runAsync();
    for (const [name, rows] of rest) {
      for (let first = 0; first < rows.length; first += ROWS_AT_ONCE) {
        await nextTask();
        await view.insert(name, rows.slice(first, first + ROWS_AT_ONCE)).runAsync();
      }
    }
    await nextTask();
    await view.initialize(place).runAsync();
    /* It follows the window only from here on. */
    return view.signal("width", room()).runAsync();
  }

  function nextTask() {
    return new Promise((done) => { setTimeout(done); });
  }

  /* The lines of a tooltip, without those that have no value. Times are shifted to their zone as if that were UTC. */
  function tipOf(row, lines, locale) {
    const present = lines.filter(({ field }) => row[field] !== undefined && row[field] !== null && row[field] !== "");
    return Object.fromEntries(present.map(({ field, title, format, type }) => {
      const value = row[field];
      if (type === "temporal") return [title ?? field, locale.utcFormat(format)(new Date(value))];
      return [title ?? field, format === undefined ? `${value}` : locale.format(format)(value)];
    }));
  }

  async function draw(element) {
    const place = document.createElement("div");
    place.className = "interactive";
    for (const old of element.querySelectorAll(".reason")) old.remove();
    element.append(place);
    try {
      const spec = await specOf(element);
      const offset = spec.usermeta?.offset_ms ?? 0; /* of the reader's zone; addresses are in UTC */
      const view = await viewOf(coloured(spec), spec.tooltips, place);
      place.setAttribute("aria-hidden", "true");
      for (const name of ["role", "aria-label", "aria-roledescription"]) place.removeAttribute(name);
      for (const old of element.querySelectorAll(".interactive")) if (old !== place) old.remove();
      drawn.set(element, view);
      element.classList.add("ready");
      element.classList.remove("failed");
      element.classList.toggle("drawn-dark", isDark());
      if ("zoom" in element.dataset) zoomable(element, view, offset);
      if (document.querySelector(`[data-steps-of="${element.dataset.chart}"]`) !== null) follow(element, view);
    } catch (error) {
      place.className = "reason";
      element.classList.add("failed");
      const reason = window.vega === undefined ? "its program did not load; reload the page" : error.message;
      const kind = element.querySelector(".first-drawing") === null ? "chart" : "interactive chart";
      place.textContent = `This ${kind} could not be drawn: ${reason}`;
      throw error;
    }
  }

  async function update(element) {
    const view = drawn.get(element);
    if (view === undefined) return;
    const spec = await specOf(element);
    for (const { name, value } of spec.params) if (name !== "palette") view.signal(name, value);
    for (const [name, rows] of Object.entries(spec.datasets)) view.data(name, rows);
    await view.runAsync();
  }

  const elements = [...document.querySelectorAll("[data-chart]")];
  const idle = window.requestIdleCallback ?? ((task) => setTimeout(task, 50));
  let drawing = Promise.resolve();

  function isInSight(element) {
    const box = element.getBoundingClientRect();
    return box.top < innerHeight && box.bottom > 0;
  }

  /* One chart after another, each when the browser has nothing else to do; `again` also those that are drawn. */
  function drawShown(again) {
    const shown = elements.filter((element) => element.checkVisibility() && (again || !drawn.has(element)));
    shown.sort((one, other) => isInSight(other) - isInSight(one));
    /* While the program is on its way; the chart that needs it tells a failure. */
    if (from !== undefined && shown.length > 0) wantSpecs().catch(() => {});
    for (const element of shown) {
      drawing = drawing
        .then(loadBundle)
        .then(() => new Promise((turn) => { idle(turn, { timeout: 1000 }); }))
        .then(() => {
          if (drawn.has(element) && !again) return undefined;
          drawn.get(element)?.finalize();
          drawn.delete(element);
          return draw(element);
        })
        .catch((error) => { setTimeout(() => { throw error; }); }); /* the next chart may well be drawn */
    }
  }

  /* The event `load` may come before the first frame. A page in the background is not painted. */
  const LONGEST_WITHOUT_PAINT_MS = 1000;

  function start() {
    let isBegun = false;
    const begin = () => {
      if (!isBegun) idle(() => { drawShown(false); }, { timeout: 3000 });
      isBegun = true;
    };
    new PerformanceObserver((entries) => {
      if (entries.getEntriesByName("first-contentful-paint").length > 0) begin();
    }).observe({ type: "paint", buffered: true });
    setTimeout(begin, LONGEST_WITHOUT_PAINT_MS);
  }

  if (document.readyState === "complete") start();
  else addEventListener("load", start);
  document.addEventListener("soundings:refresh", (event) => {
    if (specs !== null) event.detail.push(fetchSpecs().then((newest) => { specs = Promise.resolve(newest); }));
  });
  document.addEventListener("soundings:refreshed", () => {
    elements.forEach(update);
    if (document.querySelector("[data-chart].failed") !== null) drawShown(false);
  });
  document.addEventListener("soundings:shown", () => { drawShown(false); });
  document.addEventListener("toggle", () => { drawShown(false); }, true); /* a fold that opens */
  dark.addEventListener("change", () => { drawShown(true); });
  addEventListener("beforeprint", () => {
    for (const fold of document.querySelectorAll("details.part")) fold.open = true;
  });
  addEventListener("beforeprint", () => drawn.forEach((view) => {
    const { left, right } = view.padding(); /* the canvas has both around the plot */
    view.width(PAPER_PX - left - right).runAsync();
  }));
  addEventListener("afterprint", () => dispatchEvent(new Event("resize")));
})();
