"use strict";
/* The grid under the hand: the whole sentence of the cell that is pointed at, and the arrow keys. */
(() => {
  const matrix = document.getElementById("matrix");
  const readout = document.getElementById("readout");
  if (matrix === null || readout === null) return;

  function read(event) {
    const link = event.target.closest("td a");
    readout.textContent = link === null ? readout.dataset.rest : link.getAttribute("aria-label");
    readout.classList.toggle("reading", link !== null);
  }

  const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

  function move(event) {
    const step = STEPS[event.key];
    const cell = event.target.closest("td");
    if (step === undefined || cell === null || event.altKey || event.ctrlKey || event.metaKey) return;
    const rows = matrix.tBodies[0].rows;
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

  matrix.addEventListener("pointerover", read);
  matrix.addEventListener("pointerleave", read);
  matrix.addEventListener("focusin", read);
  matrix.addEventListener("keydown", move);
})();
