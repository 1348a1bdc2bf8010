// What htmx does not do: events that bring parts up to date, times by the clock of who looks, dialogs, the theme.
"use strict";

const at = (id) => document.getElementById(id);

// ---- Times

const today = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const minute = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });
const other = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });
const apart = new Intl.RelativeTimeFormat(undefined, { style: "narrow", numeric: "always" });
const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];

function relative(moment) {
  const seconds = (moment - Date.now()) / 1000;
  if (Math.abs(seconds) < 1) return "now";
  const [unit, size] = UNITS.find(([, size]) => Math.abs(seconds) >= size) || UNITS.at(-1);
  return apart.format(Math.trunc(seconds / size), unit);
}

function clock(moment, exact) {
  return (moment.toDateString() === new Date().toDateString() ? exact : other).format(moment);
}

function times(within) {
  for (const time of within.querySelectorAll("time")) {
    const moment = new Date(time.dateTime);
    if (isNaN(moment)) continue;
    time.title = whole.format(moment);
    const said = "ago" in time.dataset ? relative(moment)
      : "until" in time.dataset ? `${clock(moment, minute)} (${relative(moment)})` : clock(moment, today);
    if (time.textContent !== said) time.textContent = said;
  }
}

times(document);
document.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
setInterval(() => times(document), 1000);

// ---- The theme: dark, light, as the system says

const THEMES = { "": "System", light: "Light", dark: "Dark" };

function theme(next) {
  const root = document.documentElement;
  if (next !== undefined) {
    if (next) root.dataset.theme = next; else delete root.dataset.theme;
    if (next) localStorage.setItem("theme", next); else localStorage.removeItem("theme");
  }
  const button = at("theme");
  button.hidden = false;
  const name = THEMES[root.dataset.theme || ""];
  button.textContent = `◐ ${name}`;
  button.setAttribute("aria-label", `Theme: ${name}`);
}

if (at("theme")) {
  theme();
  at("theme").addEventListener("click", () => {
    const names = Object.keys(THEMES);
    theme(names[(names.indexOf(document.documentElement.dataset.theme || "") + 1) % names.length]);
  });
}

// ---- After a login: on to where one wanted to go

if ("login" in document.body.dataset) {
  if (!location.search.includes("login=")) sessionStorage.setItem("next", location.pathname + location.search);
} else if (sessionStorage.getItem("next")) {
  const next = sessionStorage.getItem("next");
  sessionStorage.removeItem("next");
  if (next !== location.pathname + location.search && next.startsWith("/") && !next.startsWith("//")) location.replace(next);
}

// ---- What is shown follows what happens

const URGENT = ["decision", "policy", "audit", "anew"];
const URGENT_MS = 200;
let due = null, refreshed = 0, missed = false;

function refresh() {
  due = null;
  const live = at("live");
  if (!live || !live.hasAttribute("hx-get")) return;
  const selected = getSelection();
  if (document.hidden || (!selected.isCollapsed && live.contains(selected.anchorNode))) { missed = true; return; }
  missed = false;
  refreshed = Date.now();
  htmx.trigger(live, "live");
}

function soon(urgent) {
  const live = at("live");
  if (!live) return;
  const gap = urgent ? URGENT_MS : Number(live.dataset.every || 2000);
  const when = Math.max(0, refreshed + gap - Date.now());
  if (due && due.when <= Date.now() + when) return;
  if (due) clearTimeout(due.timer);
  due = { when: Date.now() + when, timer: setTimeout(refresh, when) };
}

document.addEventListener("visibilitychange", () => { if (!document.hidden && missed) soon(true); });
document.addEventListener("selectionchange", () => { if (missed && getSelection().isCollapsed) soon(false); });

function linked(state, said) {
  const link = at("link");
  if (link.className === `link ${state}`) return;
  link.className = `link ${state}`;
  link.lastElementChild.textContent = said;
}

function heard(event) {
  const told = JSON.parse(event.data);
  const said = told.state === "closed" ? `${told.key} is closed` : `${told.key}: ${told.action || "allow"} by ${told.rule}`;
  at("heard").textContent = said;
}

function listen() {
  let away = false;
  const source = new EventSource("/v1/events");
  source.onopen = () => { linked("on", "live"); if (away) soon(true); away = false; };
  source.onerror = () => {
    away = true;
    const refused = source.readyState === EventSource.CLOSED;
    linked("off", refused ? "away" : "connecting");
    if (!refused) return;
    soon(true); // which asks to log in where that is why
    setTimeout(listen, 5000);
  };
  source.addEventListener("decision", heard);
  for (const name of URGENT) source.addEventListener(name, () => soon(true));
  for (const name of ["detection", "sessions", "alert"]) source.addEventListener(name, () => soon(false));
  addEventListener("pagehide", () => source.close(), { once: true });
}

if ("live" in document.body.dataset) listen();
addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });

// ---- Dialogs and orders

let saying;
let open = []; // details that stay open while the part around them is drawn anew

function say(text, wrong) {
  const said = at("said");
  said.textContent = text;
  said.classList.toggle("bad", Boolean(wrong));
  clearTimeout(saying);
  saying = setTimeout(() => { said.textContent = ""; }, 8000);
}

document.body.addEventListener("htmx:beforeSwap", (event) => {
  if ("order" in event.detail.elt.dataset) event.detail.shouldSwap = false; // what is answered is text, not HTML
  if (event.detail.target.id === "live") {
    open = [...document.querySelectorAll("#live details[open]")].map((one) => one.id);
  }
});
document.body.addEventListener("htmx:afterSwap", (event) => {
  if (event.detail.target.id === "dialog-body") {
    times(at("dialog"));
    at("dialog").showModal();
    at("dialog").querySelector("input:not([type=hidden])").focus();
  }
});
document.body.addEventListener("htmx:load", (event) => {
  for (const id of open) if (at(id)) at(id).open = true;
  times(event.detail.elt.parentElement || document);
});
document.body.addEventListener("click", (event) => {
  const close = event.target.closest("[data-close]");
  if (close && at("dialog").open) { event.preventDefault(); at("dialog").close(); }
  else if (event.target === at("dialog")) at("dialog").close();
});
document.body.addEventListener("keydown", (event) => {
  if (event.key === " " && event.target.matches("a[role=button]")) { event.preventDefault(); event.target.click(); }
});
document.body.addEventListener("htmx:afterRequest", (event) => {
  const { elt, xhr, successful } = event.detail;
  if ("then" in elt.dataset && successful) location.assign(elt.dataset.then);
  if ("order" in elt.dataset && successful) {
    if (at("dialog").open) at("dialog").close();
    say(xhr.responseText);
    soon(true);
    if (!at("live")) location.assign(xhr.responseURL.includes("extend") ? "/ui/budgets" : "/ui/breakers");
  }
  if (successful && elt.id === "live" && due === null) at("said").classList.remove("bad");
});
document.body.addEventListener("htmx:responseError", (event) => {
  const { elt, xhr } = event.detail;
  const wrong = elt.querySelector?.(".wrong");
  if (wrong) wrong.textContent = xhr.responseText; else say(xhr.responseText, true);
});
document.body.addEventListener("htmx:sendError", () => say("The server cannot be reached.", true));
