"use strict";
/* Menus are <details>, which open and close without a script; here Escape closes one and gives the focus back, and so does
   a click or the focus elsewhere. */
(() => {
  const open = () => document.querySelectorAll("details:is(.more, .menu)[open]");

  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const menu of open()) {
      menu.open = false;
      menu.querySelector("summary").focus();
    }
  });
  for (const kind of ["pointerdown", "focusin"]) {
    document.addEventListener(kind, (event) => {
      for (const menu of open()) if (!menu.contains(event.target)) menu.open = false;
    });
  }
})();
