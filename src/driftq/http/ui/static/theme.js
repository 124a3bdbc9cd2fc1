// The colours that were chosen before, set before the first paint.
(() => {
  try {
    const kept = localStorage.getItem("driftq-theme");
    if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
  } catch {
    // Storage may be switched off; the system's colours stay.
  }
})();
