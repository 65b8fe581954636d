/** Keyboard shortcuts; none of them is a single letter, so they never fight with typing. */

/** @param {Record<string, () => void>} actions speak, stop, pause, mute, engineering, freeze, help, mode1 … */
export function bindKeys(actions) {
  document.addEventListener("keydown", (event) => {
    const name = actionOf(event);
    if (!name || (name === "stop" && document.querySelector("dialog[open]") && event.key === "Escape")) return;
    event.preventDefault();
    actions[name]();
  });
}

/** The action of a key press, by name. */
function actionOf({ key, code, ctrlKey, metaKey, altKey }) {
  if (key === "Escape") return "stop";
  if (key === "F1") return "help";
  if ((ctrlKey || metaKey) && key === "Enter") return "speak";
  if ((ctrlKey || metaKey) && key === ".") return "stop";
  if (!altKey || ctrlKey || metaKey) return null;
  const alternatives = { Space: "pause", Digit1: "mode1", Digit2: "mode2", Digit3: "mode3", KeyE: "engineering", KeyP: "freeze", KeyM: "mute" };
  return alternatives[code] ?? null;
}

/** Arrow keys move the choice of a radio group of buttons. */
export function bindRadios(group, choose) {
  const radios = [...group.querySelectorAll("[role=radio]")];
  group.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = radios[(radios.indexOf(document.activeElement) + step + radios.length) % radios.length];
    choose(next);
    next.focus();
  });
  for (const radio of radios) radio.addEventListener("click", () => choose(radio));
}
