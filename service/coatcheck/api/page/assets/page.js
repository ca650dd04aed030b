// Live updates; every page works without them.
"use strict";
for (const form of document.querySelectorAll("form[data-card]")) {
  const place = document.getElementById("card-text");
  let waiting = 0, asked = 0;
  const show = async () => {
    const mine = ++asked;
    const answer = await fetch(form.dataset.card + "?" + new URLSearchParams(new FormData(form)));
    if (answer.ok && !answer.redirected && mine === asked) place.innerHTML = await answer.text();
  };
  form.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(show, 250); });
}
const live = document.querySelector("[data-live]");
if (live) setInterval(async () => {
  if (document.hidden || live.contains(document.activeElement) || live.querySelector("details[open]")) return;
  const answer = await fetch(location.href);
  if (!answer.ok || answer.redirected) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("[data-live]");
  if (fresh) live.replaceChildren(...fresh.childNodes);
}, 5000);
