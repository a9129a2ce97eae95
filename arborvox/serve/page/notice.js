// What went wrong, in plain words, and the token where the server asks for it.

import { takeTokenFromAddress, useToken } from "./api.js";
import { t } from "./words.js";

const at = (id) => document.getElementById(id);

export function tell(error) {
  const box = at("notice");
  const details = error.details ? t("error_details", { details: error.details }) : "";
  const small = document.createElement("small");
  small.textContent = details;
  box.replaceChildren(t(error.word ?? "error_server"), small);
  box.hidden = false;
  at("token-form").hidden = error.word !== "error_token";
  if (!error.word) console.error(error);
}

export function clearNotice() {
  at("notice").hidden = at("token-form").hidden = true;
}

// Takes the token from the address, or from the form; then the page begins anew.
export function askForToken(begin) {
  takeTokenFromAddress();
  at("token-form").onsubmit = (event) => {
    event.preventDefault();
    useToken(at("token").value.trim());
    begin();
  };
}
