"use strict";
/* The button [data-copy=ID] copies the text of the element with that id, and says so. Where the browser gives no
   clipboard (plain HTTP, or it was not allowed) the text is selected, to be copied by hand. */
(() => {
  function say(button, text) {
    const said = document.getElementById(button.getAttribute("aria-describedby"));
    if (said !== null) said.textContent = text;
  }

  function select(element) {
    const range = document.createRange();
    range.selectNodeContents(element);
    const selection = document.getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
  }

  async function copy(button) {
    const element = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(element.textContent);
      say(button, "Copied.");
    } catch {
      select(element);
      say(button, "Selected: copy it with Ctrl+C.");
    }
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (button !== null) copy(button);
  });
})();
