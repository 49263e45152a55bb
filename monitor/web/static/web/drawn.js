"use strict";
/* A large grid, drawn on a canvas from the letters in #drawn-data: a box for each cell in the colour of its state, with a
   mark on each problem, since colour alone tells nothing to some. The pointer or the arrow keys select a cell; its
   sentence is fetched and stands in the tooltip and in #readout. grid.js fetches the cells that changed. */
(() => {
  const canvas = document.getElementById("drawn");
  if (canvas === null) return;
  const frame = document.getElementById("drawn-frame");
  const readout = document.getElementById("readout");
  const atRest = [...readout.childNodes];
  const data = JSON.parse(document.getElementById("drawn-data").textContent);
  const { rows, columns, styles, labels, unfold } = data;
  const INCIDENT = 1, OUTAGE = 2, MAINTENANCE = 8;
  const BAD = new Set(["loss-3", "loss-4", "loss-5", "worse"]);
  const TOKENS = { worse: "loss-3", steady: "none-lost", better: "step-1", ended: "no-data" };
  const LEAST_PX = 4, MOST_PX = 24, SHARE_OF_WINDOW = 0.72, FONT = "11px system-ui, sans-serif";
  const cells = Array.from(data.states);
  const marks = new Map(Object.entries(data.marks).map(([place, mark]) => [Number(place), parseInt(mark, 16)]));
  const picture = document.createElement("canvas"); /* all cells, without the selection */
  const tip = document.createElement("div");
  let wide = 0, high = 0, left = 0, top = 0, scale = 1; /* of a cell; its names; pixels of the screen */
  let selected = null, wanted = 0, colours = {};

  function readColours() {
    const tokens = getComputedStyle(document.documentElement);
    const token = (name) => tokens.getPropertyValue(`--${name}`).trim();
    colours = { ink: token("ink"), quiet: token("ink-quiet"), panel: token("panel"), sign: token("sign"), line: token("line"),
      focus: token("focus"), hatch: token("no-data-hatch") };
    for (const style of Object.values(styles)) {
      const name = TOKENS[style] ?? style;
      colours[style] = [token(name) || colours.panel, token(`${name}-ink`) || colours.ink];
    }
  }

  /* As wide as the frame, and no higher than the window where that leaves cells that can be seen. */
  function measure() {
    const pen = picture.getContext("2d");
    pen.font = `bold ${FONT}`;
    const widest = (lines) => Math.ceil(Math.max(...lines.map((line) => pen.measureText(line[0]).width)));
    left = widest(rows) + 8;
    top = widest(columns) + 8;
    wide = Math.min(MOST_PX, Math.max(LEAST_PX, Math.floor((frame.clientWidth - left - 4) / columns.length)));
    high = Math.min(wide, Math.max(LEAST_PX, Math.floor((SHARE_OF_WINDOW * innerHeight - top) / rows.length)));
    scale = window.devicePixelRatio || 1;
    for (const sheet of [canvas, picture]) {
      sheet.width = Math.round((left + wide * columns.length + 2) * scale);
      sheet.height = Math.round((top + high * rows.length + 2) * scale);
    }
    canvas.style.width = `${canvas.width / scale}px`;
    canvas.style.height = `${canvas.height / scale}px`;
  }

  function draw() {
    const pen = picture.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.fillStyle = colours.panel;
    pen.fillRect(0, 0, picture.width, picture.height);
    drawNames(pen);
    for (let place = 0; place < cells.length; place += 1) drawCell(pen, place);
    for (const [lines, isRow] of [[rows, true], [columns, false]]) {
      lines.forEach((line, number) => { if (line[2] && number > 0) drawBorder(pen, number, isRow); });
    }
    show();
  }

  /* As many names as fit; the selected row and column always have theirs. */
  function drawNames(pen) {
    pen.font = FONT;
    pen.textBaseline = "middle";
    pen.fillStyle = colours.quiet;
    const every = (size) => Math.max(1, Math.ceil(11 / size));
    pen.textAlign = "right";
    rows.forEach((line, row) => { if (row % every(high) === 0) pen.fillText(line[0], left - 4, top + (row + 0.5) * high); });
    columns.forEach((line, column) => { if (column % every(wide) === 0) drawColumnName(pen, column); });
  }

  function drawColumnName(pen, column) {
    pen.save();
    pen.translate(left + (column + 0.5) * wide, top - 4);
    pen.rotate(-Math.PI / 2);
    pen.textAlign = "left";
    pen.fillText(columns[column][0], 0, 0);
    pen.restore();
  }

  function drawBorder(pen, number, isRow) {
    pen.fillStyle = colours.quiet;
    if (isRow) pen.fillRect(left, top + number * high - 1, columns.length * wide, 1);
    else pen.fillRect(left + number * wide - 1, top, 1, rows.length * high);
  }

  function drawCell(pen, place) {
    const style = styles[cells[place]];
    if (style === "same") return;
    const x = left + (place % columns.length) * wide, y = top + Math.floor(place / columns.length) * high;
    const gap = high > 7 ? 1 : 0.5, width = wide - gap, height = high - gap;
    const [fill, ink] = colours[style];
    pen.fillStyle = style === "unplanned" ? colours.panel : fill;
    pen.fillRect(x, y, width, height);
    if (style === "none-lost" || style === "bound" || style === "unplanned") {
      pen.fillStyle = colours.line;
      pen.fillRect(x, y + height - 0.5, width, 0.5);
    }
    drawMark(pen, style, ink, marks.get(place) ?? 0, x, y, width, height);
  }

  function drawMark(pen, style, ink, mark, x, y, width, height) {
    const inset = Math.max(1, height / 4), begin = (width - height) / 2 + inset, end = width - begin;
    const line = (...points) => {
      pen.beginPath();
      for (let i = 0; i < points.length; i += 4) {
        pen.moveTo(x + points[i], y + points[i + 1]);
        pen.lineTo(x + points[i + 2], y + points[i + 3]);
      }
      pen.stroke();
    };
    pen.lineWidth = Math.max(1, height / 9);
    pen.strokeStyle = ink;
    pen.fillStyle = ink;
    if (style === "total-loss") line(begin, inset, end, height - inset, begin, height - inset, end, inset);
    else if (style === "no-data") {
      pen.strokeStyle = colours.quiet;
      line(0, height, width, 0);
    } else if (style === "stale") line(width / 2, inset, width / 2, height / 2, width / 2, height / 2, end, height / 2);
    else if (style === "not-measured") line(begin, height / 2, end, height / 2);
    else if (BAD.has(style)) {
      pen.beginPath();
      pen.arc(x + width / 2, y + height / 2, Math.max(1, height / 6), 0, 2 * Math.PI);
      pen.fill();
    }
    if (mark & OUTAGE) {
      pen.fillStyle = colours.ink;
      pen.fillRect(x, y + height - Math.max(1, height / 6), width, Math.max(1, height / 6));
    }
    if (mark & MAINTENANCE) {
      pen.fillStyle = colours.ink;
      pen.fillRect(x, y, inset, inset);
    }
    if (mark & INCIDENT) {
      pen.strokeStyle = colours.sign;
      pen.lineWidth = Math.max(1.5, height / 7);
      pen.strokeRect(x + pen.lineWidth / 2, y + pen.lineWidth / 2, width - pen.lineWidth, height - pen.lineWidth);
    }
  }

  function show() {
    const pen = canvas.getContext("2d");
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.drawImage(picture, 0, 0);
    if (selected === null) return;
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    const row = Math.floor(selected / columns.length), column = selected % columns.length;
    pen.fillStyle = colours.panel;
    pen.fillRect(0, top + row * high - 6, left, high + 12);
    pen.fillRect(left + column * wide - 6, 0, wide + 12, top);
    pen.fillStyle = colours.ink;
    pen.font = `bold ${FONT}`;
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    pen.fillText(rows[row][0], left - 4, top + (row + 0.5) * high);
    drawColumnName(pen, column);
    pen.strokeStyle = colours.focus;
    pen.lineWidth = 2;
    pen.strokeRect(left + column * wide - 1, top + row * high - 1, wide + 1, high + 1);
  }

  function placeAt(event) {
    const box = canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left - left) / wide);
    const row = Math.floor((event.clientY - box.top - top) / high);
    const isInside = column >= 0 && row >= 0 && column < columns.length && row < rows.length;
    return isInside ? row * columns.length + column : null;
  }

  const ends = (place) => [rows[Math.floor(place / columns.length)], columns[place % columns.length]];
  const hasPath = (place) => !["same", "unplanned"].includes(styles[cells[place]]);

  function select(place) {
    if (place === selected) return;
    selected = place;
    wanted += 1;
    show();
    if (place === null || !hasPath(place)) {
      tell(place === null ? null : `${ends(place)[0][0]} to ${ends(place)[1][0]}: not measured`, place === null);
      return;
    }
    const [source, to] = ends(place);
    const style = styles[cells[place]];
    const isIncident = ((marks.get(place) ?? 0) & INCIDENT) !== 0;
    tell(`${source[0]} to ${to[0]}: ${labels[style] ?? style}${isIncident ? ", incident open" : ""}`, false);
    if (source[1] === "" && to[1] === "") fetchSentence(wanted, source[0], to[0]);
  }

  /* After a moment, so that a pointer that passes over many cells asks for none of them. */
  async function fetchSentence(number, source, to) {
    await new Promise((done) => setTimeout(done, 120));
    if (number !== wanted) return;
    const cell = await fetchCell(source, to).catch(() => null);
    if (cell !== null && number === wanted) tell(cell.sentence, false);
  }

  async function fetchCell(source, to) {
    const chosen = new URLSearchParams({ source, destination: to });
    const answer = await fetch(`${frame.dataset.cell}&${chosen}`, { credentials: "same-origin" });
    if (!answer.ok) throw new Error(`the centre answered ${answer.status}`);
    return answer.json();
  }

  function tell(sentence, isRest) {
    readout.replaceChildren(...(isRest ? atRest : [sentence]));
    readout.classList.toggle("reading", !isRest);
    tip.hidden = isRest;
    if (isRest) return;
    tip.textContent = sentence;
    const box = canvas.getBoundingClientRect();
    const x = box.left + left + (selected % columns.length + 1) * wide + 6;
    const y = box.top + top + (Math.floor(selected / columns.length) + 1) * high + 6;
    tip.style.left = `${Math.max(4, Math.min(x, innerWidth - tip.offsetWidth - 12))}px`;
    tip.style.top = `${y + tip.offsetHeight > innerHeight ? y - tip.offsetHeight - high - 12 : y}px`;
  }

  async function open(place) {
    if (place === null || !hasPath(place)) return;
    const [source, to] = ends(place);
    const folded = source[1] || to[1];
    if (folded) location.search = unfold[folded] ?? "";
    else location.href = (await fetchCell(source[0], to[0])).address;
  }

  const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

  function press(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const step = STEPS[event.key];
    if (event.key === "Enter") open(selected);
    else if (event.key === "Escape") select(null);
    else if (step !== undefined) {
      let [row, column] = selected === null ? [-step[0], -step[1]]
        : [Math.floor(selected / columns.length), selected % columns.length];
      do {
        row += step[0];
        column += step[1];
      } while (rows[row] && columns[column] && !hasPath(row * columns.length + column));
      if (rows[row] && columns[column]) select(row * columns.length + column);
      keepInSight();
    } else return;
    event.preventDefault();
  }

  function keepInSight() {
    if (selected === null) return;
    const x = left + (selected % columns.length) * wide, y = top + Math.floor(selected / columns.length) * high;
    if (x - left < frame.scrollLeft) frame.scrollLeft = x - left;
    else if (x + wide > frame.scrollLeft + frame.clientWidth) frame.scrollLeft = x + wide - frame.clientWidth;
    const box = canvas.getBoundingClientRect();
    if (box.top + y < 0 || box.top + y + high > innerHeight) scrollBy(0, box.top + y - innerHeight / 2);
  }

  function put(place, code) {
    cells[place] = code[0];
    if (code.length > 1) marks.set(place, parseInt(code[1], 16));
    else marks.delete(place);
  }

  function apply(event) {
    const changes = event.detail;
    if (changes.all) {
      Array.from(changes.states).forEach((letter, place) => put(place, letter + (changes.marks[place] ?? "")));
    } else {
      for (const [place, code] of Object.entries(changes.cells)) put(Number(place), code);
    }
    draw();
  }

  function restart() {
    readColours();
    measure();
    draw();
    canvas.dataset.cells = cells.length;
  }

  tip.className = "drawn-tip";
  tip.hidden = true;
  tip.setAttribute("aria-hidden", "true");
  document.body.append(tip);
  restart();
  canvas.addEventListener("pointermove", (event) => select(placeAt(event)));
  canvas.addEventListener("pointerleave", () => select(null));
  canvas.addEventListener("click", (event) => open(placeAt(event)));
  canvas.addEventListener("blur", () => select(null));
  canvas.addEventListener("keydown", press);
  addEventListener("resize", restart);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", restart);
  frame.addEventListener("soundings:cells", apply);
})();
