// The panel that learns: a button, how far it is, what came of it, and the way back.

import { acceptModel, getLearning, goBack, startLearning, stopLearning } from "./project_api.js";
import { duration, number, points, share, t } from "./words.js";

const STEP_MS = 1000; // between looks at a round that goes on
const at = (id) => document.getElementById(id);

export class Learning {
  constructor({ onProblem, onModel }) {
    Object.assign(this, { onProblem, onModel, told: null });
    at("learn").onclick = () => this.do(startLearning);
    at("stop-learning").onclick = () => this.do(stopLearning);
    at("accept").onclick = () => this.do(() => acceptModel(this.told.offered));
    at("go-back").onclick = () => this.do(() => goBack(this.told.model));
  }

  async do(ask) {
    for (const button of this.buttons) button.disabled = true;
    at("learning-state").textContent = t("one_moment");
    try {
      this.show(await ask());
    } catch (error) {
      this.onProblem(error);
      await this.look();
    } finally {
      for (const button of this.buttons) button.disabled = false;
    }
  }

  get buttons() {
    return ["learn", "stop-learning", "accept", "go-back"].map(at);
  }

  async look() {
    clearTimeout(this.timer);
    try {
      this.show(await getLearning());
    } catch (error) {
      this.onProblem(error);
      this.timer = setTimeout(() => this.look(), 5 * STEP_MS);
    }
  }

  show(told) {
    const before = this.told;
    this.told = told;
    const { status, newest } = told;
    const isNew = newest && newest.name !== told.model; // and not left again
    at("model-facts").textContent = t(told.model === "base" ? "uses_base" : "uses_model", told);
    at("learning-state").textContent = sentence(told);
    const bar = at("learning-progress");
    bar.hidden = !status.running;
    bar.setAttribute("aria-label", t("learning_progress"));
    if (status.total) bar.value = status.done / status.total; // no more than 1 is shown
    else bar.removeAttribute("value");
    at("comparison").hidden = status.running || !newest;
    if (newest) showComparison(newest, told);
    at("learn").hidden = status.running;
    at("stop-learning").hidden = !status.running;
    at("accept").hidden = status.running || !told.offered;
    at("go-back").hidden = status.running || !told.previous;
    at("learn").className = told.offered && isNew ? "second-button" : "main-button";
    clearTimeout(this.timer);
    if (status.running) this.timer = setTimeout(() => this.look(), STEP_MS);
    if (before && before.model !== told.model) this.onModel();
  }
}

function sentence({ status, model }) {
  const done = Math.min(status.done, status.total); // the total of a training is an estimate
  if (status.running) return t(`stage_${status.stage}`, { ...status, done });
  if (status.stage === "failed") return t("learning_failed", status);
  if (["idle", "done"].includes(status.stage)) {
    return t(status.stage === "done" && status.model === model ? "learning_in_use" : "learning_hint");
  }
  return t("learning_stopped");
}

function showComparison(newest, told) {
  const models = [
    [newest.parent, newest.parent_rate, newest.parent_low, newest.parent_high],
    [newest.name, newest.rate, newest.low, newest.high],
  ];
  const lines = models.map(([name, value, low, high]) => {
    const line = document.createElement("tr");
    const head = document.createElement("th");
    head.scope = "row";
    head.textContent = t(name === "base" ? "model_base" : "model_learned", { name });
    if (name === told.model) head.append(` (${t("in_use")})`);
    const cell = document.createElement("td");
    cell.textContent = share(value);
    const interval = document.createElement("td");
    interval.textContent = t("from_to", { low: share(low), high: share(high) });
    line.append(head, cell, interval);
    return line;
  });
  at("comparison").querySelector("tbody").replaceChildren(...lines);
  at("rate-name").textContent = t(newest.metric === "PER" ? "rate_sounds" : "rate_letters");
  const facts = {
    difference: points(newest.difference),
    low: points(newest.difference_low),
    high: points(newest.difference_high),
    p: number(newest.p_value),
    count: newest.num_test,
    test: duration(newest.test_s),
    train: duration(newest.train_s),
  };
  at("verdict").textContent = t(`verdict_${newest.verdict}`);
  at("verdict-facts").textContent = t("verdict_facts", facts);
}
