// Light, dark, or as the system has it.

const NAME = "driftq-theme";
const ORDER = ["auto", "light", "dark"];

export function theme(button) {
  const root = document.documentElement;
  const label = () => {
    button.textContent = `Theme: ${root.dataset.theme ?? "auto"}`;
  };
  button.onclick = () => {
    const next = ORDER[(ORDER.indexOf(root.dataset.theme ?? "auto") + 1) % ORDER.length];
    if (next === "auto") delete root.dataset.theme;
    else root.dataset.theme = next;
    try {
      localStorage.setItem(NAME, next);
    } catch {
      // It holds until the page is closed.
    }
    label();
  };
  label();
}
