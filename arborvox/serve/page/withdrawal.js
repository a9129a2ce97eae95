// Taking a recording, or all of a speaker, back: asked twice, since nothing brings it back.

import { listItems, withdraw } from "./project_api.js";
import { t } from "./words.js";

const at = (id) => document.getElementById(id);

export class Withdrawal {
  constructor({ item, onProblem, onDone }) {
    Object.assign(this, { item, onProblem, onDone });
    at("withdraw-recording").onclick = () => this.ask("recording");
    at("withdraw-speaker").onclick = () => this.ask("speaker");
    at("confirm-no").onclick = () => at("confirm").close();
  }

  ask(kind) {
    const name = this.item()[kind];
    at("confirm-title").textContent = t(`withdraw_${kind}_title`, { name });
    at("confirm-text").textContent = t("withdraw_text");
    at("confirm-yes").textContent = t("withdraw_yes");
    at("confirm-yes").hidden = false;
    at("confirm-no").textContent = t("cancel");
    at("confirm-yes").onclick = () => this.carryOut(kind, name);
    at("confirm").showModal();
    at("confirm-no").focus();
  }

  async carryOut(kind, name) {
    at("confirm-yes").disabled = true;
    try {
      const gone = await withdraw({ [kind]: name });
      at("confirm-title").textContent = t("withdrawn_title");
      const told = t("withdrawn", { count: gone.num_items, recordings: gone.recordings.join(", ") });
      const models = gone.models.join(", ");
      const heard = t(models ? "withdrawn_models" : "withdrawn_no_models", { models });
      at("confirm-text").textContent = `${told}\n${heard}`;
      at("confirm-yes").hidden = true;
      at("confirm-no").textContent = t("close");
      await this.onDone();
    } catch (error) {
      at("confirm").close();
      this.onProblem(error);
    } finally {
      at("confirm-yes").disabled = false;
    }
  }
}

// Drafts of what was withdrawn, by whomever, must not stay in this browser.
export async function sweepDrafts(drafts) {
  const { ids } = drafts;
  if (!ids.length) return;
  const asked = new URLSearchParams(ids.map((id) => ["id", id]));
  asked.set("limit", String(ids.length));
  const known = new Set((await listItems(asked)).items.map(({ id }) => id));
  for (const id of ids) if (!known.has(id)) drafts.forget(id);
}
