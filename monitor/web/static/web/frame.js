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

/* Keys: the first letter of a page in the header opens it, "?" lists them. "/" is the search's. */
(() => {
  const pages = [...document.querySelectorAll(".pages > a")].map((link) => [link.textContent[0].toLowerCase(), link]);
  if (pages.length === 0) return;

  function list() {
    const dialog = document.createElement("dialog");
    dialog.className = "keys";
    dialog.setAttribute("aria-label", "Keys");
    const texts = [...pages.map(([key, link]) => [key, link.textContent]), ["/", "Search"], ["?", "Keys"]];
    const lines = texts.map(([key, text]) => {
      const line = document.createElement("p");
      const name = document.createElement("kbd");
      name.textContent = key;
      line.append(name, ` ${text}`);
      return line;
    });
    dialog.append(...lines);
    dialog.addEventListener("click", () => { dialog.close(); });
    dialog.addEventListener("close", () => { dialog.remove(); });
    document.body.append(dialog);
    dialog.showModal();
  }

  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.isContentEditable || event.target.matches("input, textarea, select");
    if (isTyping || event.altKey || event.ctrlKey || event.metaKey || document.querySelector("dialog[open]") !== null) return;
    if (event.key === "?") list();
    else pages.find(([key]) => key === event.key)?.[1].click();
  });
})();
