"use strict";
/* The search field of the header as a combobox with suggestions: "/" goes to it, arrows choose, Enter opens the chosen or
   sends the form, Escape closes. Without this script the form opens the page of results. */
(() => {
  const DELAY_MS = 120;
  const form = document.getElementById("search");
  if (form === null) return;
  const input = form.querySelector("input");
  const list = form.querySelector("[role=listbox]");
  let chosen = -1;
  let timer = 0;
  let request = null;

  input.setAttribute("role", "combobox");
  input.setAttribute("aria-autocomplete", "list");
  input.setAttribute("aria-controls", list.id);
  input.setAttribute("aria-expanded", "false");

  const options = () => [...list.querySelectorAll("[role=option]")];

  function isTyping(element) {
    return element.isContentEditable || element.matches("input, textarea, select");
  }

  function close() {
    clearTimeout(timer);
    request?.abort();
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    choose(-1);
  }

  function choose(index) {
    chosen = index;
    options().forEach((option, place) => option.setAttribute("aria-selected", String(place === index)));
    const option = options()[index];
    if (option === undefined) input.removeAttribute("aria-activedescendant");
    else {
      input.setAttribute("aria-activedescendant", option.id);
      option.scrollIntoView({ block: "nearest" });
    }
  }

  function show(hits) {
    list.replaceChildren(...hits.map((hit, place) => {
      const option = document.createElement("li");
      option.id = `suggestion-${place}`;
      option.setAttribute("role", "option");
      option.dataset.address = hit.address;
      for (const [name, text] of [["kind", hit.kind], ["label", hit.label], ["detail", hit.detail]]) {
        const part = document.createElement("span");
        part.className = name;
        part.textContent = text;
        option.append(part, " ");
      }
      return option;
    }));
    list.hidden = hits.length === 0;
    input.setAttribute("aria-expanded", String(hits.length > 0));
    choose(-1);
  }

  async function suggest() {
    request?.abort();
    if (input.value.trim() === "") return close();
    request = new AbortController();
    try {
      const address = `${form.dataset.suggestions}?${new URLSearchParams({ q: input.value })}`;
      const answer = await fetch(address, { signal: request.signal, headers: { Accept: "application/json" } });
      if (!answer.ok || answer.redirected) return close();
      show((await answer.json()).hits);
    } catch (error) {
      if (error.name !== "AbortError") close(); /* without suggestions the form still works */
    }
  }

  function open(option) {
    location.assign(option.dataset.address);
  }

  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    event.preventDefault();
    input.focus();
    input.select();
  });
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(suggest, DELAY_MS);
  });
  input.addEventListener("keydown", (event) => {
    const all = options();
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") {
      if (list.hidden) input.value = "";
      else event.preventDefault(); /* the text stays while the list closes */
      close();
    } else if (list.hidden) {
      if (step === 1) suggest();
    } else if (step !== undefined) {
      event.preventDefault();
      choose((chosen + step + all.length + (chosen === -1 && step === -1 ? 1 : 0)) % all.length);
    } else if (event.key === "Enter" && chosen >= 0) {
      event.preventDefault();
      open(all[chosen]);
    }
  });
  list.addEventListener("pointerdown", (event) => event.preventDefault()); /* the focus stays in the field */
  list.addEventListener("click", (event) => {
    const option = event.target.closest("[role=option]");
    if (option !== null) open(option);
  });
  input.addEventListener("blur", close);
})();
