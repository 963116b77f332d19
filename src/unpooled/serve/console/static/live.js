// Replaces parts of a page by what the server sends, and opens the page again once it has changed altogether.
"use strict";
const live = document.querySelector("[data-events]");
if (live) {
  let touched = false;
  document.addEventListener("input", () => { touched = true; });
  const source = new EventSource(live.dataset.events);
  source.addEventListener("parts", (event) => {
    for (const [name, html] of Object.entries(JSON.parse(event.data))) {
      const part = document.getElementById(`live-${name}`);
      if (part) part.innerHTML = html;
    }
  });
  source.addEventListener("changed", () => {
    source.close();
    if (touched) document.getElementById("live-changed").hidden = false;
    else location.reload();
  });
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED && !touched) setTimeout(() => location.reload(), 15000);
  });
}
