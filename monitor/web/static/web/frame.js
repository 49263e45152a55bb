"use strict";
/* The header of every page. The menu "More" is a <details>, which opens and closes without a script; here Escape closes
   it and gives the focus back, and so does a click or the focus elsewhere. */
(() => {
  const more = document.getElementById("more");
  if (more === null) return;

  more.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !more.open) return;
    more.open = false;
    more.querySelector("summary").focus();
  });
  for (const kind of ["pointerdown", "focusin"]) {
    document.addEventListener(kind, (event) => {
      if (more.open && !more.contains(event.target)) more.open = false;
    });
  }
})();
