"use strict";
/* Follows an on-demand test of a path: polls its progress while anything runs (data-running), and puts in the HTML that
   the centre made. Screen readers hear the announcement, which changes with the state and not with each reply. At the
   end the page is refreshed, which then has the result. */
(() => {
  const block = document.getElementById("test-now");
  const shown = document.getElementById("test-now-progress");
  const announcement = document.getElementById("test-now-announcement");
  if (block === null || shown === null) return;
  const EVERY_MS = 500;
  const AFTER_ERROR_MS = 3000;
  let polling = false;
  let last = "";

  function isRunning() {
    return shown.querySelector("[data-running]") !== null;
  }

  async function poll() {
    const answer = await fetch(block.dataset.progress, { cache: "no-store", credentials: "same-origin" });
    if (!answer.ok) throw new Error(`the centre answered ${answer.status}`);
    const news = await answer.json();
    if (news.html !== last) shown.innerHTML = last = news.html;
    if (announcement.textContent !== news.announcement) announcement.textContent = news.announcement;
  }

  async function follow() {
    if (polling) return;
    polling = true;
    while (isRunning()) {
      let waitMs = EVERY_MS;
      if (!document.hidden) {
        try {
          await poll();
        } catch {
          waitMs = AFTER_ERROR_MS;
        }
      }
      if (isRunning()) await new Promise((done) => setTimeout(done, waitMs));
      else document.dispatchEvent(new Event("visibilitychange")); /* live.js refreshes the page */
    }
    polling = false;
  }

  /* Another operator may have started a test. */
  document.addEventListener("soundings:refreshed", follow);
  follow();
})();
