// Live updates; every page works without them.
"use strict";
const read = async (answer) => new DOMParser().parseFromString(await answer.text(), "text/html");
for (const form of document.querySelectorAll("form[data-live-card]")) {
  const places = ["card-size", "card-text", "payload-part", "card-origin"].map((id) => document.getElementById(id));
  let waiting = 0, asked = 0;
  const show = async () => {
    const mine = ++asked;
    const answer = await fetch(form.action + "?" + new URLSearchParams(new FormData(form)));
    const fresh = await read(answer);
    if (mine !== asked) return;
    if (answer.redirected) location.assign(answer.url);  // the key is not valid any more
    for (const place of places) place.replaceChildren(...(fresh.getElementById(place.id)?.childNodes ?? []));
    const problem = fresh.querySelector("main > .problem");
    if (!answer.ok && problem) places[0].replaceChildren(...problem.childNodes);
    places[0].classList.toggle("problem", !answer.ok);
  };
  form.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(show, 250); });
}
const live = document.querySelector("[data-live]");
if (live) setInterval(async () => {
  if (document.hidden || live.contains(document.activeElement) || live.querySelector("details[open]")) return;
  const answer = await fetch(location.href);
  if (!answer.ok || answer.redirected) return;
  const fresh = (await read(answer)).querySelector("[data-live]");
  if (fresh) live.replaceChildren(...fresh.childNodes);
}, 5000);
