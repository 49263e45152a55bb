"use strict";
/* Keeps a page current without a reload: fetches it again, and puts in those parts, marked data-live, of which the
   centre says something else than before. Nothing jumps: the frames stay, a part in which text is being selected waits,
   the focus goes back to the same link, opened details stay open. Only a page that has got new parts is loaded again, and
   not while somebody writes. Incidents (data-incident) that are new get the class "new" and, like those that ended, are
   said in #news, which is read out when the reader is free.
   A page says how often with data-live-every-s, and with data-live-from the address if the parts have their own. Before
   each exchange "soundings:refresh" is dispatched; its detail is a list to which scripts that refresh something by
   themselves add their promises. After each exchange it dispatches "soundings:refreshed" on document.
   On every page each <time>, and each moment in a sentence, tells its other time zones to the pointer, and ages count on. */
(() => {
  const page = document.querySelector("[data-live-every-s]");
  const status = document.getElementById("status");
  const news = document.getElementById("news");
  const MOMENT = /(\d{4}-\d\d-\d\d) (\d\d:\d\d(?::\d\d)?) UTC/;
  const served = new Map(); /* what the centre said of each part, before scripts touched it */
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
      const says = next.innerHTML;
      if (says === served.get(part.id) || isSelecting(part)) continue;
      served.set(part.id, says);
      replace(part, next);
    }
    document.title = fresh.title;
  }

  function replace(part, next) {
    const focused = part.contains(document.activeElement) ? document.activeElement : null;
    const opened = [...part.querySelectorAll("details[open][id]")].map((one) => one.id);
    part.replaceChildren(...next.childNodes);
    markTimes(part);
    for (const id of opened) document.getElementById(id)?.setAttribute("open", "");
    if (focused !== null) twin(part, focused)?.focus({ preventScroll: true });
  }

  /* The element that stands for one that was replaced: of the same id, else the link that leads to the same place. */
  function twin(part, gone) {
    if (gone.id !== "") return document.getElementById(gone.id);
    return [...part.querySelectorAll("a[href]")].find((one) => one.getAttribute("href") === gone.getAttribute("href"));
  }

  function isSelecting(part) {
    const selection = document.getSelection();
    return selection !== null && !selection.isCollapsed && part.contains(selection.anchorNode);
  }

  function incidents() {
    const marked = [...document.querySelectorAll("[data-incident]")];
    return new Map(marked.map((one) => [one.dataset.incident, one]));
  }

  function tellNews(before) {
    const now = incidents();
    const said = [];
    for (const [id, element] of now) {
      const was = before.get(id);
      if (was === undefined && element.dataset.state !== "resolved") {
        element.classList.add("new");
        said.push(`New incident: ${element.dataset.cause}.`);
      } else if (was !== undefined && was.dataset.state !== element.dataset.state) {
        said.push(`Incident ${element.dataset.state}: ${element.dataset.cause}.`);
      }
    }
    for (const [id, element] of before) {
      if (!now.has(id) && element.dataset.state !== "resolved") said.push(`No longer listed: ${element.dataset.cause}.`);
    }
    if (news !== null && said.length > 0) news.textContent = said.join(" ");
  }

  /* It has parts that are not here, as once there are results; or it is another page, as after a logout. */
  function needsWholePage(fresh) {
    if (fresh.querySelector("[data-live-every-s]") === null) return true;
    return !isWriting() && [...fresh.querySelectorAll("[data-live]")].some((one) => document.getElementById(one.id) === null);
  }

  function isWriting() {
    return [...document.querySelectorAll("textarea, input")].some((one) =>
      one.type === "checkbox" ? one.checked !== one.defaultChecked : one.value !== one.defaultValue);
  }

  async function refresh() {
    if (waiting || document.hidden) return;
    waiting = true;
    try {
      const own = [];
      document.dispatchEvent(new CustomEvent("soundings:refresh", { detail: own }));
      const answer = await fetch(page.dataset.liveFrom ?? location.href, { cache: "no-store", credentials: "same-origin" });
      if (!answer.ok) throw new Error(`the centre answered ${answer.status}`);
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (needsWholePage(fresh)) {
        location.reload();
        return;
      }
      noteClock(answer.headers.get("Date"));
      page.dataset.liveEveryS = fresh.querySelector("[data-live-every-s]").dataset.liveEveryS;
      const before = incidents();
      swap(fresh);
      tellNews(before);
      await Promise.all(own);
      lastSuccess = Date.now();
      status.textContent = "";
      document.dispatchEvent(new CustomEvent("soundings:refreshed"));
    } catch (error) {
      const seconds = Math.round((Date.now() - lastSuccess) / 1000);
      const reason = error instanceof TypeError ? "the centre does not answer" : error.message;
      status.textContent = `Not updated: ${reason}. Last update ${span(seconds)} ago; retrying.`;
    } finally {
      waiting = false;
      count();
    }
  }

  /* A page may want to look more often while something is on its way, and says so each time. */
  function keepCurrent() {
    setTimeout(() => refresh().finally(keepCurrent), 1000 * Number(page.dataset.liveEveryS));
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

  /* Sentences have their moments in plain text. */
  function markTimes(root) {
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT, (text) =>
      MOMENT.test(text.data) && text.parentElement.closest("time, pre, script, textarea, [data-plain]") === null
        ? NodeFilter.FILTER_ACCEPT : NodeFilter.FILTER_REJECT);
    const texts = [];
    while (walker.nextNode()) texts.push(walker.currentNode);
    for (let rest of texts) {
      for (let found = MOMENT.exec(rest.data); found !== null; found = MOMENT.exec(rest.data)) {
        const moment = rest.splitText(found.index);
        rest = moment.splitText(found[0].length);
        const at = `${found[1]}T${found[2]}Z`;
        if (Number.isNaN(Date.parse(at))) continue; /* people may write of 25:00, too */
        const time = document.createElement("time");
        time.dateTime = at;
        moment.replaceWith(time);
        time.append(moment);
      }
    }
  }

  /* The page's own zone first: the reader chose it, or it is UTC, to which this place is added. */
  function inZones(at) {
    const utc = `${at.toISOString().slice(0, 19).replace("T", " ")} UTC`;
    const zone = document.documentElement.dataset.zone;
    if (zone === "UTC") return `${utc}; here ${at.toLocaleString()}`;
    try {
      return `${new Intl.DateTimeFormat("sv-SE", { timeZone: zone, dateStyle: "short", timeStyle: "medium" }).format(at)} ${zone}; ${utc}`;
    } catch {
      return utc; /* a zone that this browser does not have */
    }
  }

  function count() {
    for (const time of document.querySelectorAll("time")) {
      const at = new Date(time.dateTime);
      if (time.title === "") time.title = inZones(at);
      if ("age" in time.dataset) time.textContent = `${span((Date.now() + clockSkewMs - at) / 1000)} ago`;
    }
  }

  for (const part of document.querySelectorAll("[data-live]")) served.set(part.id, part.innerHTML);
  markTimes(document.getElementById("main"));
  count();
  setInterval(count, 1000);
  if (page === null) return;
  keepCurrent();
  document.addEventListener("visibilitychange", refresh);
})();
