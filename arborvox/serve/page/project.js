// The page of a project: one utterance to correct, the list of all, and the panel that learns.

import { Drafts } from "./drafts.js";
import { Items } from "./items.js";
import { Learning } from "./learning.js";
import { Mending } from "./mending.js";
import { askForToken, clearNotice, tell } from "./notice.js";
import { getProject, listItems } from "./project_api.js";
import { Withdrawal, sweepDrafts } from "./withdrawal.js";
import { duration, loadWords, t } from "./words.js";

const LOOK_MS = 5000; // between looks at what others do
const OPEN = "arborvox-item"; // the utterance that this tab has open
const at = (id) => document.getElementById(id);

let drafts, items, learning, mending;
let numChanges = null;

async function showCounts() {
  const project = await getProject();
  const facts = {
    done: project.num_confirmed,
    count: project.num_items,
    minutes: duration(project.confirmed_s),
    name: project.name,
  };
  at("counts").textContent = t("project_counts", facts);
  at("proposal").textContent = t(`propose_${project.propose}`);
  items.showSpeakers(project.speakers);
  mending.showLetters(project.letters);
  if (project.num_changes !== numChanges) await items.refresh();
  numChanges = project.num_changes;
}

async function look() {
  if (!document.hidden) await showCounts().catch(tell);
  setTimeout(look, LOOK_MS);
}

function onChange(item) {
  if (item) sessionStorage.setItem(OPEN, item.id);
  clearNotice();
  items.mark(item?.id);
  showCounts().catch(tell);
}

async function openFirst() {
  const last = sessionStorage.getItem(OPEN);
  const isThere = last && (await listItems([["id", last]])).total;
  if (isThere) await mending.open(last);
  else await mending.next();
}

async function begin() {
  try {
    const project = await getProject();
    document.title = `${project.name} \u2013 ${t("title")}`;
    if (!mending) {
      drafts = new Drafts(project.id);
      const withItem = { onProblem: tell, item: () => mending.item };
      mending = new Mending(drafts, { onProblem: tell, onChange });
      items = new Items({ onProblem: tell, onOpen: (id) => mending.do(() => mending.open(id)) });
      learning = new Learning({ onProblem: tell, onModel: () => mending.do(() => mending.renew()) });
      new Withdrawal({ ...withItem, onDone: forgetWithdrawn });
      setTimeout(look, LOOK_MS);
    }
    clearNotice();
    await sweepDrafts(drafts);
    await Promise.all([showCounts(), learning.look()]);
    await mending.do(openFirst);
  } catch (error) {
    tell(error);
  }
}

async function forgetWithdrawn() {
  await sweepDrafts(drafts);
  await mending.next();
}

await loadWords();
askForToken(begin);
await begin();
document.body.dataset.ready = "true";
