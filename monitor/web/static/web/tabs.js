"use strict";
/* Tabs: the links of [data-tabs], each of which shows the panel that its address names after #. Without this they load
   the page with their panel. The chosen tab goes into the address, and into the links of [data-keeps-tab], so that it
   stays over a change of the period. Arrow keys, Home and End move between tabs. An address of something within a closed
   panel opens it. Dispatches "soundings:shown" on document when a panel opens. */
(() => {
  const list = document.querySelector("[data-tabs]");
  if (list === null) return;
  const tabs = [...list.querySelectorAll("a")];
  const panelOf = (tab) => document.getElementById(tab.hash.slice(1));

  function mark(chosen) {
    for (const tab of tabs) {
      tab.setAttribute("aria-selected", String(tab === chosen));
      tab.tabIndex = tab === chosen ? 0 : -1;
      panelOf(tab).hidden = tab !== chosen;
    }
  }

  function choose(chosen) {
    mark(chosen);
    const name = chosen.dataset.tab;
    const address = new URL(location.href);
    address.searchParams.set("tab", name);
    history.replaceState(history.state, "", address);
    for (const link of document.querySelectorAll("[data-keeps-tab] a[href]")) {
      if (tabs.includes(link)) continue;
      const query = new URL(link.href);
      query.searchParams.set("tab", name);
      link.href = query.search + query.hash;
    }
    for (const field of document.querySelectorAll("[data-keeps-tab] input[name=tab]")) field.value = name;
    document.dispatchEvent(new CustomEvent("soundings:shown"));
  }

  function openTarget() {
    const target = location.hash.length > 1 ? document.getElementById(location.hash.slice(1)) : null;
    const panel = target?.closest(".tab-panel");
    const tab = tabs.find((one) => panel && panelOf(one) === panel);
    if (tab === undefined || !panel.hidden) return;
    choose(tab);
    target.scrollIntoView();
  }

  list.setAttribute("role", "tablist");
  list.setAttribute("aria-label", "Details");
  for (const tab of tabs) {
    const panel = panelOf(tab);
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-controls", panel.id);
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-labelledby", tab.id);
    tab.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      choose(tab);
    });
  }
  mark(tabs.find((tab) => tab.hasAttribute("aria-current")) ?? tabs[0]);
  for (const tab of tabs) tab.removeAttribute("aria-current");
  list.addEventListener("keydown", (event) => {
    const place = tabs.indexOf(document.activeElement);
    const last = tabs.length - 1;
    const places = { ArrowRight: place === last ? 0 : place + 1, ArrowLeft: place === 0 ? last : place - 1, Home: 0, End: last };
    if (event.key === " ") places[" "] = place;
    const next = tabs[places[event.key] ?? -1];
    if (place < 0 || next === undefined) return;
    event.preventDefault();
    next.focus();
    choose(next);
  });
  openTarget();
  addEventListener("hashchange", openTarget);
})();
