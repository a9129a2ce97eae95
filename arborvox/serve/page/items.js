// The list of utterances: searched, filtered, and opened by a click.

import { listItems } from "./project_api.js";
import { clock, t } from "./words.js";

const PAGE = 50;
const PAUSE_MS = 250; // while somebody types
const STATES = ["", "draft", "confirmed", "skipped"];
const at = (id) => document.getElementById(id);

export class Items {
  constructor({ onOpen, onProblem }) {
    Object.assign(this, { onOpen, onProblem, current: null, count: PAGE, asked: 0 });
    at("state").replaceChildren(
      ...STATES.map((state) => new Option(t(`state_${state || "any"}`), state)),
    );
    at("search").oninput = () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.startAnew(), PAUSE_MS);
    };
    at("state").onchange = at("speaker").onchange = () => this.startAnew();
    at("more-items").onclick = () => {
      this.count += PAGE;
      this.refresh();
    };
  }

  showSpeakers(speakers) {
    const before = at("speaker").value;
    const options = speakers.map((speaker) => new Option(speaker, speaker));
    at("speaker").replaceChildren(new Option(t("any_speaker"), ""), ...options);
    at("speaker").value = speakers.includes(before) ? before : "";
  }

  startAnew() {
    this.count = PAGE;
    return this.refresh();
  }

  async refresh() {
    this.asked += 1;
    const mine = this.asked;
    const wanted = { limit: this.count, search: at("search").value };
    if (at("state").value) wanted.state = at("state").value;
    if (at("speaker").value) wanted.speaker = at("speaker").value;
    try {
      const { items, total } = await listItems(wanted);
      if (mine !== this.asked) return; // an older answer that comes late
      this.show(items);
      at("nothing").hidden = total > 0;
      at("more-items").hidden = total <= items.length;
    } catch (error) {
      this.onProblem(error);
    }
  }

  show(items) {
    const focused = document.activeElement?.closest("#items button")?.dataset.id;
    at("items").replaceChildren(...items.map((item) => this.line(item)));
    this.mark(this.current);
    if (focused) this.button(focused)?.focus();
  }

  line(item) {
    const line = document.createElement("li");
    const button = document.createElement("button");
    button.type = "button";
    button.dataset.id = item.id;
    button.onclick = () => this.onOpen(item.id);
    const text = document.createElement("span");
    text.className = "item-text";
    text.dir = "auto";
    text.textContent = item.text || t("no_text");
    const facts = document.createElement("span");
    facts.className = `item-facts is-${item.state}`;
    const known = [t(`state_${item.state}`), item.speaker, clock(item.duration_s)];
    facts.textContent = known.filter(Boolean).join(" \u00b7 ");
    button.append(text, facts);
    line.append(button);
    return line;
  }

  button(id) {
    return at("items").querySelector(`button[data-id="${CSS.escape(id)}"]`);
  }

  mark(id) {
    this.current = id;
    at("items").querySelector("[aria-current]")?.removeAttribute("aria-current");
    if (id) this.button(id)?.setAttribute("aria-current", "true");
  }
}
