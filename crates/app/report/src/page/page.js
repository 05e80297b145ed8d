(function () {
  "use strict";
  // Explanations of marks: shown at once beside the pointer, instead of the browser's late ones.
  const explained = new WeakMap();
  for (const title of document.querySelectorAll(".chart .mark title, .chart .stripe title")) {
    explained.set(title.parentNode, title.textContent);
    title.remove();
  }
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  tip.setAttribute("aria-hidden", "true");
  document.body.append(tip);
  function place(x, y) {
    const right = Math.max(8, Math.min(x + 14, window.innerWidth - tip.offsetWidth - 8));
    const above = y - tip.offsetHeight - 12;
    tip.style.left = right + "px";
    tip.style.top = (Math.sign(above - 8) === 1 ? above : y + 18) + "px";
  }
  function show(event) {
    const text = explained.get(event.target);
    tip.hidden = text === undefined;
    if (tip.hidden) { return; }
    tip.textContent = text;
    place(event.clientX, event.clientY);
  }
  document.addEventListener("pointermove", show);
  document.addEventListener("pointerdown", show);
  document.addEventListener("scroll", function () { tip.hidden = true; }, { passive: true });
  // Print what is folded, too.
  window.addEventListener("beforeprint", function () {
    for (const folded of document.querySelectorAll("details")) { folded.open = true; }
  });
})();
