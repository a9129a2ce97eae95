// What the page of a project asks of its server.

import { ask } from "./api.js";

const VISITOR = "arborvox-visitor";

// Who asks: a number drawn anew in each tab, so that two people are not given the same utterance.
function visitor() {
  let number = sessionStorage.getItem(VISITOR);
  if (!number) {
    number = crypto.getRandomValues(new Uint32Array(2)).join("-");
    sessionStorage.setItem(VISITOR, number);
  }
  return number;
}

async function get(path) {
  return (await ask(`/v1/project${path}`)).json();
}

async function send(path, value = {}, method = "POST") {
  const headers = { "Content-Type": "application/json" };
  const options = { method, body: JSON.stringify(value), headers };
  return (await ask(`/v1/project${path}`, options)).json();
}

// An id is as a path, such as ana/story/0003.
const place = (id) => `/items/${id.split("/").map(encodeURIComponent).join("/")}`;

export const getProject = () => get("");
export const listItems = (wanted) => get(`/items?${new URLSearchParams(wanted)}`);
export const getItem = (id) => get(place(id));
export const getNext = () => get(`/next?visitor=${visitor()}`);
export const getHistory = (id) => get(`${place(id)}/history`);
export const saveItem = (id, change) => send(place(id), change, "PUT"); // text, revision, author
export const skipItem = (id, change) => send(`${place(id)}/skip`, change); // revision, author
export const undoItem = (id, change) => send(`${place(id)}/undo`, change);
export const withdraw = (what) => send("/withdrawals", what);
export const getLearning = () => get("/learning");
export const startLearning = () => send("/learning");
export const stopLearning = () => send("/learning/stop");
export const acceptModel = (model) => send("/learning/accept", { model });
export const goBack = (model) => send("/learning/back", { model });

export async function getSound(id) {
  return (await ask(`/v1/project${place(id)}/audio`)).blob();
}
