"use strict";
/* Keeps a page current without a reload: fetches it again, and puts in those parts, marked data-live, that changed.
   The scroll position stays since the frames around them stay; the focus is given back to the element of the same id.
   A page says how often with data-live-every-s. After each exchange it dispatches "soundings:refreshed" on document. */
(() => {
  const page = document.querySelector("[data-live-every-s]");
  const status = document.getElementById("status");
  let lastSuccess = Date.now();
  let clockSkewMs = 0;
  let waiting = false;

  function swap(fresh) {
    for (const part of document.querySelectorAll("[data-live]")) {
      const next = fresh.getElementById(part.id);
      if (next === null) {
        if (part.id === "first-run") part.remove();
        continue;
      }
      if (next.innerHTML === part.innerHTML) continue;
      const focused = part.contains(document.activeElement) ? document.activeElement.id : "";
      part.replaceChildren(...next.childNodes);
      if (focused !== "") document.getElementById(focused)?.focus({ preventScroll: true });
    }
    document.title = fresh.title;
  }

  function needsWholePage(fresh) {
    return (fresh.getElementById("matrix") === null) !== (document.getElementById("matrix") === null)
      || fresh.querySelector("[data-live-every-s]") === null;
  }

  async function refresh() {
    if (waiting || document.hidden) return;
    waiting = true;
    try {
      const answer = await fetch(location.href, { cache: "no-store", credentials: "same-origin" });
      if (!answer.ok) throw new Error(`the centre answered ${answer.status}`);
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (needsWholePage(fresh)) {
        location.reload();
        return;
      }
      noteClock(answer.headers.get("Date"));
      swap(fresh);
      lastSuccess = Date.now();
      status.textContent = "";
      document.dispatchEvent(new CustomEvent("soundings:refreshed"));
    } catch (error) {
      const seconds = Math.round((Date.now() - lastSuccess) / 1000);
      const reason = error instanceof TypeError ? "the centre does not answer" : error.message;
      status.textContent = `Not current: ${reason}. Shown as of ${span(seconds)} ago; trying again.`;
    } finally {
      waiting = false;
      count();
    }
  }

  function noteClock(date) {
    const theirs = Date.parse(date ?? "");
    if (!Number.isNaN(theirs) && Math.abs(theirs - Date.now()) > 2000) clockSkewMs = theirs - Date.now();
  }

  function span(seconds) {
    if (seconds >= 2 * 86400) return `${Math.round(seconds / 86400)} d`;
    if (seconds >= 2 * 3600) return `${Math.round(seconds / 3600)} h`;
    if (seconds >= 120) return `${Math.round(seconds / 60)} min`;
    return `${Math.max(0, Math.round(seconds))} s`;
  }

  function count() {
    for (const time of document.querySelectorAll("time")) {
      const at = new Date(time.dateTime);
      if (time.title === "") time.title = `${at.toISOString().slice(0, 19).replace("T", " ")} UTC; here ${at.toLocaleString()}`;
      if ("age" in time.dataset) time.textContent = `${span((Date.now() + clockSkewMs - at) / 1000)} ago`;
    }
  }

  if (page === null) return;
  setInterval(refresh, 1000 * Number(page.dataset.liveEveryS));
  setInterval(count, 1000);
  document.addEventListener("visibilitychange", refresh);
  count();
})();
