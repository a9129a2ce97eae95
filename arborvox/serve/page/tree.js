// How a unit was chosen: the gates on its way through the tree, and what came close.

import { getTree } from "./api.js";
import { percent, t } from "./words.js";

const SHOWN = 5; // units named on each side of a gate

export function unitName(unit) {
  const names = { " ": "space", "<blank>": "blank", "<eos>": "end", "<unk>": "unknown" };
  return unit in names ? t(names[unit]) : unit;
}

function make(tag, className, text = "") {
  const element = document.createElement(tag);
  element.className = className;
  element.textContent = text;
  return element;
}

// The likeliest units below a child of a gate, and how many there are.
function unitsBelow(tree, child) {
  const found = [];
  const waiting = [child];
  while (waiting.length) {
    const node = waiting.pop();
    if (node < 0) found.push(~node);
    else waiting.push(tree.left[node], tree.right[node]);
  }
  found.sort((a, b) => tree.masses[b] - tree.masses[a]);
  return { shown: found.slice(0, SHOWN).map((id) => unitName(tree.units[id])), all: found.length };
}

function side(tree, child, className) {
  const { shown, all } = unitsBelow(tree, child);
  const element = make("div", `side ${className}`);
  for (const unit of shown) element.append(make("span", "leaf", unit), " ");
  if (all > shown.length) {
    element.append(make("span", "more", t("others", { count: all - shown.length })));
  }
  return element;
}

function gate(tree, [node, goesLeft, probability], number) {
  const row = make("li", `gate ${goesLeft ? "goes-left" : "goes-right"}`);
  const left = goesLeft ? probability : 1 - probability;
  const turn = t(goesLeft ? "turn_left" : "turn_right", { probability: percent(probability) });
  const middle = make("div", "middle");
  middle.append(make("span", "gate-name", t("gate", { number })));
  const bar = make("div", "bar");
  bar.setAttribute("aria-hidden", "true");
  const part = make("span", goesLeft ? "taken" : "left-behind");
  part.style.inlineSize = `${100 * left}%`;
  const rest = make("span", goesLeft ? "left-behind" : "taken");
  rest.style.inlineSize = `${100 - 100 * left}%`;
  bar.append(part, rest);
  middle.append(bar, make("span", "turn", turn));
  const isTaken = (yes) => (yes ? "is-taken" : "");
  row.append(
    side(tree, tree.left[node], isTaken(goesLeft)),
    middle,
    side(tree, tree.right[node], isTaken(!goesLeft)),
  );
  return row;
}

function rivalList(unit) {
  const list = make("ul", "rivals");
  for (const [name, probability] of [[unit.unit, unit.probability], ...unit.rivals]) {
    const row = make("li", name === unit.unit ? "rival is-chosen" : "rival");
    const bar = make("span", "bar");
    bar.setAttribute("aria-hidden", "true");
    const part = make("span", name === unit.unit ? "taken" : "other");
    part.style.inlineSize = `${Math.max(1, 100 * probability)}%`;
    bar.append(part);
    row.append(make("span", "rival-name", unitName(name)), bar);
    row.append(make("span", "rival-share", percent(probability)));
    list.append(row);
  }
  return list;
}

async function showUnit(target, model, unit) {
  const name = unitName(unit.unit);
  const tree = unit.turns.length ? await getTree(model) : null;
  const parts = [
    make("p", "chosen", t("chosen", { unit: name, probability: percent(unit.probability) })),
  ];
  if (tree) {
    parts.push(make("h5", "", t("path", { unit: name })));
    const list = make("ol", "gates");
    unit.turns.forEach((turn, place) => list.append(gate(tree, turn, place + 1)));
    parts.push(list);
  }
  parts.push(make("h5", "", t("rivals")), rivalList(unit));
  target.replaceChildren(...parts);
}

// A panel for the units of a word; the first of them is shown at once.
export function explainWord(word, units, model, onClose) {
  const panel = make("section", "why");
  panel.setAttribute("aria-label", t("why", { word }));
  const head = make("div", "why-head");
  const close = make("button", "second-button small", t("close"));
  close.type = "button";
  close.onclick = onClose;
  head.append(make("h4", "", t("why", { word })), close);
  const hasTree = units.some((unit) => unit.turns.length);
  const chips = make("div", "units");
  chips.setAttribute("role", "group");
  chips.setAttribute("aria-label", t("units", { word }));
  const details = make("div", "details");
  const pick = (unit, chip) => {
    for (const other of chips.children) other.setAttribute("aria-pressed", String(other === chip));
    showUnit(details, model, unit);
  };
  for (const unit of units) {
    const values = { unit: unitName(unit.unit), probability: percent(unit.probability) };
    const chip = make("button", "chip", values.unit);
    chip.type = "button";
    chip.setAttribute("aria-pressed", "false");
    chip.setAttribute("aria-label", t("unit_button", values));
    chip.append(make("span", "chip-share", values.probability));
    chip.onclick = () => pick(unit, chip);
    chips.append(chip);
  }
  panel.append(head, make("p", "hint", t(hasTree ? "why_hint" : "why_softmax")), chips, details);
  if (units.length) pick(units[0], chips.firstChild);
  return panel;
}
