"use strict";
/* The grid, as a table or drawn: its refresh, which fetches the cells that changed since the version that is here as JSON,
   and dispatches "soundings:cells" with them on the grid. */
(() => {
  const grid = document.querySelector("#matrix[data-changes], #drawn-frame[data-changes]");
  if (grid === null) return;

  async function refresh() {
    const { version } = grid.dataset;
    const answer = await fetch(`${grid.dataset.changes}&since=${version}`, {
      cache: "no-store", credentials: "same-origin", headers: { "If-None-Match": `"${version}"` },
    });
    if (answer.status === 304) return;
    if (!answer.ok) throw new Error(`the centre answered ${answer.status}`);
    const changes = await answer.json();
    if (changes.reload) {
      location.reload();
      return;
    }
    grid.dispatchEvent(new CustomEvent("soundings:cells", { detail: changes }));
    grid.dataset.version = changes.version;
  }

  document.addEventListener("soundings:refresh", (event) => event.detail.push(refresh()));
})();

/* The grid as a table: the whole sentence of the cell that is pointed at, the arrow keys, and the cells that changed. */
(() => {
  const matrix = document.getElementById("matrix");
  const readout = document.getElementById("readout");
  if (matrix === null || readout === null) return;
  const body = matrix.tBodies[0];
  const atRest = [...readout.childNodes];

  function read(event) {
    const link = event.target.closest("td a");
    readout.replaceChildren(...(link === null ? atRest : [link.getAttribute("aria-label")]));
    readout.classList.toggle("reading", link !== null);
  }

  const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

  function move(event) {
    const step = STEPS[event.key];
    const cell = event.target.closest("td");
    if (step === undefined || cell === null || event.altKey || event.ctrlKey || event.metaKey) return;
    const rows = body.rows;
    let row = cell.parentElement.sectionRowIndex + step[0];
    let column = cell.cellIndex + step[1];
    while (rows[row]?.cells[column] !== undefined && column > 0) {
      const link = rows[row].cells[column].querySelector("a");
      if (link !== null) {
        link.focus();
        event.preventDefault();
        return;
      }
      row += step[0];
      column += step[1];
    }
  }

  /* A cell keeps its element, so that focus and selection stay; its link is replaced only where its address differs. */
  function put(cell, html) {
    const row = document.createElement("template");
    row.innerHTML = `<table><tbody><tr>${html}</tr></tbody></table>`;
    const next = row.content.querySelector("td");
    const [link, nextLink] = [cell.querySelector("a"), next.querySelector("a")];
    cell.className = next.className;
    if (link === null || nextLink === null || link.id !== nextLink.id) {
      cell.replaceChildren(...next.childNodes);
      return;
    }
    link.href = nextLink.getAttribute("href");
    link.setAttribute("aria-label", nextLink.getAttribute("aria-label"));
    link.replaceChildren(...nextLink.childNodes);
  }

  function apply(event) {
    const cells = body.querySelectorAll("td");
    for (const [place, html] of Object.entries(event.detail.cells)) put(cells[Number(place)], html);
  }

  matrix.addEventListener("pointerover", read);
  matrix.addEventListener("pointerleave", read);
  matrix.addEventListener("focusin", read);
  matrix.addEventListener("keydown", move);
  matrix.addEventListener("soundings:cells", apply);
})();
