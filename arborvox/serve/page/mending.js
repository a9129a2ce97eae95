// One utterance at a time: its sound, its text, and what becomes of it.

import { getHistory, getItem, getNext, getSound, saveItem, skipItem, undoItem } from "./project_api.js";
import { Player } from "./player.js";
import { clock, dateTime, t } from "./words.js";

const at = (id) => document.getElementById(id);
const KEYS = { Escape: "play", F2: "again", F4: "back", F8: "skip", F9: "undo" };
const AUTHOR = "arborvox-author";

export class Mending {
  constructor(drafts, { onProblem, onChange }) {
    Object.assign(this, { drafts, onProblem, onChange, item: null, done: [] });
    this.player = new Player();
    at("item").onsubmit = (event) => {
      event.preventDefault();
      this.do(() => this.save());
    };
    at("skip").onclick = () => this.do(() => this.skip());
    at("undo").onclick = () => this.do(() => this.undo());
    at("text").oninput = () => this.keepDraft();
    at("text").onkeydown = (event) => this.sendByEnter(event);
    at("take-theirs").onclick = () => this.do(() => this.takeTheirs());
    at("keep-mine").onclick = () => this.do(() => this.save());
    at("more").ontoggle = () => at("more").open && this.do(() => this.showHistory());
    at("author").value = localStorage.getItem(AUTHOR) ?? "";
    at("author").oninput = () => localStorage.setItem(AUTHOR, at("author").value);
    addEventListener("keydown", (event) => this.press(event));
  }

  // --- keys ----------------------------------------------------------------------------------

  press(event) {
    const button = KEYS[event.key];
    if (!button || event.isComposing || !this.item || document.querySelector("dialog[open]")) return;
    if (event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    at(button).click();
  }

  // A text is one line, so Enter is free; but not while a letter is being put together.
  sendByEnter(event) {
    if (event.key !== "Enter" || event.isComposing || event.shiftKey) return;
    event.preventDefault();
    at("item").requestSubmit();
  }

  showLetters(letters) {
    const row = at("letters");
    row.hidden = !letters.length;
    row.setAttribute("aria-label", t("letters"));
    row.replaceChildren(
      ...letters.map((letter) => {
        const button = document.createElement("button");
        button.type = "button";
        button.className = "letter";
        // A mark that combines needs something to stand on.
        button.textContent = /^\p{M}/u.test(letter) ? `\u25cc${letter}` : letter;
        button.onclick = () => this.insert(letter);
        return button;
      }),
    );
  }

  insert(letter) {
    const field = at("text");
    field.setRangeText(letter, field.selectionStart, field.selectionEnd, "end");
    this.keepDraft();
    field.focus();
  }

  // --- showing -------------------------------------------------------------------------------

  async next() {
    const { item } = await getNext();
    await this.show(item);
  }

  async open(id) {
    await this.show(await getItem(id));
  }

  // Another model has written other drafts.
  async renew() {
    if (this.item) await this.show(await getItem(this.item.id), { focus: false });
  }

  async show(item, { focus = true } = {}) {
    const isOther = item?.id !== this.item?.id;
    this.item = item;
    at("item").hidden = !item;
    at("all-done").hidden = Boolean(item);
    at("conflict").hidden = true;
    at("item-facts").textContent = item ? factsOf(item) : "";
    this.onChange(item);
    if (!item) return this.player.hide();
    const draft = this.drafts.find(item.id);
    const isBegun = draft && draft.text !== item.text;
    if (draft && !isBegun) this.drafts.forget(item.id);
    at("text").value = isBegun ? draft.text : item.text;
    // A language without a code (x-name) tells a screen reader nothing.
    if (item.language.startsWith("x-")) at("text").removeAttribute("lang");
    else at("text").lang = item.language;
    at("item-state").textContent = stateOf(item, isBegun);
    at("undo").disabled = item.state === "draft" && !this.done.length;
    at("withdraw-speaker").hidden = !item.speaker;
    if (isBegun && draft.revision !== item.revision) this.showConflict(item);
    if (at("more").open) await this.showHistory();
    if (focus) at("text").focus();
    if (isOther) this.playSound(item.id).catch(this.onProblem); // whoever types waits for no sound
  }

  async playSound(id) {
    this.player.hide();
    const sound = await getSound(id);
    if (this.item?.id !== id) return; // another one has come meanwhile
    await this.player.show(sound);
  }

  async showHistory() {
    const { id } = this.item;
    const changes = await getHistory(id);
    if (this.item?.id !== id) return;
    const lines = changes.map((change) => {
      const line = document.createElement("li");
      const text = document.createElement("span");
      text.dir = "auto";
      text.textContent = change.text;
      const by = { who: change.author || t("somebody"), when: dateTime(change.time) };
      const facts = document.createElement("small");
      facts.textContent = t(`change_${change.kind}`, by);
      line.append(text, facts);
      return line;
    });
    at("history").replaceChildren(...lines);
    at("no-history").hidden = lines.length > 0;
  }

  // --- changing ------------------------------------------------------------------------------

  get change() {
    return { revision: this.item.revision, author: at("author").value.trim() };
  }

  keepDraft() {
    if (!this.item) return;
    this.drafts.keep(this.item.id, at("text").value, this.item.revision);
    at("item-state").textContent = t("draft_kept");
  }

  async save() {
    const { id } = this.item;
    const text = at("text").value;
    this.drafts.keep(id, text, this.item.revision);
    await this.finish(await saveItem(id, { text, ...this.change }));
  }

  async skip() {
    await this.finish(await skipItem(this.item.id, this.change));
  }

  async finish(changed) {
    this.drafts.forget(changed.id);
    this.done.push(changed);
    await this.next();
  }

  // Takes back what was done to this utterance or, if nothing was, what was done last of all.
  async undo() {
    const last = this.item.state === "draft" ? this.done.at(-1) : this.item;
    if (!last) return;
    const item = await undoItem(last.id, { ...this.change, revision: last.revision });
    this.done = this.done.filter(({ id }) => id !== last.id);
    this.drafts.forget(last.id);
    await this.show(item);
  }

  async takeTheirs() {
    this.drafts.forget(this.item.id);
    await this.show(this.item);
  }

  // Somebody else was here: both texts are shown, and nothing is written until one is chosen.
  showConflict(theirs) {
    this.item = theirs;
    at("theirs").textContent = theirs.text;
    at("mine").textContent = at("text").value;
    at("conflict").hidden = false;
    at("item-state").textContent = "";
    at("take-theirs").focus();
  }

  // One thing at a time: a key that is held down saves once.
  async do(work) {
    if (this.isBusy) return;
    this.isBusy = true;
    try {
      await work();
    } catch (error) {
      if (error.status === 409 && error.answer.item) this.showConflict(error.answer.item);
      else this.onProblem(error);
    } finally {
      this.isBusy = false;
    }
  }
}

function factsOf(item) {
  const facts = [item.id, clock(item.duration_s), item.split === "test" && t("in_test")];
  return facts.filter(Boolean).join(" \u00b7 ");
}

function stateOf(item, isBegun) {
  if (isBegun) return t("draft_found");
  const by = { who: item.author || t("somebody"), when: item.time ? dateTime(item.time) : "" };
  return t(`is_${item.state}`, by);
}
