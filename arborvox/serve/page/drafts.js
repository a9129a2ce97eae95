// Texts that were begun and not yet sent: closing the tab loses none of them.

const PREFIX = "arborvox-draft:";

export class Drafts {
  constructor(project) {
    this.prefix = `${PREFIX}${project}:`;
  }

  keep(id, text, revision) {
    try {
      localStorage.setItem(this.prefix + id, JSON.stringify({ text, revision }));
    } catch {
      // the browser keeps nothing for this page: what is saved is on the server all the same
    }
  }

  find(id) {
    try {
      return JSON.parse(localStorage.getItem(this.prefix + id));
    } catch {
      return null;
    }
  }

  forget(id) {
    localStorage.removeItem(this.prefix + id);
  }

  get ids() {
    const keys = Object.keys(localStorage).filter((key) => key.startsWith(this.prefix));
    return keys.map((key) => key.slice(this.prefix.length));
  }
}
