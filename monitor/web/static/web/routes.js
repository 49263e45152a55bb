"use strict";
/* The slider of the page of routes: tells its time while it moves, and opens the page of that time when it rests. Without
   this script the form's button does the same. */
(() => {
  const REST_MS = 500;
  const form = document.getElementById("slider");
  if (form === null) return;
  const range = form.querySelector("input[type=range]");
  const output = form.querySelector("output");
  const zone = document.documentElement.dataset.zone || "UTC";
  const words = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "short", timeZone: zone });
  let timer = 0;

  form.classList.add("scripted");
  if (sessionStorage.getItem("soundings-slider") !== null) {
    sessionStorage.removeItem("soundings-slider");
    range.focus({ preventScroll: true });
  }
  range.addEventListener("input", () => {
    output.textContent = `${words.format(new Date(Number(range.value) * 1000))} ${zone}`;
    clearTimeout(timer);
  });
  range.addEventListener("change", () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      sessionStorage.setItem("soundings-slider", "moved");
      if (range.value === range.max) range.disabled = true; /* the present: no time in the address */
      form.requestSubmit();
    }, REST_MS);
  });
})();
