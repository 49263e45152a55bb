"use strict";
/* Keeps a wall screen current for weeks: fetches the page again, replaces its content, and keeps nothing of the old one.
   It is never loaded again, since a browser shows its own error page for ever where that fails. A page whose state is
   older than three refreshes is greyed out and says so, also where an answer hangs or a cache repeats an old one. */
(() => {
  const MISSED = 3;
  const PATIENCE_MS = 20_000;
  const wall = document.getElementById("wall");
  const warning = document.getElementById("wall-unreachable");
  const everyMs = 1000 * Number(wall.dataset.everyS);
  let lastSuccess = Date.now();
  let lastTick = Date.now();
  let reason = "the centre does not answer";

  async function refresh() {
    try {
      const answer = await fetch(location.href, {
        cache: "no-store", credentials: "same-origin", signal: AbortSignal.timeout(PATIENCE_MS),
      });
      if (!answer.ok) throw new Error(`the centre answered ${answer.status}`);
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      const next = fresh.getElementById("wall");
      if (next === null) throw new Error(answer.redirected ? "logged out; log in again" : "the centre sent another page");
      if (Date.parse(next.dataset.at) <= Date.parse(wall.dataset.at)) throw new Error("the centre's clock stands still");
      wall.dataset.at = next.dataset.at;
      wall.replaceChildren(...next.childNodes);
      document.title = fresh.title;
      lastSuccess = Date.now();
      show();
    } catch (error) {
      reason = error instanceof TypeError || error.name === "TimeoutError" ? "the centre does not answer" : error.message;
    }
  }

  function show() {
    const ageMs = Date.now() - lastSuccess;
    const isOld = ageMs > MISSED * everyMs;
    const seconds = Math.round(ageMs / 1000);
    const age = seconds < 120 ? `${seconds} s` : seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
    document.body.classList.toggle("not-current", isOld);
    const said = isOld ? `NOT CURRENT: ${reason}. The screen shows the state of ${age} ago.` : "";
    if (warning.textContent !== said) warning.textContent = said;
    const count = document.getElementById("wall-age");
    if (count !== null) count.textContent = `, ${age} ago`;
  }

  /* A screen that slept must not show its old state as the present one. */
  function tick() {
    const slept = Date.now() - lastTick > 2 * everyMs;
    lastTick = Date.now();
    show();
    if (slept) refresh();
  }

  function keepCurrent() {
    setTimeout(() => refresh().finally(keepCurrent), everyMs);
  }

  show();
  setInterval(tick, 1000);
  keepCurrent();
})();
